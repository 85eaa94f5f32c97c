"""Every guarantee, in the order of the page."""

from __future__ import annotations

from tests.faults import page as outside
from tests.faults.guarantees.cancels import bereft, cancelled
from tests.faults.guarantees.guarantee import Broken, Course, Guarantee, Measured
from tests.faults.guarantees.kills import (
    carried_out,
    decided_once,
    killed,
    none_goes_on,
    none_twice,
    nothing_lost,
    same_result,
    swept,
)
from tests.faults.guarantees.listeners import listened
from tests.faults.guarantees.recoveries import recovered
from tests.faults.guarantees.suites import Suite, held_up, overshoot, said, stayed_open


def contained(_: Course) -> Measured:
    """Every fault of the model API and of upstream servers; their own page has the figures."""
    try:
        return Measured("every one ends as its row says: [faults](faults.md)", outside.measure_all())
    except SystemExit as error:
        raise Broken(str(error)) from error


EVERY = (
    Guarantee(
        "tree",
        "a process killed at any moment of a tree of three levels, or of a chain, loses nothing and leaves nothing running",
        killed("tree", 1000, nothing_lost),
    ),
    Guarantee("sync", "killed at any write to the disk, it comes to the same result", swept("sync", same_result)),
    Guarantee("birth", "so it does when the database is being made", swept("birth", same_result)),
    Guarantee("again", "killed once more while it recovers, it loses nothing either", killed("again", 200, nothing_lost)),
    Guarantee(
        "together",
        "two processes that recover at the same time share no execution and lose none",
        killed("together", 200, nothing_lost),
    ),
    Guarantee(
        "plan",
        "a plan killed at any moment, in a retry, a revision or a question, is carried out once and its user answered once",
        killed("plan", 400, carried_out),
    ),
    Guarantee(
        "plan-sync", "killed at any write to the disk, a plan comes to the same result", swept("plan-sync", same_result)
    ),
    Guarantee(
        "nest",
        "a route that plans, whose step iterates, whose worker dispatches, killed at any moment goes on as one tree",
        killed("nest", 300, decided_once),
    ),
    Guarantee(
        "recovery",
        "ten thousand interrupted executions hold no start up, and all of them go on",
        recovered,
    ),
    Guarantee(
        "tool",
        "a tool that must not run twice never does; killed inside it, its outcome is told as unknown",
        killed("tool", 500, none_twice),
    ),
    Guarantee(
        "stop",
        "what is killed while it is being cancelled stays cancelled; nothing below goes on",
        killed("stop", 200, none_goes_on),
    ),
    Guarantee(
        "transcripts",
        "a transcript cut after any commit becomes a request that the Messages API accepts",
        Suite(
            "tests/runner/strategies/loop/test_cut_transcripts.py", "OUTRIDER_PREFIXES", 2000, said("every one accepted")
        ),
    ),
    Guarantee("cancel", "a cancelled tree of a thousand is over at once", cancelled),
    Guarantee(
        "children",
        "the own servers of cancelled executions are gone within five seconds, with all they started, whatever they ignore",
        bereft,
    ),
    Guarantee(
        "races",
        "cancel, complete and spawn in any order: each execution ends once, each result is told once",
        Suite("tests/properties/test_interleavings.py", "OUTRIDER_INTERLEAVINGS", 10_000, said("exactly one end each")),
    ),
    Guarantee(
        "budgets",
        "a tree goes over a limit by no more than its estimates in flight were wrong; a parent's limit binds all below it",
        Suite("tests/properties/test_spending.py", "OUTRIDER_TREES", 1000, overshoot),
    ),
    Guarantee(
        "approvals",
        "no forged, replayed, tampered, expired or foreign approval is accepted",
        Suite("tests/properties/test_forgeries.py", "OUTRIDER_FORGERIES", 2000, said("0 accepted")),
    ),
    Guarantee(
        "shutdown",
        "told to stop with fifty trees at work, it ends within the grace, cuts nothing short, and the next process goes on",
        Suite("tests/faults/shutdown/test_shutdown.py", "OUTRIDER_SHUTDOWNS", 100, said("every exit clean and in time")),
    ),
    Guarantee(
        "approvals-stop",
        "a question to a person that is open when its process stops, is killed or loses its client stays open, over stdio, "
        "over HTTP and in `run`",
        Suite("tests/faults/shutdown/test_open_questions.py", "OUTRIDER_QUESTION_STOPS", 20, stayed_open),
    ),
    Guarantee(
        "projects",
        "a process that lacks what an interrupted tree needs, such as a key, never touches the tree, in its own project or "
        "with the same database",
        Suite(
            "tests/server/cli/test_interrupted.py", "OUTRIDER_PROJECTS", 50, said("every row as it was after every stop")
        ),
    ),
    Guarantee(
        "storage",
        "a full, failing, locked, read-only or displaced database loses nothing acknowledged, and work goes on afterwards",
        Suite("tests/faults/storage/test_storage.py", "OUTRIDER_STORAGE_ROUNDS", 10, said("0 lost in every round")),
    ),
    Guarantee(
        "acknowledgements",
        "an id is told only after its row is on the disk",
        Suite("tests/faults/storage/test_acknowledgement.py", "OUTRIDER_ACKNOWLEDGEMENTS", 1000, said("0 told before")),
    ),
    Guarantee(
        "queries",
        "hostile SQL of a client (columns, rows, values, time, number) holds up neither the service nor other clients",
        Suite("tests/server/mcp_face/test_queries.py", "OUTRIDER_QUERIES", 200, held_up),
    ),
    Guarantee(
        "listeners",
        "a thousand listeners hear every event once and in time, also those that did not read and were dropped; agents "
        "work on as if there were none",
        listened,
    ),
    Guarantee("outside", "whatever a model API or an upstream server does is contained", contained),
)
