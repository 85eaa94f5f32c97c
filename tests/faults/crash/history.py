"""The history checker: what a trial's ledger says was promised, against the rows that are left when everything is at rest.

Owns: the invariants, one function each, which together say what correct means. Must not know: what went wrong in between,
or how the rows came about. Invariant: a function answers with what breaks its promise, and with nothing when it is kept.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from db.store.engine import sqlite_library
from runner.strategies.loop.rebuild import LOST
from runner.strategies.plan.confirm import RUN_STEP
from tests.faults.crash.brigade import LEAD, ROOT, label_of, last_word
from tests.faults.crash.ledger import Entry
from tests.faults.crash.nest_history import levels_are_one_tree
from tests.faults.crash.plan_history import people_are_asked_once, plans_are_whole, users_are_answered_once
from tests.faults.crash.scene import rows_of
from tests.properties.verdicts import PROMISES

OPEN = ("pending", "running")
Row = Mapping[str, Any]


@dataclass(frozen=True)
class History:
    """A database at rest and the ledger of how it came there."""

    database: Path
    entries: Sequence[Entry] = field(default=())
    agent: str = LEAD
    """What was dispatched."""

    def sql(self, query: str) -> list[dict[str, Any]]:
        """Rows."""
        return rows_of(self.database, query)

    @cached_property
    def executions(self) -> Mapping[str, Row]:
        """Every execution, by id."""
        return {row["id"]: row for row in self.sql("select * from executions order by id")}

    def labelled(self, label: str) -> list[Row]:
        """The executions of a label; in a trial every one is given once."""
        return [row for row in self.executions.values() if label_of(row) == label]

    def of(self, what: str, stage: str) -> list[Entry]:
        """The lines of the ledger of one kind."""
        return [entry for entry in self.entries if (entry.what, entry.stage) == (what, stage)]

    @cached_property
    def replies(self) -> Mapping[str, list[list[dict[str, Any]]]]:
        """What the model of each execution said, message by message."""
        found: dict[str, list[list[dict[str, Any]]]] = {execution: [] for execution in self.executions}
        for row in self.sql("select execution_id, content from messages where kind = 'reply' order by position"):
            found[row["execution_id"]].append(json.loads(row["content"]))
        return found

    def broken(self, *promises: str) -> list[str]:
        """Rows that break promises of the store."""
        return [f"{promise}: {row}" for promise in promises for row in self.sql(PROMISES[promise])]


def ids_resolve(history: History) -> list[str]:
    """I1: an id that was returned resolves, and what was started is there, once."""
    told = history.of("dispatch", "ok")
    lost = [
        f"dispatch {entry.label} was told as {entry.more['id']}, which is nowhere"
        for entry in told
        if entry.label not in map(label_of, filter(None, [history.executions.get(entry.more["id"])]))
    ]
    asked = {entry.label for entry in (*told, *history.of("turn", "invoke"))}
    return lost + [
        f"{label} has {len(found)} executions" for label in sorted(asked) if len(found := history.labelled(label)) != 1
    ]


def terminal_is_final(history: History) -> list[str]:
    """I2: a terminal status never changes, there is exactly one terminal event, and what has ended works no more."""
    changed = [
        f"{entry.label} was told as {entry.more['status']} and is {row['status']}"
        for entry in history.of("result", "ok")
        if (row := history.executions.get(entry.more["id"])) is not None and row["status"] != entry.more["status"]
    ]
    later = history.sql("""
        select ended.execution_id, later.type from events as ended
        join events as later on later.execution_id = ended.execution_id and later.seq > ended.seq
        where ended.type = 'execution.status' and later.type = 'execution.status'
          and json_extract(ended.payload, '$.status') not in ('pending', 'running')""")
    ends = ("every execution has exactly one terminal event", "the terminal event says what the row says")
    return changed + [f"after its end: {row}" for row in later] + history.broken(*ends) + _went_on(history)


def _went_on(history: History) -> list[str]:
    """Whose end was kept when the process was killed is not asked again, and its tools do not run again."""
    found, ended = list[str](), set[str]()
    for entry in history.entries:
        if entry.what == "kill":
            ended |= set(entry.more["ended"])
        elif entry.what in ("turn", "tool") and entry.label in ended:
            found.append(f"{entry.label} had ended, and went on with a {entry.what}")
    return found


def nothing_runs_below_an_end(history: History) -> list[str]:
    """I3: nothing runs under a terminal ancestor."""
    left = [
        f"{row['id']} is {row['status']} below {above['id']}, which is {above['status']}"
        for row in history.executions.values()
        if row["status"] in OPEN
        if (above := history.executions.get(row["parent_execution_id"])) is not None and above["status"] not in OPEN
    ]
    worked = history.sql("""
        select work.execution_id, work.seq from events as work
        join events as above on above.execution_id = work.parent_execution_id and above.type = 'execution.status'
          and json_extract(above.payload, '$.status') not in ('pending', 'running')
        where work.type = 'timeline_event.created' and work.seq > above.seq
          and json_extract(work.payload, '$.kind') is not 'model'""")
    return left + [f"began below an end: {row}" for row in worked] + history.broken("children end before their parents")


def turns_are_whole(history: History) -> list[str]:
    """I4: turns are contiguous, each tool call has exactly one result, and no acknowledged turn is lost or asked again."""
    promises = (
        "every tool call has its result",
        "whatever began in a timeline ended, once",
        "whatever ended in a timeline had begun, once",
        "every event says in which session its execution works",
        "a dispatch that made a child is answered with the child's id",
        "own totals are the sums of the calls",
    )
    return [
        *_gaps(history),
        *_unpaired(history),
        *history.broken(*promises),
        *_lost_turns(history),
        *_asked_again(history),
        *_unaccounted(history),
        *_shown_otherwise(history),
    ]


def _gaps(history: History) -> list[str]:
    """Numbers that are missing or twice. A call whose answer nobody heard has the number of the one that was made again."""
    tables = (("messages", "position", 0, "true"), ("model_calls", "turn", 1, f"pricing != '{LOST}'"))
    found = []
    for table, column, first, counts in tables:
        numbers: dict[str, list[int]] = {}
        for row in history.sql(f"select execution_id, {column} as number from {table} where {counts} order by 1, 2"):
            numbers.setdefault(row["execution_id"], []).append(row["number"])
        found += [
            f"{table} of {execution} are numbered {given}"
            for execution, given in numbers.items()
            if given != list(range(first, first + len(given)))
        ]
    return found


def _unpaired(history: History) -> list[str]:
    kept = history.sql(f"select execution_id, call_id from tool_calls where tool != '{RUN_STEP.name}'")  # no model calls it
    answered = Counter((row["execution_id"], row["call_id"]) for row in kept)
    asked = Counter(
        (execution, block["id"])
        for execution, replies in history.replies.items()
        for reply in replies
        for block in reply
        if block["type"] == "tool_use"
    )
    return [
        f"call {call} was made {asked[call]} times and kept {answered[call]} times"
        for call in asked | answered
        if (asked[call], answered[call]) != (1, 1)
    ]


def acknowledged(entries: Iterable[Entry]) -> dict[str, tuple[int, set[str]]]:
    """How many turns of each task, and which calls, somebody outside has seen: in a later request, or as a tool's run."""
    shown: dict[str, tuple[int, set[str]]] = {}
    for entry in entries:
        turns, calls = shown.get(entry.label, (0, set()))
        if (entry.what, entry.stage) == ("turn", "invoke"):
            shown[entry.label] = max(turns, entry.more["turn"] - 1), calls | set(entry.more["calls"])
        elif (entry.what, entry.stage) == ("tool", "invoke"):
            shown[entry.label] = max(turns, 1), calls
    return shown


