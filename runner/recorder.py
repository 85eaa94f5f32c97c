"""record(fact): the one place where a fact becomes rows, an event, a log line and a notification. Durable before visible.

Owns the mapping and nothing else. Whoever awaits `record` goes on only after the commit; watchers hear of it after the
commit too, because the writer publishes what it has committed.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic_core import from_json, to_json

from db import adoption, approvals, endings, error_records, memory, people, pins, plans, turns, work_items, writes
from db.deletion import delete_tree
from db.endings import status_event
from db.error_records import NewError
from db.ids import inherited_delivery, new_id, result_delivery
from db.plans import NewPlan, PlanStatus
from db.status import ExecutionStatus
from db.unit import Ticket, Write
from db.writer import Writer
from db.writes import Place, event
from runner import facts, item_facts
from runner.bus import Bus
from runner.chat import answer_of
from runner.error_facts import Addressed, ErrorFact, Failed, Refused
from runner.errors import UNSAFE
from runner.result import SUMMARY_LIMIT
from runner.speech import Speech

log = logging.getLogger("outrider.events")

SHOWN = 200
"""Characters of a text that an event repeats; the whole text is in its row."""


def _cut(text: str, length: int = SHOWN) -> str:
    return text if len(text) <= length else text[: length - 1] + "…"


def _line(event: Mapping[str, Any]) -> str:
    """An event as one line of JSON, its payload in it as it is."""
    head = to_json({name: value for name, value in event.items() if name != "payload"}).decode()
    return f'{head[:-1]},"payload":{event["payload"]}}}'


class Recorder:
    """Turns facts into writes; publishes what is committed."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._writer: Writer | None = None
        self.speech = Speech(bus)
        """What models are saying at the moment."""

    def attach(self, writer: Writer) -> None:
        """Write through `writer` from now on."""
        self._writer = writer

    async def record(self, fact: facts.Fact, *, shielded: bool = False, patient: bool = True) -> Ticket:
        """Commit what `fact` means; `held` on the answer tells whether its guards held.

        `shielded` where something must follow the commit even if the caller is being cancelled, not `patient` where
        somebody outside waits: while the database is in trouble it raises DatabaseUnavailable.
        """
        assert self._writer is not None
        return await self._writer.apply(self._write_of(fact), shielded=shielded, patient=patient)

    def post(self, fact: facts.Fact) -> Ticket:
        """As `record`, without waiting: for facts nothing depends on yet. Order is kept."""
        assert self._writer is not None
        return self._writer.post(self._write_of(fact))

    def publish(self, events: Sequence[Mapping[str, Any]]) -> None:
        """Committed events reach the log and the watchers. Called by the writer, in the event loop."""
        if log.isEnabledFor(logging.INFO):
            for each in events:
                log.info("%s", _line(each))
        if self.speech:  # what was said before something happened is told before it
            for each in events:
                self.speech.tell(each["execution_id"])
        self._bus.publish(events)

    def whisper(self, place: Place, kind: str, payload: Mapping[str, Any]) -> None:
        """Tell watchers something that is not stored, such as the current action."""
        if self._bus.watched(place.root_execution_id):
            self._bus.whisper({**event(place, kind, payload), "seq": None})

    def _write_of(self, fact: facts.Fact) -> Write:  # noqa: C901  # one flat table of what each fact means
        match fact:
            case facts.Spawned():
                return _spawned(fact)
            case facts.Started(place, _, start, first):
                return writes.start(place.id, start, [_started(fact)], first)
            case facts.Adopted() | facts.WentOn() | facts.PassedOn() | facts.CallLost() | facts.Left():
                return _going_on(fact)
            case facts.Replied() | facts.RepliedLate() | facts.CallBroken():
                return _asked_model(fact)
            case facts.ToolSettled(place, agent, tool, seconds, outcome):
                return turns.settle(outcome, _settled(place, outcome, tool, seconds))
            case facts.Said(place, attempt, message, consumed):
                return turns.say(attempt, message, consumed, [*_consumed(place, consumed), *_compacted(fact)])
            case facts.BeganAgain(place, agent, attempt, deadline, first, told):
                again = event(place, "execution.retrying", {"agent": agent, "deadline_at": deadline, **told})
                return turns.begin_again(attempt, deadline, first, [again])
            case facts.Asked(place, attempt, call):
                return turns.ask(attempt, call, [_calling(place, call)])
            case facts.Waiting(place, what, told):
                return writes.waiting(place.id, what, [event(place, "execution.progress", {"waiting_for": what, **told})])
            case facts.Ended():
                over = endings.end(fact.ending, _end(fact))
                return over if fact.answer is None else people.answered(over, fact.answer)
            case facts.CancelWished(wish, language):
                stopped = answer_of(wish.execution, ExecutionStatus.CANCELLED, None, language)
                return people.answered(endings.cancel(wish), stopped)
            case facts.Posted(place, identifier, kind, payload):
                return writes.deliver(place.id, identifier, kind, payload, [_posted(fact)])
            case Refused() | Failed() | Addressed():
                return _wrong(fact)
            case facts.Noticed(place, kind, payload):
                return writes.note([event(place, kind, payload)])
            case (
                facts.ApprovalRequested()
                | facts.ApprovalDecided()
                | facts.ApprovalUsed()
                | facts.ApprovalClosed()
                | facts.WaitedInVain()
            ):
                return _asking(fact)
            case facts.Remembered() | facts.Amended() | facts.Forgotten():
                return _remembering(fact)
            case item_facts.ItemAdded() | item_facts.ItemChanged() | item_facts.ItemsPutUp():
                return _on_board(fact)
            case facts.ToolsPinned(server, fingerprints):
                return pins.pin(server, fingerprints)
            case facts.ToolDrifted(place, drift):
                return pins.drift(drift, [_drifted(place, drift)])
            case facts.Planned() | facts.PlanMarked() | facts.PlanGivenUp():
                return _planning(fact)
            case facts.Deleted(root, extractions):
                return delete_tree(root, extractions)
            case facts.Configured(config_hash, body, users):
                return Write([*writes.snapshot(config_hash, body).steps, *people.introduced(users)])


