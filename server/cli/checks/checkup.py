"""The checks of `outrider doctor`, one finding each: this machine, the configuration, its models, the database.

Owns which checks there are and what each finding says. Must not know: how findings are printed. Invariant: a check changes
and creates nothing, shows no key and never raises.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal
from urllib.parse import urlsplit

from server.cli.terminal.exits import explain

if TYPE_CHECKING:
    from registry import Settings

State = Literal["ok", "attention", "failed"]

PACKAGES = ("db", "registry", "runner", "server")
"""Our import names: plain words, so another distribution may bring one of them too."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What a check found."""

    name: str
    state: State
    detail: str
    hint: str = ""


def failed(name: str, error: BaseException) -> Finding:
    """A check that ran into an error."""
    told = explain(error)
    return Finding(name, "failed", told.message, told.hint)


def python() -> Finding:
    """The interpreter; one that is too old has not come this far."""
    version = ".".join(map(str, sys.version_info[:3]))
    return Finding("python", "ok", f"{version} on {sys.platform}")


def terminal() -> Finding:
    """What the terminal can show."""
    from server.cli.terminal.output import coloured

    if not sys.stderr.isatty():
        return Finding("terminal", "ok", "none: progress is printed line by line")
    size = shutil.get_terminal_size()
    shapes = "shapes" if _encodes("●├", sys.stderr.encoding) else "plain characters"
    colour = "colour" if coloured(sys.stderr) else "no colour"
    kind = os.environ.get("TERM", "unknown")
    detail = f"{kind}, {size.columns} by {size.lines}, {colour}, {shapes}"
    if kind == "dumb":
        detail += "; it cannot redraw, so progress is printed line by line"
    return Finding("terminal", "ok", detail)


def _encodes(text: str, encoding: str) -> bool:
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        return False
    return True


def import_names() -> Finding:
    """Whether our packages are ours, and no other distribution installed one of the same name."""
    from importlib.metadata import packages_distributions
    from importlib.util import find_spec

    home = Path(__file__).resolve().parents[3]
    owners = packages_distributions()
    for name in PACKAGES:
        others = sorted(set(owners.get(name, ())) - {"outrider"})
        spec = find_spec(name)
        found = Path(spec.origin).resolve() if spec is not None and spec.origin else None
        if others or found is None or not found.is_relative_to(home):
            whose = " and ".join(f"`{each}`" for each in others) or f"`{found}`"
            hint = "install Outrider in an environment of its own, for example with `uv tool install outrider`"
            return Finding("import names", "failed", f"`{name}` also comes from {whose}", hint)
    return Finding("import names", "ok", f"{', '.join(PACKAGES)} are Outrider's own")


def configuration(path: Path) -> tuple[Finding, Settings | None]:
    """Whether the configuration loads, and the functions it names can be called."""
    from registry import ConfigError, check_endpoints, load
    from runner.functions.callables import configured
    from server.wording import count

    settings = None
    try:
        settings = load(path)
        configured(settings)
        check_endpoints(settings, os.environ)
    except ConfigError as error:
        return failed("configuration", error), settings
    parts = [
        count(len(settings.agents), "agent"),
        count(len(settings.chains), "chain"),
        count(len(settings.upstreams), "server"),
        count(len(settings.models), "model"),
    ]
    return Finding("configuration", "ok", f"{path}: {', '.join(parts)}"), settings


def models(settings: Settings, environ: Mapping[str, str]) -> Iterator[Finding]:
    """Whether each model can be asked, or at least rehearsed."""
    from runner.llm.models import Models

    chosen = Models(settings.models, environ)
    for spec in settings.models.values():
        name = f"model {spec.name}"
        try:
            chosen.check([spec])
        except Exception as error:
            yield failed(name, error)
            continue
        if environ.get(spec.api_key_env):
            yield Finding(name, "ok", f"{spec.model}, key in `{spec.api_key_env}`")
        else:
            script = spec.rehearsal.name if spec.rehearsal is not None else ""
            yield Finding(name, "ok", f"no key in `{spec.api_key_env}`: it plays its rehearsal `{script}`")


def traces(settings: Settings, environ: Mapping[str, str]) -> Iterator[Finding]:
    """Where traces go, if any are asked for."""
    from server.blueprint import Blueprint
    from server.telemetry import INSTALL, is_installed, traces_address

    address = traces_address(Blueprint(settings, Path(), environ=environ))
    if address is None:
        return
    try:
        parts = urlsplit(address)
    except ValueError as error:
        yield failed("traces", error)
        return
    shown = parts._replace(netloc=parts.netloc.rpartition("@")[2], query="").geturl()  # no key of an address is shown
    if is_installed():
        yield Finding("traces", "ok", f"sent to {shown}")
        return
    wish = settings.telemetry
    refused = wish.enabled or wish.endpoint is not None  # then no command begins to run agents
    detail = f"cannot be sent to {shown}: OpenTelemetry is not installed"
    yield Finding("traces", "failed" if refused else "attention", detail, INSTALL)


def sqlite() -> Finding:
    """Which SQLite library is in use, and whether it has the bug that can damage a file."""
    from db.store.health import library

    used = library()
    if used.mended:
        return Finding("sqlite", "ok", f"{used.version} ({used.module}), without the WAL-reset bug")
    detail = f"{used.version} ({used.module}) has the WAL-reset bug, fixed in 3.51.3; Outrider's commit lock avoids it"
    return Finding("sqlite", "attention", detail, "let no other program write to the database file")


def database(path: Path) -> Finding:
    """Whether the database can be read, written and trusted; one that is not there yet is not created."""
    from db.store.health import examine
    from server.wording import count

    try:
        found = examine(path)
    except Exception as error:
        return failed("database", error)
    if not found.exists:
        return Finding("database", "ok", f"none at {path} yet; the first run creates it")
    detail = f"{path}: schema {found.schema}, {count(found.executions, 'execution')}, "
    if found.schema < found.newest:
        return Finding("database", "attention", detail + "older than this Outrider", "the next run migrates it")
    if not found.checked_whole:
        return Finding("database", "ok", detail + "too large to be checked in full here")
    return Finding("database", "ok", detail + "sound")


def earlier_database() -> Iterator[Finding]:
    """Executions in the user's database, where a project has one of its own: earlier versions kept them there."""
    from server.cli.terminal.options import of_user_instead
    from server.wording import count

    kept = of_user_instead()
    if kept is not None:
        detail = f"{kept.path}: {count(kept.executions, 'execution')} outside of this project"
        yield Finding("user database", "ok", detail, f"add `--db {kept.path}` to look at them")