def _lost_turns(history: History) -> list[str]:
    lost = []
    for label, (turns, calls) in acknowledged(history.entries).items():
        kept = [reply for row in history.labelled(label) for reply in history.replies[row["id"]]]
        missing = calls - {block["id"] for reply in kept for block in reply if block["type"] == "tool_use"}
        if len(kept) < turns or missing:
            lost.append(f"{label} had {turns} acknowledged turns, {len(kept)} are kept, without {sorted(missing)}")
    return lost


def _asked_again(history: History) -> list[str]:
    """A reply that was kept when the process was killed is not asked for once more."""
    again, kept = [], dict[str, int]()
    for entry in history.entries:
        if entry.what == "kill":
            kept = entry.more["replies"]
        elif (entry.what, entry.stage) == ("turn", "invoke") and entry.more["turn"] <= kept.get(entry.label, 0):
            again.append(f"turn {entry.more['turn']} of {entry.label} was kept and asked for again")
    return again


def _unaccounted(history: History) -> list[str]:
    """Every request that reached the model server has its row: with the answer, or as lost; but for what was stopped."""
    stopped = {label_of(row) for row in history.executions.values() if row["status"] == "cancelled"}
    asked = Counter(
        (entry.label, entry.more["turn"]) for entry in history.of("turn", "invoke") if entry.label not in stopped
    )
    kept = Counter(
        (label_of(history.executions[row["execution_id"]]), row["turn"])
        for row in history.sql("select execution_id, turn from model_calls")
    )
    return [
        f"turn {turn} of {label} was asked for {count} times and is accounted for {kept[label, turn]} times"
        for (label, turn), count in asked.items()
        if count > kept[label, turn]
    ]


