"""An order from what stands on the command line: a name, a task, an alert, inputs, a time limit.

Owns reading alerts and inputs. Must not know: what happens with the order. Invariant: bad input is refused before anything
is opened, with a hint.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from registry import AgentSpec, Settings, meant
from registry.text.durations import parse_duration
from runner.inputs import accepted_input
from runner.service.order import Order
from server.alerts import alert_types, is_resolved, known_types, shared_type, task_of, unwrapped
from server.cli.terminal.exits import CommandError

LONGEST_KEY = 200
"""Characters of an idempotency key, as `dispatch_agent` takes it."""
ALERT_HINT = "give one JSON object with `labels`, `annotations` and `startsAt`, as Alertmanager sends it"


@dataclass(frozen=True, slots=True)
class RunArguments:
    """What was asked for, as written."""

    name: str | None
    task: str | None = None
    alert: str | None = None
    inputs: Sequence[str] = ()
    timeout: str | None = None
    user: str | None = None
    """An id or an alias of the person it is to work for."""
    key: str | None = None
    """The same key again means the same execution."""


class Resolved(Exception):
    """The alert does not fire any more: there is nothing to start."""

    def __init__(self, types: Sequence[str]) -> None:
        super().__init__(f"the alert {', '.join(types)} is resolved".replace("  ", " "))
        self.types = tuple(types)


def order_of(wish: RunArguments, settings: Settings) -> Order:
    """The order a wish means; raises CommandError, Resolved, UnknownName for an alert no chain takes or an unknown
    user, and Refusal for input that its agent does not take.
    """
    key = _key(wish.key)
    alert = read_alert(wish.alert) if wish.alert is not None else None
    if alert is not None and is_resolved(alert):
        raise Resolved(known_types(alert))
    pairs = dict(map(_pair, wish.inputs))
    name = wish.name
    if name is None:
        if alert is None:
            raise CommandError("no agent or chain named", "`outrider agents` lists them; an `--alert` chooses its chain")
        name = chain_of(alert, settings)
    subject = settings.find(name)
    agent = subject if isinstance(subject, AgentSpec) else None
    given = {key: meant(text, key, agent.input_schema if agent is not None else None) for key, text in pairs.items()}
    task = wish.task or (task_of(alert) if alert is not None else "")
    if not task and not given and not (agent is not None and agent.has_objective):
        raise CommandError(f"no task for `{name}`", f'say what to do: `outrider run {name} "…"`, or give an `--alert`')
    user = settings.user(wish.user).id if wish.user is not None else None
    data = {**(alert or {}), **given} or None
    given_input = data if agent is None else accepted_input(agent, data)
    return Order(name, task, given_input, _timeout(wish.timeout), key=key, user=user)


def read_alert(source: str) -> Mapping[str, Any]:
    """The alert in a file, or on standard input for `-`; a webhook around a single alert is taken off."""
    where = "standard input" if source == "-" else f"`{source}`"
    try:
        text = sys.stdin.read() if source == "-" else Path(source).read_text(encoding="utf-8")
        content = json.loads(text, parse_constant=_no_number)
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


def _no_number(written: str) -> NoReturn:
    raise ValueError(f"`{written}` is no JSON")


def chain_of(alert: Mapping[str, Any], settings: Settings) -> str:
    """The chain that an alert starts. Of a group whose alerts start different ones it is the chain of the name that the
    group's labels give, else that of most of its alerts, else that of the first.
    """
    types = alert_types(alert)
    if not types:
        raise CommandError("the alert has no `labels.alertname`", "name the chain: `outrider run CHAIN --alert FILE`")
    chains = {each: chain.name for chain in settings.chains.values() for each in chain.alert_types}
    shared = shared_type(alert)
    if shared in chains:
        return chains[shared]
    votes = Counter(chains[each] for each in types if each in chains)
    return votes.most_common(1)[0][0] if votes else settings.chain_for_alert(types[0]).name


def _key(written: str | None) -> str | None:
    if written is not None and not 0 < len(written) <= LONGEST_KEY:
        raise CommandError(
            f"`--idempotency-key` has {len(written)} characters", f"give it between 1 and {LONGEST_KEY} characters"
        )
    return written


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
        raise CommandError("`--timeout` must be greater than zero", hint)
    return seconds
