"""`outrider replay`: a recorded tree once more, without a model, and the first difference."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from server.cli.terminal.exits import CommandError, Exit
from server.cli.terminal.options import (
    ConfigOption,
    DatabaseOption,
    JsonOption,
    chosen_database,
    chosen_settings,
)

if TYPE_CHECKING:
    from registry import Settings
    from runner.replay.comparison import ReplayDifference
    from runner.replay.recording import Recording
    from server.replay import Replayed


def replay(
    what: Annotated[
        str, typer.Argument(metavar="BUNDLE|ID", help="A file that `export --json` wrote, or an ended execution.")
    ],
    tools: Annotated[
        Literal["recorded", "live"],
        typer.Option("--tools", help="`live` calls the tools of servers that only read; all else is as recorded."),
    ] = "recorded",
    as_json: JsonOption = False,
    config: ConfigOption = None,
    db: DatabaseOption = None,
) -> int:
    """Run a recorded tree again with its recorded replies, and tell the first difference: exit 1 if there is one.

    Everything happens in a temporary database: no model is asked, no token used, no key needed. With recorded tools no
    server is started either.
    """
    import anyio

    from server.digests import told

    file = Path(what)
    if file.is_file():
        from server.export import read_bundle

        recording, altered = read_bundle(file)
    elif file.exists() and (file.suffix or len(file.parts) != 1):
        raise CommandError(f"`{what}` is not a file", "name a file that `outrider export ID --json FILE` wrote")
    elif file.suffix or len(file.parts) != 1:
        raise CommandError(f"there is no file `{what}`", "write one with `outrider export ID --json FILE`", Exit.NOT_FOUND)
    else:
        recording, altered = anyio.run(_recorded, chosen_database(db, config), what), []
    servers = chosen_settings(config) if tools == "live" else None
    ended = _replayed(recording, servers)
    if ended is None:
        return Exit.STOPPED
    ended = replace(ended, differences=told(ended.differences, altered))
    _tell(recording, ended, ended.differences[0] if ended.differences else None, as_json=as_json)
    return Exit.FAILED if ended.differences or ended.stood_still else Exit.DONE


def _replayed(recording: Recording, servers: Settings | None) -> Replayed | None:
    """The replay; None if a signal ended it before. Its folder, with prompts and results, is removed in any case."""
    import signal

    import anyio

    from server.cli.terminal.signals import unless_signalled
    from server.replay import replay as replayed
    from server.shutdown import polite_stops

    ended: Replayed | None = None

    async def work() -> None:
        nonlocal ended
        ended = await replayed(recording, servers)

    came = anyio.run(unless_signalled, work, polite_stops())
    if came is not None and came is not signal.SIGTERM:
        signal.raise_signal(came)  # a hangup ends it as it ends every other command
    return None if came is not None else ended


async def _recorded(database: Path, identifier: str) -> Recording:
    from server.cli.store import reading
    from server.export import recording_of

    async with reading(database) as reads:
        execution = await reads.resolve(identifier)
        row = await reads.execution(execution)
        assert row is not None
        if row["parent_execution_id"] is not None:
            hint = f"replay the tree: `outrider replay {row['root_execution_id']}`"
            raise CommandError(f"execution `{execution}` is inside a tree", hint)
        return await recording_of(reads, execution)


def _tell(recording: Recording, ended: Replayed, first: ReplayDifference | None, *, as_json: bool) -> None:
    from server.cli.terminal.output import note, put, put_json

    equal = first is None and not ended.stood_still
    if as_json:
        put_json(
            {
                "execution_id": recording.root,
                "equal": equal,
                "executions": ended.executions,
                "replies": ended.replies,
                "tool_calls": ended.calls,
                "from_record": list(ended.unfolded),
                "stood_still": ended.stood_still,
                "differences": len(ended.differences),
                "first_difference": first.as_object() if first is not None else None,
            }
        )
        return
    if ended.unfolded:
        names = dict.fromkeys(recording.by_id[each].agent for each in ended.unfolded)
        note(f"taken from the recording, because its inputs are not in it: {', '.join(f'`{each}`' for each in names)}")
    told = f"{ended.executions} executions, {ended.replies} replies, {ended.calls} tool calls; no token used"
    if equal:
        put(f"equal: {told}")
        return
    put(_shown(first) if first is not None else "the replay stood still, without another difference")
    note(f"{len(ended.differences)} differences; {told}")


def _shown(first: ReplayDifference) -> str:
    where = [f"{first.agent} ({first.execution_id})"]
    where += [f"turn {first.turn}"] if first.turn is not None else []
    where += [f"call `{first.tool}` ({first.call_id})"] if first.call_id is not None else []
    values = f"  expected: {_value(first.expected)}\n  got:      {_value(first.got)}"
    return f"different: {', '.join(where)}: {first.what}\n{values}"


def _value(value: Any) -> str:
    import json

    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text.replace("\n", "\n            ")
