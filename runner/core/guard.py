"""The guard: may this caller start that agent? Pure. It admits, or refuses with a typed reason and a hint.

The checks have a fixed order: known → in the catalogue → permitted → not in the path → depth → allowance. The price of an
answer is checked last, when the agent's own limits are known (`Execution.reserve_answer`). A refusal never crashes the
caller and leaves no execution row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from registry import CatalogueEntry, Limits, Requires, fold, nearest
from runner.budget.budget import Shortage
from runner.errors import Refusal
from runner.origin import User


@dataclass(frozen=True, slots=True)
class Caller:
    """What the guard knows of the caller."""

    agent: str
    path: Sequence[str]
    depth: int
    catalogue: Sequence[CatalogueEntry]
    limits: Limits
    dispatches_left: int
    user: User | None = None
    """The user it works for."""
    wrap_up: str | None = None
    running: Callable[[], Sequence[str]] = tuple
    """Ids of children that hold a slot; computed only for a refusal."""
    slots_full: bool = False
    delegation_path: Sequence[str] = ()
    """Its path with commands as labels, for the refusal."""


def admit(caller: Caller, wanted: str, known: Iterable[str]) -> CatalogueEntry:
    """The catalogue entry of the agent that may be started; raises Refusal."""
    entry = entry_of(caller.catalogue, wanted, known)
    permit(entry.name, entry.requires, caller.user)
    if caller.limits.cycle_check:
        not_in_path(caller.path, entry.name, caller.delegation_path)
    not_too_deep(caller)
    _something_left(caller)
    return entry


def entry_of(catalogue: Sequence[CatalogueEntry], wanted: str, known: Iterable[str]) -> CatalogueEntry:
    """The catalogue entry of `wanted`, in any spelling; raises Refusal. `known` are all configured agents."""
    for entry in catalogue:
        if fold(entry.name) == fold(wanted):
            return entry
    allowed = [entry.name for entry in catalogue]
    listed = ", ".join(f"`{name}`" for name in allowed) or "none"
    if fold(wanted) in {fold(name) for name in known}:
        raise Refusal(
            "not_in_catalogue", f"`{wanted}` is not among the agents you may dispatch", f"dispatch one of: {listed}"
        )
    close = nearest(wanted, allowed)
    hint = (f"did you mean `{close}`? " if close else "") + f"the agents you may dispatch: {listed}"
    raise Refusal("unknown_agent", f"there is no agent `{wanted}`", hint)


def permit(agent: str, requires: Requires, user: User | None) -> None:
    """Refuse an agent whose required capabilities or connections the user lacks; raises Refusal."""
    if user is None:
        if requires.capabilities or requires.connections:
            message = f"`{agent}` requires a user with {_needs(requires)}, but no user was given"
            hint = "name the user with `outrider run --user`, or pass their message to `send_user_message`"
            raise Refusal("permission_denied", message, hint, {"missing": "user", "agent": agent})
        return
    for capability in requires.capabilities:
        if fold(capability) not in map(fold, user.capabilities):
            message = f"`{agent}` needs the capability `{capability}`, which `{user.id}` does not have"
            hint = f"add it to the user's `capabilities`, or leave `{agent}` out"
            raise Refusal("permission_denied", message, hint, {"missing": "capability", "what": capability, "agent": agent})
    for connection in requires.connections:
        if fold(connection) not in map(fold, user.connections):
            message = f"`{agent}` needs a connection to `{connection}`, which `{user.id}` does not have"
            hint = f"connect `{connection}` and add it to the user's `connections`"
            raise Refusal("permission_denied", message, hint, {"missing": "connection", "what": connection, "agent": agent})


def _needs(requires: Requires) -> str:
    return ", ".join(f"`{each}`" for each in (*requires.capabilities, *requires.connections))


def not_in_path(path: Sequence[str], wanted: str, labelled: Sequence[str] = ()) -> None:
    """Refuse an agent that is already in the caller's path; raises Refusal."""
    if fold(wanted) in {fold(name) for name in path}:
        raise Refusal(
            "delegation_cycle",
            f"`{wanted}` is already at work above you: {' → '.join(path)} → {wanted}",
            "do that part yourself, or give it to an agent that is not in this path",
            {"delegation_path": list(labelled or path), "target": wanted},
        )


def not_too_deep(caller: Caller) -> None:
    """Refuse any child of an execution at the maximum depth; raises Refusal."""
    if caller.depth >= caller.limits.max_depth:
        raise Refusal(
            "max_depth_exceeded",
            f"agents are nested {caller.limits.max_depth} deep at most, and you are at depth {caller.depth}",
            "do the work yourself, or report what remains so that your caller can split it",
            {
                "depth": caller.depth,
                "max_depth": caller.limits.max_depth,
                "delegation_path": list(caller.delegation_path or caller.path),
            },
        )


def _something_left(caller: Caller) -> None:
    if caller.wrap_up is not None:
        raise Refusal(
            "wrapping_up", f"no new agents: it is time to conclude ({caller.wrap_up})", "answer with what you have"
        )
    if caller.dispatches_left < 1:
        most = caller.limits.max_dispatches
        raise Refusal(
            "limit",
            f"all {most} dispatches of this tree are used up (`max_dispatches`)",
            "work with the results you have",
            {"limit": "max_dispatches"},
        )
    if caller.slots_full and caller.limits.on_limit == "error":
        most, running = caller.limits.max_concurrent_agents, list(caller.running())
        raise Refusal(
            "limit",
            f"{most} agents are at work already (`max_concurrent_agents`): {', '.join(running)}",
            "wait until one of them ends, or cancel one, then dispatch again",
            {"limit": "max_concurrent_agents", "running": running},
        )


def too_little_left(agent: str, short: Shortage, *, top_level: bool) -> Refusal:
    """The refusal of an agent whose answer the budget does not cover."""
    needed, left = _shown(short.unit, short.needed), _shown(short.unit, short.left)
    limit = "max_cost_usd" if short.unit == "usd" else "max_tokens"
    given = f"`limits.{limit}`" + (" or `budget_usd`" if short.unit == "usd" else "")
    return Refusal(
        "budget",
        f"the budget does not cover an answer of `{agent}`: it needs up to {needed}, and {left} are left",
        f"raise {given}"
        if top_level
        else "do it yourself, make the task smaller, or wait until your agents release budget they do not use",
        {"limit": limit, "reason": short.reason, "needed": short.needed, "left": short.left},
    )


def _shown(unit: str, number: float) -> str:
    return f"${number:.4f}" if unit == "usd" else f"{number:,.0f} tokens"
