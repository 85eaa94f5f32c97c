"""The tools of one execution and their calls, from the row that records a start to the row that records its result.

Owns listing and running them, and which required servers are missing. `runner/tools/effects.py` decides whether a call may
run again, `runner/approvals/gate.py` who has to allow it. Invariants: every started call gets exactly one result, also when
cancelled; after a crash one may be missing, and resuming settles it. An execution without a required server ends before its
model is called, or, if it has started, with a result that names the server.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

import anyio
import anyio.lowlevel
from pydantic_core import to_json

from db.clock import loop_time, stamp
from db.rows.reads import Record
from db.rows.transcript import ToolOutcome, ToolStart
from db.store.unit import Ticket
from registry import AgentSpec
from registry.specs.upstreams import DEFAULT_MAX_RESULT_BYTES
from runner.core.verdict import missing_server
from runner.errors import ServerMissing
from runner.messages import Answer, Tool, ToolCall, clean, tool_results
from runner.record import turn_facts
from runner.record.facts import Failed
from runner.result import TOOL_UNAVAILABLE, Outcome, Problem, Result
from runner.strategies.context import StrategyContext
from runner.strategies.loop.transcript import Transcript
from runner.text import escape_blocks
from runner.tools import finish
from runner.tools.effects import INTERRUPTED, NOT_BEGUN, cut_short, status_of
from runner.tools.protocol import ToolResult
from runner.tools.read_result import NAME as READ_RESULT
from runner.tools.upstream.content import cut, within_turn

CUT_OFF = ToolResult(
    "error: this call was cut off at the length limit of one message and was not carried out\n"
    "hint: repeat it with shorter arguments, or split it into several calls",
    is_error=True,
    error_type="cut_off",
    ran=False,
)

NO_TOOLS = "offers no tool that it may use"
NOT_THERE = "could not be reached for the last call of its tools"


class ToolRunner:
    """Lists the tools of an execution and runs the calls of its model."""

    __slots__ = ("_agent", "_context", "_required", "_results", "tools")

    def __init__(self, context: StrategyContext, agent: AgentSpec) -> None:
        self._context, self._agent = context, agent
        self._required = RequiredServers(context.name, context.settings.required_servers(agent))
        self._results: list[Ticket] = []
        """Results that are not committed yet."""
        self.tools: Sequence[Tool] = ()
        """The listed tools."""

    async def list_tools(self) -> None:
        """List the tools. Without a required server it raises ServerMissing; an execution that has started only warns."""
        context = self._context
        if context.toolbox is None:
            return
        context.set_activity("loading its tools")
        self.tools = await context.toolbox.tools.list_tools()
        missing = self._required.listed(self.tools, context.toolbox.unavailable)
        if missing is None:
            return
        if context.allowance.own.turns == context.allowance.earlier_turns:
            raise missing
        context.warnings.append(str(missing))
        where = {"session_id": context.session, "subagent": context.name, "server": missing.server}
        context.recorder.record_nowait(Failed(context.place, context.name, TOOL_UNAVAILABLE, str(missing), "medium", where))

    def restore(self, calls: Sequence[Record]) -> None:
        """Restore from the rows of earlier calls which servers are missing."""
        for row in calls:
            self._required.called(row["tool"], row["error_type"])

    def judged(self, result: Result) -> Result:
        """Make a completed result partial if a required server is missing."""
        return self._required.judged(result)

    def start_of(self, call: ToolCall, message: str, position: int) -> ToolStart:
        """The row of a call before it runs."""
        tool = self._tool(call)
        return ToolStart(
            id=call.row,
            execution_id=self._context.place.id,
            message_id=message,
            position=position,
            call_id=call.id,
            tool=tool.label if tool is not None else clean(call.name),
            server=tool.server if tool is not None else "",
            arguments=clean(call.malformed) if call.malformed is not None else clean(to_json(call.arguments).decode()),
            effect=_effect_of(tool),
            started_at=stamp(),
            status="waiting" if _must_be_allowed(call, tool) else "started",
        )

    async def run(self, transcript: Transcript) -> None:
        """Run all open calls in parallel. Whatever happens, each has exactly one result in the transcript afterwards."""
        calls, answers = transcript.unanswered, dict(transcript.answers)
        asked = transcript.messages[-1].tool_calls
        try:
            await self._run_all(calls, answers)
        finally:
            for call in calls:
                if call.id not in answers:
                    answers[call.id] = self._answer(call, self._tool(call), NOT_BEGUN)
            transcript.append(tool_results(within_turn([answers[call.id] for call in asked])))

    async def _run_all(self, calls: Sequence[ToolCall], answers: dict[str, Answer]) -> None:
        self._context.set_activity(_doing(calls))

        async def run(call: ToolCall) -> None:
            tool = self._tool(call)
            try:
                answers[call.id] = await self._run(call, tool)
            except anyio.get_cancelled_exc_class():
                answers[call.id] = self._answer(call, tool, _cut_short(call, tool))
                raise

        if len(calls) == 1:  # the common case needs no task of its own
            await run(calls[0])
        else:
            async with anyio.create_task_group() as group:
                for call in calls:
                    group.start_soon(run, call, name=f"tool {call.name}")

    def knows(self, name: str) -> bool:
        """Whether a tool of this name exists."""
        return self._context.toolbox is not None and self._context.toolbox.tools.tool(name) is not None

    async def too_late(self, call: ToolCall) -> ToolOutcome:
        """Settle a call that may not start any more. `finish` still counts: it is an answer, not an action."""
        assert self._context.toolbox is not None
        result = await self._context.toolbox.tools.call(call) if call.name == finish.NAME else NOT_BEGUN
        return self._outcome(call, result, shown(result))

    async def stored(self) -> None:
        """Wait until all results are committed: a model must not read a result that a crash could still lose."""
        results, self._results = self._results, []
        for ticket in results:
            await ticket.done.wait()
            if ticket.error is not None:
                raise ticket.error

    async def _run(self, call: ToolCall, tool: Tool | None) -> Answer:
        context, begun = self._context, loop_time()
        assert context.toolbox is not None
        try:
            refused = await self._refused(call, tool)
            await anyio.lowlevel.checkpoint_if_cancelled()  # a cancelled execution starts nothing
            begun = loop_time()
            with context.shutdown:
                result = refused or self._shown(call, tool, await context.toolbox.tools.call(call))
        except anyio.get_cancelled_exc_class():
            if not context.lookups.resumes_elsewhere():  # otherwise the process that resumes it settles the call
                context.recorder.record_nowait(self._settled(call, tool, _cut_short(call, tool), begun))
            raise
        answer = self._answer(call, tool, result)
        if not result.recorded:
            settled = self._settled(call, tool, result, begun, answer.text)
            if result.consumed:
                await context.recorder.record(settled, shielded=True)  # shown and consumed in one transaction
            else:
                self._results.append(context.recorder.record_nowait(settled))
        context.allowance.settle_tool(result.ran)
        self._required.called(tool.label if tool is not None else call.name, result.error_type)
        context.inbox.took(*result.consumed)
        return answer

    def _shown(self, call: ToolCall, tool: Tool | None, result: ToolResult) -> ToolResult:
        """A result as its model is shown it. Results of upstream servers were cut to their own limit already."""
        context = self._context
        if result.recorded or (tool is not None and tool.server in context.settings.upstreams):
            return result
        readable = context.toolbox is not None and context.toolbox.tools.tool(READ_RESULT) is not None
        return cut(result, call.id, DEFAULT_MAX_RESULT_BYTES, readable=readable)

    def _answer(self, call: ToolCall, tool: Tool | None, result: ToolResult) -> Answer:
        return Answer(
            call, shown(result), result.is_error, citable=tool is not None and tool.server in self._agent.mcp_servers
        )

    async def _refused(self, call: ToolCall, tool: Tool | None) -> ToolResult | None:
        """The result of a call that is not run; None for a call that is, the common case."""
        if call.cut or call.lost or (call.held == "repeat" and tool is None):
            return CUT_OFF if call.cut else INTERRUPTED
        if tool is None or not (call.held or _must_be_allowed(call, tool)):
            return None
        return await self._context.lookups.gate().allow(call, tool, "repeat" if call.held == "repeat" else "gate")

    def _tool(self, call: ToolCall) -> Tool | None:
        """The tool of a call, if it exists."""
        return self._context.toolbox.tools.tool(call.name) if self._context.toolbox is not None else None

    def _settled(
        self, call: ToolCall, tool: Tool | None, result: ToolResult, begun: float, text: str | None = None
    ) -> turn_facts.ToolSettled:
        context = self._context
        label = tool.label if tool is not None else call.name
        outcome = self._outcome(call, result, shown(result) if text is None else text)
        return turn_facts.ToolSettled(context.place, context.name, label, loop_time() - begun, outcome)

    def _outcome(self, call: ToolCall, result: ToolResult, text: str) -> ToolOutcome:
        """The end of a call, whose model is shown `text`."""
        whole = clean(result.text if result.full_text is None else result.full_text)
        return ToolOutcome(
            id=call.row,
            execution_id=self._context.place.id,
            attempt=self._context.epoch,
            status=status_of(result),
            text=text,
            is_error=result.is_error,
            error_type=result.error_type,
            full_text=whole if whole != text else None,  # the raw result, if the model is shown another text
            consumed=result.consumed,
            ran=result.ran,
        )


class RequiredServers:
    """The MCP servers that an execution requires; the list of tools and the calls tell which are missing."""

    __slots__ = ("_agent", "_missing", "_names")

    def __init__(self, agent: str, names: Sequence[str]) -> None:
        self._agent, self._names = agent, names
        self._missing: dict[str, str] = {}
        """Missing servers, and why."""

    def listed(self, tools: Collection[Tool], unavailable: Mapping[str, str]) -> ServerMissing | None:
        """Check the listed tools; returns the first missing server, if any."""
        for name in self._names:
            if name in unavailable:
                self._missing[name] = unavailable[name]
            elif not any(tool.server == name for tool in tools):
                self._missing[name] = NO_TOOLS
            else:
                self._missing.pop(name, None)
        return next((ServerMissing(self._agent, *each) for each in self._missing.items()), None)

    def called(self, tool: str, error_type: str | None) -> None:
        """Note how a tool call ended; `tool` is the label, or the name that the model used."""
        name = next((each for each in self._names if tool.startswith((f"{each}.", f"{each}__"))), None)
        if name is not None and error_type == "unavailable":
            self._missing[name] = NOT_THERE
        elif name is not None and error_type is None:
            self._missing.pop(name, None)

    def judged(self, result: Result) -> Result:
        """Make a completed result partial if a required server is missing."""
        if not self._missing or result.outcome not in (Outcome.COMPLETED, Outcome.PARTIAL):
            return result
        problems = [self._problem(*each) for each in self._missing.items()]
        reason = result.reason if result.outcome is Outcome.PARTIAL else TOOL_UNAVAILABLE
        return replace(result, outcome=Outcome.PARTIAL, reason=reason, errors=(*result.errors, *problems))

    def _problem(self, name: str, why: str) -> Problem:
        return missing_server(ServerMissing(self._agent, name, why))


def shown(result: ToolResult) -> str:
    """A result as its model reads it; marks in external text are escaped, whichever tool returned it."""
    if not result.mark:
        return escape_blocks(result.text)
    return escape_blocks(result.text[: -len(result.mark)]) + result.mark


def _must_be_allowed(call: ToolCall, tool: Tool | None) -> bool:
    """Whether a call needs an approval before it runs."""
    return tool is not None and tool.gate == "ask" and call.malformed is None and not call.cut


def _effect_of(tool: Tool | None) -> str:
    return tool.effect if tool is not None else "read_only"  # a tool that does not exist has no effect


def _cut_short(call: ToolCall, tool: Tool | None) -> ToolResult:
    begun = call.flight.sent or call.held == "repeat"  # `repeat`: it had started before a restart
    return cut_short(_effect_of(tool)) if begun else NOT_BEGUN


def _doing(calls: Sequence[ToolCall]) -> str:
    names = list(dict.fromkeys(call.name.replace("__", ".") for call in calls))
    shown = ", ".join(names[:3]) + (" …" if len(names) > 3 else "")
    return f"calling {shown}" if len(calls) == 1 else f"calling {shown} ({len(calls)} calls)"
