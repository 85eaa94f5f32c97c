"""The names of spans, attributes and metrics: the only place that knows them.

They are those of OpenTelemetry's conventions for generative AI and MCP (open-telemetry/semantic-conventions-genai), as of
the commit `PINNED`. That repository has no released tag yet; `SCHEMA` is the version that its manifest declares. Names that
begin with `outrider` are ours. Invariant: `docs/reference/telemetry.md` has each of these names, and no other.
"""

from __future__ import annotations

PINNED = "06ec68e722c45a7218e23ea1bc1339fe4e21ecae"
SCHEMA = "https://opentelemetry.io/schemas/gen-ai-dev/1.42.0-dev"

# -- operations: `gen_ai.operation.name`, and the first word of a span's name ------------------------------------------

INVOKE_AGENT = "invoke_agent"
INVOKE_WORKFLOW = "invoke_workflow"
CHAT = "chat"
EXECUTE_TOOL = "execute_tool"
TOOLS_CALL = "tools/call"

# -- attributes of spans -----------------------------------------------------------------------------------------------

OPERATION = "gen_ai.operation.name"
PROVIDER = "gen_ai.provider.name"
CONVERSATION = "gen_ai.conversation.id"
AGENT = "gen_ai.agent.name"
AGENT_DESCRIPTION = "gen_ai.agent.description"
WORKFLOW = "gen_ai.workflow.name"
REQUEST_MODEL = "gen_ai.request.model"
REQUEST_MAX_TOKENS = "gen_ai.request.max_tokens"
REQUEST_STREAM = "gen_ai.request.stream"
RESPONSE_MODEL = "gen_ai.response.model"
RESPONSE_FINISH_REASONS = "gen_ai.response.finish_reasons"
RESPONSE_FIRST_CHUNK = "gen_ai.response.time_to_first_chunk"
INPUT_TOKENS = "gen_ai.usage.input_tokens"
"""All tokens of the prompt, also those read from the cache and written to it."""
OUTPUT_TOKENS = "gen_ai.usage.output_tokens"
CACHE_READ_TOKENS = "gen_ai.usage.cache_read.input_tokens"
CACHE_WRITE_TOKENS = "gen_ai.usage.cache_write.input_tokens"
TOOL = "gen_ai.tool.name"
TOOL_CALL_ID = "gen_ai.tool.call.id"
TOOL_TYPE = "gen_ai.tool.type"
TRANSFER_TARGET = "gen_ai.transfer.target.name"
TRANSFER_MODE = "gen_ai.transfer.mode"
MCP_METHOD = "mcp.method.name"
MCP_PROTOCOL = "mcp.protocol.version"
MCP_SESSION = "mcp.session.id"
REQUEST_ID = "jsonrpc.request.id"
RESPONSE_STATUS = "rpc.response.status_code"
TRANSPORT = "network.transport"
ERROR = "error.type"

EXECUTION = "outrider.execution.id"
PARENT = "outrider.execution.parent_id"
STATUS = "outrider.execution.status"
OUTCOME = "outrider.execution.outcome"
REASON = "outrider.execution.reason"
ROLE = "outrider.execution.role"
ATTEMPT = "outrider.execution.attempt"
COST = "outrider.cost_usd"
REHEARSED = "outrider.rehearsed"
SERVER = "outrider.tool.server"
CANCELLED = "outrider.cancelled"

# -- attributes with content: only where the configuration says so -----------------------------------------------------

SYSTEM_INSTRUCTIONS = "gen_ai.system_instructions"
INPUT_MESSAGES = "gen_ai.input.messages"
OUTPUT_MESSAGES = "gen_ai.output.messages"
TOOL_ARGUMENTS = "gen_ai.tool.call.arguments"
TOOL_RESULT = "gen_ai.tool.call.result"

# -- values ------------------------------------------------------------------------------------------------------------

RETURN_TO_CALLER = "return_to_caller"
FUNCTION, EXTENSION = "function", "extension"
"""The type of a tool: one of Outrider's, or one of an MCP server."""
PIPE, TCP = "pipe", "tcp"
OTHER = "_OTHER"
"""The type of an error that has none of its own."""

# -- metrics -----------------------------------------------------------------------------------------------------------

INFERENCE_DURATION = "gen_ai.client.inference.duration"
INFERENCE_INPUT = "gen_ai.client.inference.usage.input_tokens"
INFERENCE_OUTPUT = "gen_ai.client.inference.usage.output_tokens"
INFERENCE_CACHE_READ = "gen_ai.client.inference.usage.cache_read.input_tokens"
INFERENCE_CACHE_WRITE = "gen_ai.client.inference.usage.cache_write.input_tokens"
INVOKE_AGENT_DURATION = "gen_ai.invoke_agent.duration"
INVOKE_WORKFLOW_DURATION = "gen_ai.invoke_workflow.duration"
EXECUTE_TOOL_DURATION = "gen_ai.execute_tool.duration"
MCP_CLIENT_DURATION = "mcp.client.operation.duration"
MCP_SERVER_DURATION = "mcp.server.operation.duration"

EXECUTIONS = "outrider.executions"
EXECUTIONS_RUNNING = "outrider.executions.running"
EXECUTION_SECONDS = "outrider.execution.seconds"
COST_TOTAL = "outrider.cost.usd"
TOOL_CALLS = "outrider.tool.calls"
APPROVALS_WAITING = "outrider.approvals.waiting"
QUEUE_DEPTH = "outrider.queue.depth"
RESUMED = "outrider.resumed"
BUDGET_EXHAUSTED = "outrider.budget.exhausted"
UPSTREAM_UP = "outrider.upstream.up"
BUILD_INFO = "outrider.build.info"


def in_prometheus(name: str) -> str:
    """The name of a metric or label as Prometheus writes it, without the unit."""
    return name.replace(".", "_")