def _shown_otherwise(history: History) -> list[str]:
    """A model is asked what the API accepts, reads on where it stopped, and what it read of a call is what is kept."""
    found, marks = [], dict[str, list[str]]()
    kept = {row["call_id"]: row["result"] or "" for row in history.sql("select call_id, result from tool_calls")}
    for entry in history.of("turn", "invoke"):
        found += [f"{entry.label} was asked what no API accepts: {each}" for each in entry.more.get("wrong", ())]
        which = f"{entry.label} {entry.more.get('attempt', 1)}"
        before, now = marks.get(which, []), entry.more.get("marks", [])
        if now[: len(before)] != before:
            found.append(f"{entry.label} was shown something else the next time")
        marks[which] = now
        found += [
            f"{entry.label} was shown another result of {call} than is kept"
            for call, shown in entry.more.get("results", {}).items()
            if kept.get(call, "") not in shown
        ]
    return found


def effects_happen_once(history: History) -> list[str]:
    """I5: what must not run twice never does; cut by a crash it is recorded as unknown, and the model is told."""
    runs = Counter(
        (entry.more["tool"], entry.label) for entry in history.of("tool", "invoke") if entry.more["tool"] != "look"
    )
    found = [f"{tool} of {label} ran {count} times" for (tool, label), count in runs.items() if count > 1]
    calls = {row["id"]: row for row in history.sql("select * from tool_calls")}
    cut = {call for entry in history.of("kill", "ok") for call in entry.more["cut"]}
    for call in cut:
        row = calls.get(call)
        if row is None or row["status"] != "unknown":
            found.append(f"{call} was cut and is {row['status'] if row is not None else 'gone'}")
        elif "unknown" not in (row["result"] or ""):
            found.append(f"{call} is unknown, and its result does not say so: {row['result']}")
    found += [
        f"{call} is unknown, and nothing cut it"
        for call, row in calls.items()
        if row["status"] == "unknown" and call not in cut
        if history.executions[row["execution_id"]]["cancel_requested_at"] is None
    ]
    return found


def nothing_starts_below_a_cancel(history: History) -> list[str]:
    """I6: nothing is dispatched below an acknowledged cancel."""
    cancelled, killed, late = list[str](), False, []
    for entry in history.entries:
        killed = killed or entry.what == "kill"
        if (entry.what, entry.stage) == ("cancel", "ok"):
            cancelled.append(entry.label)
        elif (entry.what, entry.stage) == ("turn", "invoke") and (killed or entry.more["turn"] == 1):
            late += [
                f"{entry.label} went on below {above}" for above in cancelled if f"{entry.label}.".startswith(f"{above}.")
            ]
    promises = ("nothing succeeds or starts once it was asked to stop", "nothing is born below a cancelled one")
    return late + history.broken(*promises)


