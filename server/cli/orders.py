"""An order from what stands on the command line: a name, a task, an alert, inputs, a time limit.

Owns reading alerts and inputs. Must not know: what happens with the order. Invariant: bad input is refused before anything
is opened, with a hint.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from registry import AgentSpec, Settings, meant
from registry.durations import parse_duration
from runner.alerts import alert_type, task_of, unwrapped
from runner.dispatcher import Order
from runner.inputs import accepted_input
from server.cli.exits import CommandError

ALERT_HINT = "give one JSON object with `labels`, `annotations` and `startsAt`, as Alertmanager sends it"


@dataclass(frozen=True, slots=True)
class Wish:
    """What was asked for, as written."""

    name: str | None
    task: str | None = None
    alert: str | None = None
    inputs: Sequence[str] = ()
    timeout: str | None = None
    user: str | None = None
    """An id or an alias of the person it is to work for."""


def order_of(wish: Wish, settings: Settings) -> Order:
    """The order a wish means; raises CommandError, UnknownName for an alert no chain takes or a user nobody knows, and
    Refusal for input that its agent does not take.
    """
    alert = read_alert(wish.alert) if wish.alert is not None else None
    pairs = dict(map(_pair, wish.inputs))
    name = wish.name
    if name is None:
        if alert is None:
            raise CommandError("no agent or chain named", "`outrider agents` lists them; an `--alert` chooses its chain")
        name = settings.chain_for_alert(_type_of(alert)).name
    subject = settings.find(name)
    agent = subject if isinstance(subject, AgentSpec) else None
    given = {key: meant(text, key, agent.input_schema if agent is not None else None) for key, text in pairs.items()}
    task = wish.task or (task_of(alert) if alert is not None else "")
    if not task and not given and not (agent is not None and agent.has_objective):
        raise CommandError(f"no task for `{name}`", f'say what to do: `outrider run {name} "…"`, or give an `--alert`')
    user = settings.user(wish.user).id if wish.user is not None else None
    data = {**(alert or {}), **given} or None
    return Order(name, task, data if agent is None else accepted_input(agent, data), _timeout(wish.timeout), user=user)


def read_alert(source: str) -> Mapping[str, Any]:
    """The alert in a file, or on standard input for `-`; a webhook around a single alert is taken off."""
    where = "standard input" if source == "-" else f"`{source}`"
    try:
        text = sys.stdin.read() if source == "-" else Path(source).read_text(encoding="utf-8")
        content = json.loads(text)
    except OSError as error:
        raise CommandError(
            f"cannot read the alert {where}: {error.strerror}", "check the path given to `--alert`"
        ) from error
    except (ValueError, RecursionError) as error:
        place = f" (line {error.lineno})" if isinstance(error, json.JSONDecodeError) else ""
        raise CommandError(f"the alert in {where} is not JSON{place}", ALERT_HINT) from error
    if not isinstance(content, dict):
        raise CommandError(f"the alert in {where} is not a JSON object", ALERT_HINT)
    return unwrapped(content)


def _type_of(alert: Mapping[str, Any]) -> str:
    name = alert_type(alert)
    if name is None:
        raise CommandError("the alert has no `labels.alertname`", "name the chain: `outrider run CHAIN --alert FILE`")
    return name


def _pair(written: str) -> tuple[str, str]:
    """`k=v`."""
    key, equals, value = written.partition("=")
    if not equals or not key.strip():
        raise CommandError(f"`--input {written}` has no name and value", "write `--input service=checkout`")
    return key.strip(), value


def _timeout(written: str | None) -> float | None:
    if written is None:
        return None
    hint = "write `--timeout 300s`, `5m` or a number of seconds"
    try:
        seconds = parse_duration(float(written) if written.replace(".", "", 1).isdigit() else written)
    except ValueError as error:
        raise CommandError(f"`--timeout`: {error}", hint) from error
    if seconds <= 0:
        raise CommandError("`--timeout` must be longer than nothing", hint)
    return seconds
