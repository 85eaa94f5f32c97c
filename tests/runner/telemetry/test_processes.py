"""Traces across processes: from a client into a server over MCP, and from a process that ended to the one that goes on."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from runner.telemetry import names
from tests.server.mcp_face.host import VERSION, ask, send
from tests.support.otlp import receiving
from tests.support.shell import SCRIPT, held, make_shell

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
TRACE, CALLER = PARENT.split("-")[1:3]
REQUEST, DISPATCH = "tools/call dispatch_agent", "execute_tool dispatch_agent Waiter"


@pytest.mark.parametrize("stop", [signal.SIGKILL, signal.SIGTERM])
def test_a_resumed_tree_goes_on_in_the_trace_of_its_caller(tmp_path: Path, stop: signal.Signals) -> None:
    with receiving(tmp_path) as receiver:
        shell = make_shell(tmp_path)
        gate = shell.gate("gate")
        environ = {**receiver.environ, "GATE": str(gate)}
        with subprocess.Popen(
            [SCRIPT, "serve"],
            cwd=shell.folder,
            env=shell.surroundings(**environ),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        ) as process:
            ask(process, "initialize", protocolVersion=VERSION, capabilities={}, clientInfo={"name": "h", "version": "1"})
            send(process, {"method": "notifications/initialized"})
            meta = {"traceparent": PARENT, "tracestate": "vendor=a1"}
            order = {"name": "Lead", "task": "go"}
            answer = ask(process, "tools/call", name="dispatch_agent", arguments=order, _meta=meta)
            root = answer["structuredContent"]["execution_id"]
            with held(gate):
                receiver.until(lambda: {REQUEST, DISPATCH} <= {span["name"] for span in receiver.spans})
                process.send_signal(stop)
                if stop is signal.SIGKILL:
                    process.wait(20)
            process.wait(40)
        before = {span["id"] for span in receiver.spans}
        assert not receiver.executions(), "an execution that goes on has not ended"

        done = shell.type("resume", root, fresh=False, **environ)
        assert done.returncode == 0, done.stderr
        spans, executions, nested = receiver.spans, receiver.executions(), receiver.nesting()

    request, dispatched = receiver.named(REQUEST), receiver.named(DISPATCH)
    assert (request["kind"], request["parent"], request["state"]) == ("SERVER", CALLER, "vendor=a1")
    wire = {names.MCP_METHOD: "tools/call", names.TRANSPORT: "pipe", names.MCP_PROTOCOL: VERSION}
    assert request["attributes"] | wire | {names.TOOL: "dispatch_agent"} == request["attributes"]
    assert {span["trace"] for span in spans} == {TRACE}
    rows = {row["id"]: row["parent_execution_id"] for row in shell.rows("select id, parent_execution_id from executions")}
    assert nested == rows
    assert (executions[root]["parent"], executions[root]["attributes"][names.ATTEMPT]) == (request["id"], 2)
    assert dispatched["parent"] == executions[root]["id"]
    assert dispatched["id"] in before
    known = {span["id"] for span in spans} | {CALLER}
    assert {span["parent"] for span in spans} <= known, "a span is without its parent"
    assert executions[root]["start"] <= dispatched["start"] <= executions[root]["end"]


def test_a_service_without_telemetry_imports_nothing_of_it(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("agents: {A: {description: a}}\n", encoding="utf-8")
    script = """
import outrider, sys, anyio, json
from pathlib import Path
from registry import load
from server.app import Blueprint, open_service
async def main():
    async with open_service(Blueprint(load("config.yaml"), Path("x.db"))) as dispatcher:
        assert dispatcher.services.observers is None
anyio.run(main)
told = ("opentelemetry.sdk", "opentelemetry.exporter", "prometheus_client", "runner.telemetry")
print(json.dumps([name for name in sys.modules if name.startswith(told)]))
"""
    environ = make_shell(tmp_path, "agents: {A: {description: a}}\n").surroundings()
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, env=environ, capture_output=True, text=True, check=True
    )
    assert json.loads(done.stdout) == []