def results_reach_parents_once(history: History) -> list[str]:
    """I7: a child's result reaches its parent exactly once, and so does whatever else it was told."""
    told = history.sql("select execution_id, content from messages where kind = 'delivery'")
    counts = {
        (entry.label, entry.more["text"]): sum(
            entry.more["text"] in row["content"] for row in told if row["execution_id"] == entry.more["id"]
        )
        for entry in history.of("message", "ok")
        if history.executions.get(entry.more["id"], {}).get("status") == "completed"
    }
    return [f"{label} was told `{text}` {count} times" for (label, text), count in counts.items() if count != 1] + (
        history.broken(
            "every child has exactly one delivery, in its parent's inbox",
            "one that completed has read everything",
            "what was consumed is shown by the message or tool result that consumed it",
            "no report is shown twice, nor one that was read before",
            "what get_result has told is not pushed afterwards",
        )
    )


def nothing_is_left_at_rest(history: History) -> list[str]:
    """I9: at rest nothing is open and nothing lives; what was open at a kill was taken up again or says why it ended."""
    rest = [f"{entry.more['processes']} processes live" for entry in history.of("rest", "ok") if entry.more["processes"]]
    left = [
        f"{row['id']} ({row['task']}) is {row['status']}" for row in history.executions.values() if row["status"] in OPEN
    ]
    silent = [
        f"{execution} was open at a kill and ended as {row['status']} without a reason"
        for entry in history.of("kill", "ok")
        for execution, attempt in entry.more["open"].items()
        if (row := history.executions.get(execution)) is not None
        and row["attempt"] <= attempt
        and not (row["reason"] or row["error_type"] or row["cancel_reason"])
    ]
    return rest + left + silent


def result_is_the_same(history: History) -> list[str]:
    """A tree says in the end what it would have said undisturbed, but for the strikes whose outcome nobody knows."""
    unknown = {
        label_of(history.executions[row["execution_id"]])
        for row in history.sql("select execution_id from tool_calls where status = 'unknown'")
    }
    expected = last_word(history.agent, unknown)
    return [
        f"{row['status']} with {text!r} instead of {expected!r}"
        for row in history.labelled(ROOT)
        if row["cancel_requested_at"] is None and (text := json.loads(row["result"] or "{}").get("output")) != expected
    ]


def durations_are_not_negative(history: History) -> list[str]:
    """I10: no duration is negative."""
    spans = {
        "executions": (("created_at", "started_at"), ("started_at", "finished_at"), ("created_at", "finished_at")),
        "model_calls": (("started_at", "finished_at"),),
        "tool_calls": (("started_at", "finished_at"),),
    }
    found = [
        f"{table} {row['id']}: {first} is after {last}"
        for table, pairs in spans.items()
        for first, last in pairs
        for row in history.sql(f"select id from {table} where {first} > {last}")
    ]
    told = history.sql("select seq from events where json_extract(payload, '$.seconds') < 0")
    return found + [f"event {row['seq']} tells of less than no time" for row in told]


def file_is_sound(history: History) -> list[str]:
    """The database is undamaged."""
    try:
        checks = history.sql("pragma integrity_check") + history.sql("pragma foreign_key_check")
    except sqlite_library().DatabaseError as error:
        return [str(error)]
    return [str(row) for row in checks if row != {"integrity_check": "ok"}]


INVARIANTS: Mapping[str, Callable[[History], list[str]]] = {
    "file": file_is_sound,
    "I1": ids_resolve,
    "I2": terminal_is_final,
    "I3": nothing_runs_below_an_end,
    "I4": turns_are_whole,
    "I5": effects_happen_once,
    "I6": nothing_starts_below_a_cancel,
    "I7": results_reach_parents_once,
    "I9": nothing_is_left_at_rest,
    "I10": durations_are_not_negative,
    "result": result_is_the_same,
    "plan": plans_are_whole,
    "question": people_are_asked_once,
    "chat": users_are_answered_once,
    "nest": levels_are_one_tree,
}


def violations(history: History) -> dict[str, list[str]]:
    """What is broken, by invariant; of a damaged file nothing else can be said."""
    found: dict[str, list[str]] = {}
    for name, check in INVARIANTS.items():
        if "file" not in found and (broken := check(history)):
            found[name] = broken
    return found