def _spawned(fact: facts.Spawned) -> Write:
    start = fact.started.start if fact.started is not None else None
    born = writes.create(fact.new, _birth(fact), fact.first, fact.settled, start)
    if fact.told:
        inbox = [writes.delivery(each.place.id, each.id, each.kind, each.payload) for each in fact.told]
        born = Write([*born.steps, *inbox], [*born.events, *map(_posted, fact.told)])
    return born if fact.heard is None else people.heard(born, fact.heard)


def _posted(fact: facts.Posted) -> dict[str, Any]:
    return event(fact.place, "delivery.created", {"kind": fact.kind, "id": fact.id})


def _going_on(fact: facts.GoingOn) -> Write:
    """What is written when an execution passes from one process, or one life, to another."""
    match fact:
        case facts.Adopted(inheritance):
            return adoption.adopt(inheritance)
        case facts.WentOn(place, agent, attempt, deadline):
            told = status_event(place, "running", agent, deadline_at=deadline, attempt=attempt, resumed=True)
            return adoption.go_on(place.id, attempt, deadline, [told])
        case facts.PassedOn(place, attempt, children):
            return adoption.pass_on(place.id, attempt, children, [_passed_on(place, child) for child in children])
        case facts.CallLost(place, attempt, call):
            more = {"status": "lost", "turn": call.turn, "cost_usd": call.cost_usd}
            return adoption.lose_call(attempt, call, _timeline(place, {"kind": "model", "id": call.id}, more))
        case facts.Left(place, attempt):
            return adoption.leave(place.id, attempt, [event(place, "execution.progress", {"waiting_for": "restart"})])


def _asked_model(fact: facts.Replied | facts.RepliedLate | facts.CallBroken) -> Write:
    """What is written when a model has answered, or will not."""
    match fact:
        case facts.Replied():
            return turns.reply(fact.attempt, fact.call, fact.message, fact.tools, _reply(fact))
        case facts.RepliedLate(reply, outcomes):
            calls = list(zip(reply.tools, outcomes, strict=True))
            told = [*_said(reply), *_compacted(reply)]
            return turns.late_reply(reply.attempt, reply.call, reply.message, calls, told)
        case facts.CallBroken(place, identifier, status):
            return writes.note(_timeline(place, {"kind": "model", "id": identifier}, {"status": status}))


