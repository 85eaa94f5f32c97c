"""The cast of `interrupted.db`: what the model says for each agent of the trees in it, before they were cut and after.

Owns: the answers, the tools and the function that the stored configurations name. Must not know: where a tree was cut.
Invariant: an answer follows from what the model is shown, so a tree that goes on comes to the answer it would have had.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from runner.llm.protocol import Request
from tests.support.local_tools import Function, LocalTools
from tests.support.models import Script, ScriptedModel, Turn, call, fail, say
from tests.support.reading import delivered, dispatch, results, shown, text_of
from tests.support.spending import used

PAGES = 40
"""Pages that the archivist reads: more than its model's window holds."""


def first(request: Request) -> str:
    """The first message of a request."""
    return request.messages[0].text


def turns(request: Request) -> int:
    """The replies in a request."""
    return sum(message.role == "assistant" for message in request.messages)


def kinds(request: Request, kind: str) -> int:
    """The messages of a kind in a request."""
    return sum(message.kind == kind for message in request.messages)


def outcome_of(request: Request) -> str:
    """The newest tool result of a request, in one word."""
    block = results(request)[-1]
    return "unknown" if block.get("is_error") else text_of(block)


def reports(request: Request) -> str:
    """The reports of all children, in the order of their texts."""
    return "; ".join(sorted(f"{each.agent} {each.status}: {each.text}" for each in delivered(request)))


# -- loop --------------------------------------------------------------------------------------------------------------


def captain(request: Request) -> Turn:
    """Send a scout east, then three more, and sound the depth; name the key of the first once more; wait for all."""
    match turns(request):
        case 0:
            return dispatch("Scout", "east", idempotency_key="east")
        case 1:
            west, north, south = (dispatch("Scout", each) for each in ("west", "north", "south"))
            return say("all out") + west + north + south + call("sound")
        case 2:
            return say(f"depth {outcome_of(request)}") + dispatch("Scout", "east", idempotency_key="east")
        case _:
            depth = re.search(r"depth \w+", shown(request))
            return say(f"{depth and depth[0]}; {reports(request)}" if len(delivered(request)) == 4 else "I wait")


def clerk(request: Request) -> Turn:
    """Look once, then report what the tool said and what a person said meanwhile."""
    if turns(request) == 0:
        return call("look", where="cellar")
    told = "the south too" if "the south too" in shown(request) else "nothing"
    report = {"summary": f"{outcome_of(request)}; told: {told}", "reason": "the south is far"}
    made = [{"type": "file", "path": "notes/cellar.md"}]
    return call("finish", status="partial", artifacts=made, next_steps=["look in the south"], **report)


def counter(request: Request) -> Turn:
    """Look until no tool is left, then say how often it was reminded."""
    if request.tools:
        return call("look", where=f"room {turns(request)}")
    return say(
        f"{turns(request)} rooms, {kinds(request, 'note')} note; asked to conclude: {kinds(request, 'conclude') > 0}"
    )


def archivist(request: Request) -> Turn:
    """Read page after page, and say in the end what is left to be seen of them."""
    read = [each.arguments["page"] for message in request.messages for each in message.tool_calls]
    if not request.tools:
        return say(f"notes up to page {read[-1]}").using(used(request))
    if read and read[-1] == PAGES:
        removed = shown(request).count("removed to save room")
        text = f"{kinds(request, 'summary')} summary, {len(read)} calls in sight, {removed} results removed"
        return say(text).using(used(request))
    return call("read", page=read[-1] + 1 if read else 1).using(used(request))


def banker(request: Request) -> Turn:
    """Give a teller money of its own, and report what it counted."""
    if turns(request) == 0:
        return dispatch("Teller", "count", budget_usd=0.2).using(used(request))
    return say(f"banked: {reports(request)}" if delivered(request) else "I wait").using(used(request))


def chronicler(request: Request) -> Turn:
    """Tell how many parts were told before."""
    return say(f"part {turns(request) + 1}")


# -- the strategies ----------------------------------------------------------------------------------------------------


def planner(request: Request) -> Turn:
    """A plan for each agent that plans: by its caller and by what it is told."""
    told = first(request)
    if request.caller == "Builder":
        return _plan(_step("step_1", "A"), _step("step_2", "B", maxRetries=1), _step("step_3", "C", dependsOn=["step_2"]))
    if request.caller == "Cautious":
        again = "has to be revised" in told
        second = (
            _step("step_2", "C", "sweep", requiresConfirmation=True)
            if again
            else _step("step_2", "B", "break", maxRetries=0)
        )
        return _plan(_step("step_1", "A"), second, _step("step_3", "A", "shine"))
    return _plan(_step("step_1", "Notes", "recall"), _step("step_2", "Survey", "survey the coast"))


def _step(name: str, agent: str, task: str = "do it", **more: Any) -> dict[str, Any]:
    return {"id": name, "agent": agent, "task": task, **more}


def _plan(*steps: Mapping[str, Any]) -> Turn:
    return say(json.dumps({"analysis": "as wanted", "steps": steps}))


def step_b(request: Request) -> Turn:
    """Fail at once, for good or until the next attempt."""
    if "break" in first(request):
        return fail("overloaded", "it broke")
    return say("beta, at last") if "earlier attempt" in first(request) else fail("overloaded")


