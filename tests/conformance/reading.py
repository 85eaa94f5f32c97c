"""Fixtures that are read: resources, their templates and prompts."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

import mcp_types as t

from tests.conformance.asking import content_of, elicitation
from tests.conformance.content import IMAGE, PIXEL, embedded

WATCHED = "test://watched-resource"
RESOURCES = [
    t.Resource(name=uri.removeprefix("test://"), uri=uri, description="A fixture of the conformance suite.")
    for uri in ("test://static-text", "test://static-binary", WATCHED)
]
TEMPLATES = [t.ResourceTemplate(name="template", uri_template="test://template/{id}/data", description="A fixture.")]

CONTEXT = {"type": "object", "properties": {"context": {"type": "string"}}, "required": ["context"]}


def resource(uri: str) -> t.ReadResourceResult | None:
    """A resource of the suite; None when it is not one."""
    match = re.fullmatch(r"test://template/([^/]+)/data", uri)
    if match is not None:
        data = {"id": match[1], "templateTest": True, "data": f"Data for ID: {match[1]}"}
        return _text(uri, json.dumps(data), "application/json")
    if uri == "test://static-binary":
        blob = t.BlobResourceContents(uri=uri, mime_type="image/png", blob=PIXEL)
        return t.ReadResourceResult(contents=[blob])
    if uri in ("test://static-text", WATCHED):
        return _text(uri, "This is the content of the static text resource.", "text/plain")
    return None


def _text(uri: str, text: str, mime_type: str) -> t.ReadResourceResult:
    return t.ReadResourceResult(contents=[t.TextResourceContents(uri=uri, mime_type=mime_type, text=text)])


ARGUMENTS: Mapping[str, tuple[str, ...]] = {
    "test_simple_prompt": (),
    "test_prompt_with_arguments": ("arg1", "arg2"),
    "test_prompt_with_embedded_resource": ("resourceUri",),
    "test_prompt_with_image": (),
    "test_input_required_result_prompt": (),
}
PROMPTS = [
    t.Prompt(
        name=name,
        description="A fixture of the conformance suite.",
        arguments=[t.PromptArgument(name=argument, required=True) for argument in arguments],
    )
    for name, arguments in ARGUMENTS.items()
]


def prompt(params: t.GetPromptRequestParams) -> t.GetPromptResult | t.InputRequiredResult | None:
    """A prompt of the suite; None when it is not one."""
    given = params.arguments or {}
    match params.name:
        case "test_simple_prompt":
            return _prompt("This is a simple prompt for testing.")
        case "test_prompt_with_arguments":
            return _prompt(f"Prompt with arguments: arg1='{given['arg1']}', arg2='{given['arg2']}'")
        case "test_prompt_with_embedded_resource":
            attached = embedded(given["resourceUri"], "Embedded resource content for testing.")
            return _prompt(attached, "Please process the embedded resource above.")
        case "test_prompt_with_image":
            return _prompt(IMAGE, "Please analyze the image above.")
        case "test_input_required_result_prompt":
            entered = content_of(params, "user_context")
            if entered is None:
                question = elicitation("What context should the prompt use?", CONTEXT)
                return t.InputRequiredResult(input_requests={"user_context": question})
            return _prompt(f"Use this: {entered['context']}")
    return None


def _prompt(*parts: str | t.ImageContent | t.EmbeddedResource) -> t.GetPromptResult:
    blocks = [t.TextContent(type="text", text=part) if isinstance(part, str) else part for part in parts]
    return t.GetPromptResult(messages=[t.PromptMessage(role="user", content=block) for block in blocks])
