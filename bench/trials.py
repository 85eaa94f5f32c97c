"""One trial of one contestant in one scenario, measured from the outside.

Owns: the steps and measurements of each kind of scenario. Must not know: tables or files. Invariant: every trial has its
own fake model and its own process, and a failed one is a report with `ok: false`, never an exception.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from dataclasses import replace
from typing import Any

from bench.contest import CANCELLED
from bench.processes import ContestantProcess, FakeModelProcess, contestant, fake_model
from bench.roster import Contestant
from bench.scenarios import Scenario

POLL_SECONDS = 0.1
STALLED_SECONDS = 10.0
"""After so long without growth, the number of requests in flight is final."""
EARLY = 20
"""The early turn that a late one is compared with."""
SPAN = 10
"""Turns over which stored bytes are averaged: the lengths of ids and numbers must not matter."""
SETTLING_SECONDS = 0.3
"""After the last request arrived or the last task ended: the time until memory and sockets show it."""

Report = dict[str, Any]


def attempt(who: Contestant, scenario: Scenario, timeout: float) -> Report:
    """Run one trial."""
    if scenario.kind == "memory":
        return _memory(who, scenario, timeout)
    if scenario.kind == "cancel":
        return _cancel(who, scenario, timeout)
    if scenario.kind == "growth":
        return _growth(who, scenario, timeout)
    return _work(who, scenario, timeout)


def _arguments(scenario: Scenario, model: FakeModelProcess, n: int) -> list[str]:
    size = ["--fanout", str(n), "--turns", str(scenario.turns)]
    return [*size, "--tool", scenario.tool, "--base-url", model.url]


def _work(who: Contestant, scenario: Scenario, timeout: float) -> Report:
    """The work, from the start of the process to its report."""
    with fake_model("--latency-ms", str(scenario.latency_ms)) as model:
        started = time.time()
        with contestant(who.command(*_arguments(scenario, model, scenario.n))) as process:
            try:
                report = process.report(timeout)
            except subprocess.TimeoutExpired:
                report = {"ok": False, "final": f"no end after {timeout:g} s"}
            except ValueError as error:
                report = {"ok": False, "final": str(error)}
            if not report["ok"]:
                report["stderr"] = process.complaints()

        stats = model.stats()
        first, ready = stats["first_request_at"], report.get("ready_at")
        return report | {
            "llm_requests": stats["requests"],
            "llm_errors": stats["errors"],
            "llm_streamed": stats["streamed"],
            "llm_cpu_s": round(model.cpu_seconds(), 3),
            "max_in_flight": stats["max_in_flight"],
            "connections": stats["connections_total"],
            "ready_s": round(ready - started, 3) if ready else None,
            "first_request_s": round(first - started, 3) if first else None,
            "load_1m": os.getloadavg()[0],
        }


def _memory(who: Contestant, scenario: Scenario, timeout: float) -> Report:
    """Resident memory with one and with all sub-agents waiting for the model."""
    one, many = _held(who, scenario, 1, timeout), _held(who, scenario, scenario.n, timeout)
    report: Report = {"ok": many["held"] >= scenario.n, "held": many["held"], "all_held_s": many["after_s"]}
    report |= {"rss_one_mb": one["rss_mb"], "rss_all_mb": many["rss_mb"]}
    if many["held"] > 1:
        report["kb_each"] = round(1024 * (many["rss_mb"] - one["rss_mb"]) / (many["held"] - 1), 1)
    else:
        report["final"] = "no sub-agent reached the model: " + many["stderr"]
    return report


def _growth(who: Contestant, scenario: Scenario, timeout: float) -> Report:
    """Bytes stored for an early and for a late turn, from conversations of four lengths."""
    report: Report = {"ok": True}
    for name, turn in (("early_bytes", EARLY), ("late_bytes", scenario.turns)):
        ends = [_work(who, replace(scenario, turns=turn + step), timeout) for step in (-SPAN // 2, SPAN // 2)]
        if not all(each["ok"] for each in ends):
            return next(each for each in ends if not each["ok"])
        report[name] = (ends[1]["bytes"] - ends[0]["bytes"]) / SPAN
    return report


def _held(who: Contestant, scenario: Scenario, n: int, timeout: float) -> Report:
    with fake_model("--hold") as model:
        started = time.time()
        with contestant(who.command(*_arguments(scenario, model, n))) as process:
            held = _wait_until_held(model, process, n, timeout)
            after = time.time() - started
            time.sleep(SETTLING_SECONDS)
            resident = process.resident_mb() if process.running else 0.0
            return {"held": held, "after_s": round(after, 2), "rss_mb": resident, "stderr": process.complaints()}


def _cancel(who: Contestant, scenario: Scenario, timeout: float) -> Report:
    """A cancellation while every sub-agent waits for the model, as the contestant and the model see it."""
    with (
        fake_model("--hold") as model,
        contestant(who.command(*_arguments(scenario, model, scenario.n), "--cancel")) as process,
    ):
        held = _wait_until_held(model, process, scenario.n, timeout)
        time.sleep(SETTLING_SECONDS)
        before = model.stats()
        try:
            return _cancelled(model, process, before) | {"held": held}
        except ValueError as error:
            return {"ok": False, "held": held, "final": str(error), "stderr": process.complaints()}


def _cancelled(model: FakeModelProcess, process: ContestantProcess, before: Report) -> Report:
    process.signal(signal.SIGUSR1)
    line = process.line()
    seen = before
    if line.get("event") == "cancelled":
        time.sleep(SETTLING_SECONDS)
        seen = model.stats()
        line = process.line()

    report = line | {
        "in_flight_after": seen["in_flight"],
        "aborted": seen["aborted"],
        "requests_after": seen["requests"] - before["requests"],
    }
    if seen["last_abort_at"] and "cancel_at" in report:
        report["model_saw_s"] = round(seen["last_abort_at"] - report["cancel_at"], 4)
    report["ok"] = report.get("final") == CANCELLED and report["in_flight_after"] == 0
    return report


def _wait_until_held(model: FakeModelProcess, process: ContestantProcess, wanted: int, patience: float) -> int:
    """Wait until the model holds so many requests of sub-agents, or their number stops growing."""
    best, grown, deadline = 0, time.monotonic(), time.monotonic() + patience
    while best < wanted and time.monotonic() < deadline and process.running:
        held = model.stats()["held"]
        if held > best:
            best, grown = held, time.monotonic()
        elif best and time.monotonic() - grown > STALLED_SECONDS:
            break
        time.sleep(POLL_SECONDS)

    return best