def _asking(fact: facts.Asking) -> Write:
    """What is written when a person is asked, answers, or is no longer asked."""
    match fact:
        case facts.ApprovalRequested(place, _, attempt, new):
            return approvals.request(new, attempt, [event(place, "approval.requested", _question(fact))])
        case facts.ApprovalDecided(place, tool, decision):
            return approvals.decide(decision, [event(place, "approval.decided", _decision(tool, decision))])
        case facts.ApprovalUsed(held, arguments_hash, deadlines):
            return approvals.use(held, arguments_hash, deadlines)
        case facts.ApprovalClosed(place, tool, held, closed):
            told = event(place, f"approval.{closed}", {"id": held.approval, "call": held.call, "tool": tool})
            return approvals.close(held, closed, [told])
        case facts.WaitedInVain(deadlines):
            return approvals.go_on(deadlines)


def _remembering(fact: facts.Memory) -> Write:
    """What is written when something about a person is learned, corrected or dropped."""
    match fact:
        case facts.Remembered(keeper, told):
            return memory.remember(keeper, told)
        case facts.Amended(keeper, identifier, content, category):
            return memory.amend(keeper, identifier, content, category)
        case facts.Forgotten(keeper, identifier):
            return memory.forget(keeper, identifier)


def _on_board(fact: item_facts.ItemFact) -> Write:
    """What is written when something is to be done, or has come further."""
    match fact:
        case item_facts.ItemAdded(author, item, earlier):
            return work_items.add(author, item, earlier)
        case item_facts.ItemChanged(author, change):
            return work_items.change(author, change)
        case item_facts.ItemsPutUp(items):
            return work_items.put_up(items)


def _started(fact: facts.Started) -> dict[str, Any]:
    step = {"step_id": fact.step} if fact.step is not None else {}
    return status_event(fact.place, "running", fact.agent, deadline_at=fact.start.deadline, **step)


def _passed_on(place: Place, child: str) -> dict[str, Any]:
    identifier = inherited_delivery(child, place.id)
    return event(place, "delivery.created", {"kind": "result", "id": identifier, "execution_id": child})


def _birth(fact: facts.Spawned) -> list[dict[str, Any]]:
    new, parent, settled = fact.new, fact.parent, fact.settled
    place = Place(new.id, new.parent_execution_id, new.root_execution_id, new.session_id)
    more = {"task": _cut(new.task or ""), "role": new.role, "stage": new.stage, "position": new.position}
    if new.step_id is not None:
        more["step_id"] = new.step_id
    born = [status_event(place, new.status, new.agent, **more)]
    if settled is not None and parent is not None:
        payload = {
            "kind": "dispatch",
            "id": settled.id,
            "status": settled.status,
            "execution_id": new.id,
            "agent": new.agent,
        }
        born.append(event(parent, "timeline_event.completed", payload))
    if fact.started is not None:
        born.append(_started(fact.started))
    return born


