"""The opening of a conversation: the system prompt, from the agent, its user, its servers and its files.

Owns when its parts are gathered: once, before the first model call. `runner/prompt/system.py` decides their order. The
prompt is rendered at the first call, when tools and instructions are known, and never changes after that.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping

from registry import AgentSpec
from runner.prompt.system import PromptParts, system_prompt
from runner.prompt.user_parts import UserParts
from runner.strategies.context import StrategyContext


class Opening:
    """The parts of one conversation's system prompt, and their text."""

    __slots__ = ("_agent", "_context", "_files", "_instructions", "_personal", "_text")

    def __init__(self, context: StrategyContext, agent: AgentSpec) -> None:
        self._context, self._agent = context, agent
        self._instructions: Mapping[str, str] = {}
        self._personal = UserParts()
        self._files = ""
        self._text = ""

    async def gather(self) -> None:
        """Read the instructions of servers, the user's part and the files; tools are listed already."""
        sources = self._context.sources
        if self._context.toolbox is not None:
            self._instructions = await sources.server_instructions()
        self._personal = await sources.personal()
        if self._agent.context.level is not None:
            self._files = await sources.files(self._personal)

    @property
    def system_prompt(self) -> str:
        if not self._text:
            text = self._context.sources.mask(system_prompt(self._parts()))
            self._text = sys.intern(text)  # a thousand agents of one kind share one text
        return self._text

    def _parts(self) -> PromptParts:
        context, toolbox = self._context, self._context.toolbox
        return PromptParts(
            agent=self._agent,
            name=context.name,
            role=context.role,
            catalogue=context.catalogue,
            roster=context.briefing.roster,
            brief=context.briefing.instructions,
            personal=self._personal,
            files=self._files,
            workspaces=self._agent.workspaces if toolbox is not None else (),
            server_instructions=self._instructions,
            unavailable=toolbox.unavailable if toolbox is not None else {},
            session=context.session,
        )
