"""The tool by which a client passes on a user's message: `send_user_message`.

Owns its arguments, its answer, and the users a caller may speak for: with authentication only itself, unless its token has
the scope. The chat queue runs the message, and answers it also after the wait of the call has ended.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pydantic import Field

from db.clock import loop_time
from registry import UnknownName
from runner.chat import LONGEST, refusal_phrase, spoken
from runner.errors import Refusal
from runner.messages import ToolCall
from runner.service.order import Order
from runner.text import cut, language_of
from runner.tools.builtin import Arguments, OwnTool, answer, refuse
from runner.tools.dispatch import ASK_FOR_IT, DEFAULT_WAIT, LONGEST_WAIT, DispatchTools, GetResultArguments
from runner.tools.protocol import ToolResult
from server.identity import SPEAK_FOR_ALL

if TYPE_CHECKING:
    from server.mcp_face.client import Client

SEND_USER_MESSAGE = "send_user_message"


class UserMessageArguments(Arguments):
    """Who says what, and how long to wait for the answer."""

    user: str = Field(min_length=1, max_length=200, description="An id, a phone number or another alias.")
    text: str = Field(min_length=1, max_length=LONGEST, description="What the user says, word for word.")
    wait_seconds: float = Field(
        default=DEFAULT_WAIT,
        ge=0,
        le=LONGEST_WAIT,
        description="For its turn and the answer. It is answered anyway.",
    )
    idempotency_key: str | None = Field(
        default=None,
        min_length=1,
        max_length=200,
        description="With the same key it is not said twice.",
    )


def chat_tools(client: Client) -> list[OwnTool[Any]]:
    """The tool, if the configuration has `chat`."""
    if client.settings.chat is None:
        return []
    return [
        OwnTool(
            SEND_USER_MESSAGE,
            "Hand over what a user says to their assistant, and wait for the answer, up to 50 seconds. The assistant knows "
            "the conversation; one message of a user is answered at a time. Pass `answer` on to the user unchanged; if it "
            "is not there yet, call get_result with the execution_id. An error has an `answer` for the user, too.",
            UserMessageArguments,
            _ChatTools(client).send,
            effect="at_most_once",
        )
    ]


class _ChatTools:
    """The handler of the tool."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def send(self, call: ToolCall, arguments: UserMessageArguments) -> ToolResult:
        if not self._may_speak_for(arguments.user):
            hint = f"you may speak for yourself; for others the scope `{SPEAK_FOR_ALL}` is needed"
            return refuse("unknown_user", f"no user named `{arguments.user}`", hint)
        if not arguments.text.strip():
            return refuse("invalid_arguments", "the user says nothing", "give what was said in `text`")
        begun = loop_time()
        message = Order("", arguments.text, user=arguments.user, key=arguments.idempotency_key)
        try:
            child, _ = await self._client.say(message, arguments.wait_seconds)
        except Refusal as refusal:
            return self._not_taken(refusal, arguments)
        left = max(0.0, arguments.wait_seconds - (loop_time() - begun))
        which = GetResultArguments(execution_id=child.id, wait_seconds=left)
        described = await DispatchTools(self._client, ASK_FOR_IT).get_result(call, which)
        ended = await self._client.look(child.id)
        if described.is_error or ended is None or not ended.ended:
            return described
        return answer({**described.structured, "answer": cut(spoken(ended, self._locale(arguments.user)), child.id)})

    def _not_taken(self, refusal: Refusal, arguments: UserMessageArguments) -> ToolResult:
        """The refusal of a message for the client, with an `answer` for the user."""
        refused = refuse(refusal.kind, str(refusal), refusal.hint)
        sentence = refusal_phrase(refusal.kind, language_of(arguments.text, self._locale(arguments.user)))
        if sentence is None:
            return refused
        told = {**refused.structured, "answer": sentence}
        return replace(refused, text=f"{refused.text}\nanswer: {sentence}", structured=told)

    def _locale(self, name: str) -> str:
        try:
            return self._client.settings.user(name).locale
        except UnknownName:  # the user was removed from the configuration after an earlier message
            return "en"

    def _may_speak_for(self, name: str) -> bool:
        who, settings = self._client.who, self._client.settings
        if who.speaks_for_all:
            return True
        try:
            return settings.user(name) == settings.user(who.principal or "")
        except UnknownName:
            return False