def _timeline(place: Place, what: Mapping[str, Any], end: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Something of a timeline that is written down when it is over: that it began, and how it ended."""
    began = event(place, "timeline_event.created", what)
    return [began, event(place, "timeline_event.completed", {**what, **end})]


def _said(fact: facts.Replied) -> list[dict[str, Any]]:
    call = fact.call
    end = {
        "status": "completed",
        "turn": call.turn,
        "text": _cut(fact.text),
        "stop_reason": call.stop_reason,
        "tokens": call.input_tokens + call.output_tokens + call.cache_read_tokens + call.cache_write_tokens,
        "cost_usd": call.cost_usd,
        "pricing": call.pricing,
    }
    return _timeline(fact.place, {"kind": "model", "id": call.id}, end)


def _reply(fact: facts.Replied) -> list[dict[str, Any]]:
    return [*_said(fact), *(_calling(fact.place, tool) for tool in fact.tools), *_compacted(fact)]


def _calling(place: Place, tool: turns.ToolStart) -> dict[str, Any]:
    begun = {"kind": "tool", "id": tool.id, "tool": tool.tool, "arguments": _cut(tool.arguments)}
    return event(place, "timeline_event.created", begun)


def _consumed(place: Place, deliveries: Sequence[str]) -> list[dict[str, Any]]:
    return [event(place, "delivery.consumed", {"deliveries": list(deliveries)})] if deliveries else []


def _compacted(fact: facts.Replied | facts.Said) -> list[dict[str, Any]]:
    return [event(fact.place, "context.compacted", fact.compacted)] if fact.compacted is not None else []


def _settled(place: Place, outcome: turns.ToolOutcome, tool: str, seconds: float) -> list[dict[str, Any]]:
    payload = {
        "kind": "tool",
        "id": outcome.id,
        "tool": tool,
        "status": outcome.status,
        "is_error": outcome.is_error,
        "error_type": outcome.error_type,
        "seconds": round(seconds, 3),
    }
    return [event(place, "timeline_event.completed", payload), *_consumed(place, outcome.consumed)]


def _end(fact: facts.Ended) -> list[dict[str, Any]]:
    ending = fact.ending
    more = {"outcome": ending.outcome, "reason": ending.reason, "seconds": round(fact.seconds, 3), **fact.totals}
    if ending.error is not None:
        more["error"] = _cut(ending.error, SUMMARY_LIMIT)
    happened = [status_event(ending.place, ending.status, fact.agent, **more)]
    if fact.parent is not None:
        identifier = result_delivery(ending.place.id)
        payload = {"kind": "result", "id": identifier, "execution_id": ending.place.id, "agent": fact.agent}
        happened.append(event(fact.parent, "delivery.created", payload))
    return happened


def _question(fact: facts.ApprovalRequested) -> dict[str, Any]:
    new = fact.new
    return {
        "id": new.id,
        "call": new.tool_call_id,
        "kind": new.kind,
        "agent": fact.agent,
        "tool": new.tool,
        "arguments": _cut(fact.arguments),
        "expires_at": new.expires_at,
    }


def _decision(tool: str, said: approvals.Decision) -> dict[str, Any]:
    decision = approvals.APPROVED if said.approved else approvals.DENIED
    return {"id": said.approval, "tool": tool, "decision": decision, "by": said.by, "reason": said.reason}


def _wrong(fact: ErrorFact) -> Write:
    """What is written when something goes wrong, or somebody does something about it."""
    match fact:
        case Refused():
            return _refused(fact)
        case Failed(place, agent, kind, message, severity, context, trace, same):
            told = {"agent": agent, **context}
            return error_records.record(NewError(place.id, kind, severity, message, told, trace, same))
        case Addressed(fix):
            return error_records.fix(fix)


def _refused(fact: Refused) -> Write:
    identifier = new_id()
    what = {"kind": "dispatch", "id": identifier, "agent": fact.wanted}
    end = {"status": "failed", "refused": fact.kind, "reason": fact.message}
    context = {"agent": fact.agent, "wanted": fact.wanted, **fact.context}
    severity = "high" if fact.kind in UNSAFE else "medium"
    recorded = error_records.record(NewError(fact.place.id, fact.kind, severity, fact.message, context))
    return Write(recorded.steps, _timeline(fact.place, what, end))


def _planning(fact: facts.Planned | facts.PlanMarked | facts.PlanGivenUp) -> Write:
    """What is written when a plan is made or comes further."""
    match fact:
        case facts.Planned(place, attempt, plan):
            return plans.keep(plan, attempt, [_plan_event(place, plan.status, plan.version, _planned(plan))])
        case facts.PlanMarked(place, attempt, version, status, more):
            return plans.mark(place.id, attempt, version, status, [_plan_event(place, status, version, more)])
        case facts.PlanGivenUp(place, attempt, version):
            return plans.give_up(place.id, attempt, version, [_plan_event(place, PlanStatus.FAILED, version, {})])


def _plan_event(place: Place, status: str, version: int, more: Mapping[str, Any]) -> dict[str, Any]:
    payload = {"plan_id": f"{place.id}.{version}", "version": version, "status": status, **more}
    return event(place, f"plan.{status}", payload)


def _planned(plan: NewPlan) -> dict[str, Any]:
    steps = [{name: each[name] for name in ("id", "agent", "task", "depends_on")} for each in from_json(plan.steps)]
    return {"steps": steps} if steps else {}


def _drifted(place: Place, drift: pins.Drift) -> dict[str, Any]:
    change = "added" if drift.before is None else "removed" if drift.after is None else "changed"
    payload = {
        "server": drift.server,
        "tool": drift.tool,
        "change": change,
        "before": drift.before,
        "after": drift.after,
        "message": f"`{drift.server}` {change} its tool `{drift.tool}` since it was last seen",
    }
    return event(place, "upstream.tool_changed", payload)
