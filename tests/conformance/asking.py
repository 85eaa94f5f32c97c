"""Fixtures that ask the client in the middle of a call: over the way back of the older era, in rounds in the newer one."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import mcp_types as t

from tests.conformance.fixture import Answer, Context, fixture, say

NAME = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
COLOUR = {"type": "object", "properties": {"color": {"type": "string"}}, "required": ["color"]}
CONSENT = {"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]}


# -- the older era -----------------------------------------------------------------------------------------------------


@fixture("test_sampling", prompt={"type": "string"})
async def ask_model(ctx: Context, params: t.CallToolRequestParams) -> Answer:
    request = t.CreateMessageRequest(params=sampling(str((params.arguments or {}).get("prompt"))))
    answer = await ctx.session.send_request(request, t.CreateMessageResult)
    return say(f"LLM response: {answer.content}")


async def _elicited(ctx: Context, message: str, schema: Mapping[str, Any]) -> str:
    answer = await ctx.session.elicit_form(message, dict(schema), ctx.request_id)
    return f"action={answer.action}, content={json.dumps(answer.content)}"


@fixture("test_elicitation", message={"type": "string"})
async def ask_person(ctx: Context, params: t.CallToolRequestParams) -> Answer:
    schema = {
        "type": "object",
        "properties": {"username": {"type": "string"}, "email": {"type": "string"}},
        "required": ["username", "email"],
    }
    return say(f"User response: {await _elicited(ctx, str((params.arguments or {}).get('message')), schema)}")


@fixture("test_elicitation_sep1034_defaults")
async def elicitation_sep1034_defaults(ctx: Context, _params: t.CallToolRequestParams) -> Answer:
    properties = {
        "name": {"type": "string", "default": "John Doe"},
        "age": {"type": "integer", "default": 30},
        "score": {"type": "number", "default": 95.5},
        "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
        "verified": {"type": "boolean", "default": True},
    }
    told = await _elicited(ctx, "Please fill in", {"type": "object", "properties": properties})
    return say(f"Elicitation completed: {told}")


@fixture("test_elicitation_sep1330_enums")
async def elicitation_sep1330_enums(ctx: Context, _params: t.CallToolRequestParams) -> Answer:
    options, values = ["option1", "option2", "option3"], ["value1", "value2", "value3"]
    titled = [{"const": value, "title": value.title()} for value in values]
    properties = {
        "untitledSingle": {"type": "string", "enum": options},
        "titledSingle": {"type": "string", "oneOf": titled},
        "legacyEnum": {"type": "string", "enum": ["opt1", "opt2"], "enumNames": ["Option One", "Option Two"]},
        "untitledMulti": {"type": "array", "items": {"type": "string", "enum": options}},
        "titledMulti": {"type": "array", "items": {"anyOf": titled}},
    }
    told = await _elicited(ctx, "Please choose", {"type": "object", "properties": properties})
    return say(f"Elicitation completed: {told}")


# -- the newer era: the answer is a question, and the client calls again -------------------------------------------------


def elicitation(message: str, schema: Mapping[str, Any]) -> t.ElicitRequest:
    """A question to a person."""
    return t.ElicitRequest(params=t.ElicitRequestFormParams(message=message, requested_schema=dict(schema)))


def sampling(words: str) -> t.CreateMessageRequestParams:
    """A question to the client's model."""
    message = t.SamplingMessage(role="user", content=t.TextContent(type="text", text=words))
    return t.CreateMessageRequestParams(messages=[message], max_tokens=100)


def _asked(state: str | None = None, **questions: t.InputRequest) -> t.InputRequiredResult:
    return t.InputRequiredResult(input_requests=questions, request_state=state)


def _answered(params: t.InputResponseRequestParams, name: str) -> t.InputResponse | None:
    return (params.input_responses or {}).get(name)


def content_of(params: t.InputResponseRequestParams, name: str) -> Mapping[str, Any] | None:
    """What a person entered, if that question was answered."""
    answer = _answered(params, name)
    return answer.content or {} if isinstance(answer, t.ElicitResult) else None


@fixture("test_input_required_result_elicitation")
async def input_required_result_elicitation(_ctx: Context, params: t.CallToolRequestParams) -> Answer:
    content = content_of(params, "user_name")
    if content is None:
        return _asked(user_name=elicitation("What is your name?", NAME))
    return say(f"Hello, {content['name']}!")


@fixture("test_streaming_elicitation")
async def streaming_elicitation(_ctx: Context, params: t.CallToolRequestParams) -> Answer:
    return await input_required_result_elicitation(_ctx, params)


@fixture("test_input_required_result_sampling")
async def input_required_result_sampling(_ctx: Context, params: t.CallToolRequestParams) -> Answer:
    answer = _answered(params, "capital_question")
    if not isinstance(answer, t.CreateMessageResult):
        question = t.CreateMessageRequest(params=sampling("What is the capital of France?"))
        return _asked(capital_question=question)
    return say(str(answer.content))


@fixture("test_input_required_result_list_roots")
async def input_required_result_list_roots(_ctx: Context, params: t.CallToolRequestParams) -> Answer:
    answer = _answered(params, "client_roots")
    if not isinstance(answer, t.ListRootsResult):
        return _asked(client_roots=t.ListRootsRequest())
    return say(", ".join(str(root.uri) for root in answer.roots))


@fixture("test_input_required_result_request_state")
async def input_required_result_request_state(_ctx: Context, params: t.CallToolRequestParams) -> Answer:
    if params.request_state != "confirming":
        return _asked("confirming", confirm=elicitation("Please confirm", CONSENT))
    return say("state-ok")


@fixture("test_input_required_result_tampered_state")
async def input_required_result_tampered_state(ctx: Context, params: t.CallToolRequestParams) -> Answer:
    return await input_required_result_request_state(ctx, params)


@fixture("test_input_required_result_multiple_inputs")
async def input_required_result_multiple_inputs(_ctx: Context, params: t.CallToolRequestParams) -> Answer:
    names = ("user_name", "greeting", "client_roots")
    if params.request_state is None or not all(_answered(params, name) for name in names):
        return _asked(
            "asked",
            user_name=elicitation("What is your name?", NAME),
            greeting=t.CreateMessageRequest(params=sampling("Generate a greeting")),
            client_roots=t.ListRootsRequest(),
        )
    return say("all three are answered")


@fixture("test_input_required_result_multi_round")
async def input_required_result_multi_round(_ctx: Context, params: t.CallToolRequestParams) -> Answer:
    if params.request_state is None:
        return _asked("first", step1=elicitation("Step 1: What is your name?", NAME))
    if params.request_state == "first":
        return _asked("second", step2=elicitation("Step 2: What is your favourite colour?", COLOUR))
    return say("both steps are done")


@fixture("test_input_required_result_capabilities")
async def input_required_result_capabilities(ctx: Context, _params: t.CallToolRequestParams) -> Answer:
    capabilities = ctx.session.client_capabilities
    questions: dict[str, t.InputRequest] = {}
    if capabilities is not None and capabilities.sampling is not None:
        questions["greeting"] = t.CreateMessageRequest(params=sampling("Generate a greeting"))
    if capabilities is not None and capabilities.elicitation is not None:
        questions["user_name"] = elicitation("What is your name?", NAME)
    return t.InputRequiredResult(input_requests=questions)