def composer(request: Request) -> Turn:
    """Name what was found."""
    words = ("alpha", "beta, at last", "gamma", "it broke")
    where = _clear(first(request))
    return say(f"composed of {', '.join([*where, *(word for word in words if word in first(request))])}")


def task_planner(request: Request) -> Turn:
    """For the surveyor: the east, then two tasks together. For the reporter: one task, two together, one more."""
    told = first(request)
    if request.caller == "Survey":
        known = _clear(told)
        if not known:
            return _next("the east")
        return say('{"finished": true}') if len(known) == 3 else _next("the west", "the north")
    if "result: omega" in told:
        return say('{"finished": true}')
    if "message: not there" in told:
        return _next("look again")
    return _next("b", "c") if "result: alpha" in told else _next("a")


def _next(*tasks: str) -> Turn:
    return say(json.dumps({"nextTasks": tasks, "parallelTasks": len(tasks) > 1}))


def task_worker(request: Request) -> Turn:
    """Carry out the task: `b` cannot be done."""
    wanted = re.search(r"<task>\n(.*)\n", first(request))
    name = wanted[1] if wanted else ""
    if name == "b":
        return say(json.dumps({"success": False, "error": {"message": "not there"}}))
    return say(json.dumps({"success": True, "result": {"a": "alpha", "c": "gamma"}.get(name, "omega")}))


def lead(request: Request) -> Turn:
    """Send a scout to where the task is, and report what it saw."""
    where = re.search(r"<task>\nthe (\w+)\n", first(request))
    if ends := delivered(request):
        return say(json.dumps({"success": True, "result": ends[0].text}))
    return dispatch("Scout", where[1] if where else "?") if turns(request) == 0 else say("I wait")


def completer(request: Request) -> Turn:
    """Name what was found."""
    words = [word for word in ("alpha", "gamma", "omega") if word in first(request)]
    return say(f"from {', '.join([*words, *_clear(first(request))])}")


def _clear(text: str) -> list[str]:
    """The directions that are said to be clear, in the order of the compass."""
    return [each for each in ("east", "north", "west") if re.search(rf"{each} is clear|from [\w, ]*{each}", text)]


def classifier(request: Request) -> Turn:
    """The coast needs a plan, everything else is for the notes."""
    plan = "coast" in shown(request)
    agents = ["Survey", "Notes"] if plan else ["Notes"]
    return say(json.dumps({"primaryIntent": agents[0], "involvedAgents": agents, "requiresPlan": plan, "confidence": 0.9}))


def announcer(request: Request) -> Turn:
    """Name the number of the work item."""
    number = re.search(r"task_number\W+(\d+)", shown(request))
    return say(f"announced {number[1] if number else 'nothing'}")


def merger(request: Request) -> Turn:
    """Count what there is to merge."""
    return say(f"merged {first(request).count('seen')} sightings and {first(request).count('written')} texts")


async def tide(task: str) -> dict[str, str]:
    """The function of an agent."""
    return {"summary": f"the tide at {task} is high", "at": task}


# -- all of it ---------------------------------------------------------------------------------------------------------


def scripts(model: ScriptedModel | None = None) -> dict[str, Script]:
    """What is said, by agent. With a model, scouts answer only once their captain has been asked twice: then it is known
    how often it is asked."""

    async def scout(request: Request) -> Turn:
        if model is not None and request.caller == "Captain":
            await model.started("Captain", 2)
        return say(f"{first(request)} is clear")

    async def teller(_: Request) -> Turn:
        if model is not None:
            await model.started("Banker")
        return say("counted")

    return {
        "Captain": captain, "Scout": scout, "Clerk": clerk, "Counter": counter, "Archivist": archivist, "Banker": banker,
        "Teller": teller, "Chronicler": chronicler, "Planner": planner, "A": lambda _: say("alpha"), "B": step_b,
        "C": lambda _: say("gamma"), "Composer": composer, "TaskPlanner": task_planner, "TaskWorker": task_worker,
        "Lead": lead, "Completer": completer, "Classifier": classifier, "Notes": lambda _: say("the harbour is small"),
        "Announcer": announcer, "Walker": lambda _: say("seen"), "Synthesizer": merger,
        "Writer": lambda _: say("written"), "Critic": lambda _: fail("invalid", "no words", recoverable=False),
        "Mule": lambda _: call("carry"), "Fragile": lambda _: say("never asked again"),
        "Maker": lambda request: say(f"made for {request.caller}"), "Checker": lambda _: say("checked"),
    }  # fmt: skip


async def _said(arguments: Mapping[str, Any]) -> str:
    return f"page {arguments['page']}: " + "x" * 500 if "page" in arguments else f"looked: {arguments.get('where', 'down')}"


def tools() -> LocalTools:
    """The tools of all agents: two that may run again, and one that may not."""
    functions: dict[str, Function] = dict.fromkeys(("look", "read", "sound", "carry"), _said)
    return LocalTools(functions, effects={"look": "read_only", "read": "read_only"})


TOOL_USERS = ("Captain", "Clerk", "Counter", "Archivist", "Mule")
