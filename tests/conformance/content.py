"""Fixtures that answer: every kind of content, errors, progress, logging, and schemas that must arrive unchanged."""

from __future__ import annotations

import base64

import mcp_types as t
from mcp.shared.exceptions import MCPError

from tests.conformance.fixture import Answer, Context, fixture, say, shaped

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg=="
SILENCE = base64.b64encode(b"RIFF$\0\0\0WAVEfmt \x10\0\0\0\1\0\1\0@\x1f\0\0@\x1f\0\0\1\0\x08\0data\0\0\0\0").decode()

IMAGE = t.ImageContent(type="image", data=PIXEL, mime_type="image/png")


def embedded(uri: str, text: str, mime_type: str = "text/plain") -> t.EmbeddedResource:
    """A resource inside an answer."""
    return t.EmbeddedResource(type="resource", resource=t.TextResourceContents(uri=uri, mime_type=mime_type, text=text))


@fixture("test_simple_text")
async def simple_text(_ctx: Context, _params: t.CallToolRequestParams) -> Answer:
    return say("This is a simple text response for testing.")


@fixture("test_image_content")
async def image_content(_ctx: Context, _params: t.CallToolRequestParams) -> Answer:
    return t.CallToolResult(content=[IMAGE])


@fixture("test_audio_content")
async def audio_content(_ctx: Context, _params: t.CallToolRequestParams) -> Answer:
    return t.CallToolResult(content=[t.AudioContent(type="audio", data=SILENCE, mime_type="audio/wav")])


@fixture("test_embedded_resource")
async def embedded_resource(_ctx: Context, _params: t.CallToolRequestParams) -> Answer:
    return t.CallToolResult(content=[embedded("test://embedded-resource", "This is an embedded resource content.")])


@fixture("test_multiple_content_types")
async def multiple_content_types(_ctx: Context, _params: t.CallToolRequestParams) -> Answer:
    words = t.TextContent(type="text", text="Multiple content types test:")
    data = embedded("test://mixed-content-resource", '{"test":"data","value":123}', "application/json")
    return t.CallToolResult(content=[words, IMAGE, data])


@fixture("test_error_handling")
async def error_handling(_ctx: Context, _params: t.CallToolRequestParams) -> Answer:
    return say("This tool intentionally returns an error for testing", is_error=True)


@fixture("test_tool_with_progress")
async def tool_with_progress(ctx: Context, _params: t.CallToolRequestParams) -> Answer:
    for done in (0, 50, 100):
        await ctx.session.report_progress(done, 100)
    return say("done")


@fixture("test_tool_with_logging")
async def tool_with_logging(ctx: Context, _params: t.CallToolRequestParams) -> Answer:
    for words in ("Tool execution started", "Tool processing data", "Tool execution completed"):
        await log(ctx, words)
    return say("done")


@fixture("test_logging_tool")
async def logging_tool(ctx: Context, _params: t.CallToolRequestParams) -> Answer:
    await log(ctx, "nobody asked for this")
    return say("done")


async def log(ctx: Context, words: str) -> None:
    """Send a log message; a modern client hears it only if its request asked for a level."""
    params = t.LoggingMessageNotificationParams(level="info", data=words)
    if ctx.session.can_send_request:  # only the older era has a way back
        await ctx.session.send_notification(t.LoggingMessageNotification(params=params), ctx.request_id)


@fixture("test_missing_capability")
async def missing_capability(ctx: Context, _params: t.CallToolRequestParams) -> Answer:
    capabilities = ctx.session.client_capabilities
    if capabilities is None or capabilities.sampling is None:
        missing = t.ClientCapabilities(sampling=t.SamplingCapability())
        needed = t.MissingRequiredClientCapabilityErrorData(required_capabilities=missing)
        data = needed.model_dump(by_alias=True, mode="json", exclude_none=True)
        raise MCPError(t.MISSING_REQUIRED_CLIENT_CAPABILITY, "sampling is needed", data)
    return say("sampling is there")


@fixture("test_custom_headers", region={"type": "string", "x-mcp-header": "Region"})
async def custom_headers(_ctx: Context, _params: t.CallToolRequestParams) -> Answer:
    return say("the header and the body agree")


@shaped(
    "json_schema_2020_12_tool",
    {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": {
            "address": {
                "$anchor": "addressDef",
                "type": "object",
                "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
            }
        },
        "properties": {
            "name": {"type": "string"},
            "address": {"$ref": "#/$defs/address"},
            "contactMethod": {"type": "string", "enum": ["phone", "email"]},
            "phone": {"type": "string"},
            "email": {"type": "string"},
        },
        "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
        "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
        "then": {"required": ["phone"]},
        "else": {"required": ["email"]},
        "additionalProperties": False,
    },
)
async def whole_schema(_ctx: Context, _params: t.CallToolRequestParams) -> Answer:
    return say("the schema is what matters")
