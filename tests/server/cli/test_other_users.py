"""A database that another user of the machine owns: what one may learn who can read it and write nothing."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.shell import SECONDS, Shell, held, make_shell
from tests.support.sources import ROOT

pytestmark = pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")

AS_ANOTHER = f"""\
import contextlib, io, json, os, sys
from outrider.__main__ import main
sys.path.append({str(ROOT)!r})
from tests.support.fork_server import preload
preload()
words, database = sys.argv[2:], os.environ["OUTRIDER_DATABASE_URL"]
sys.argv[1:] = json.loads(sys.argv[1])
os.environ["OUTRIDER_DATABASE_URL"] = database + "-copy/o.db"
with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
    main()  # imports what the command needs besides: the interpreter of root may be closed to others
os.setgroups([])
os.setgid(65534)
os.setuid(65534)
if not os.access(sys.executable, os.X_OK):
    sys.executable = "/usr/bin/python3"
sys.argv[1:], os.environ["OUTRIDER_DATABASE_URL"] = words, database
sys.exit(main())
"""


@pytest.fixture
def opened() -> Iterator[Shell]:
    """A shell in a folder that every user may enter; pytest's own is closed to others."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    yield make_shell(folder, environ={"OUTRIDER_DATABASE_URL": str(folder / "o.db")})
    shutil.rmtree(folder)


@contextmanager
def another(shell: Shell, *words: str, first: Sequence[str] = (), mode: int = 0o644) -> Iterator[subprocess.Popen[str]]:
    """A command that starts nothing, as a user who owns nothing here; root has run it, or `first`, on a copy before."""
    copy = shell.folder / "o.db-copy"
    copy.mkdir(exist_ok=True)
    for file in shell.folder.glob("o.db*"):
        if file.is_file():
            shutil.copy(file, copy)
            file.chmod(mode)
    process = subprocess.Popen(
        [sys.executable, "-c", AS_ANOTHER, json.dumps(first or words), *words],
        cwd=shell.folder,
        env=shell.surroundings(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def read_by_another(shell: Shell, *words: str, mode: int = 0o644) -> subprocess.CompletedProcess[str]:
    """The same, to its end."""
    with another(shell, *words, mode=mode) as process:
        answer, said = process.communicate(timeout=SECONDS)
    return subprocess.CompletedProcess(words, process.returncode, answer, said)


def told(shell: Shell, *words: str) -> Any:
    """The JSON that another user gets."""
    done = read_by_another(shell, *words, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("owners", [0o755, 0o700])
def test_a_run_is_alive_for_other_users_until_its_process_is_gone(opened: Shell, owners: int) -> None:
    gate = opened.gate("gate")
    with opened.start("run", "Lead", "go", GATE=str(gate)) as running:
        with held(gate):
            opened.folder.joinpath("o.db-owners").chmod(owners)
            [alive] = told(opened, "ps")
            shown = read_by_another(opened, "show", alive["id"]).stdout
            running.kill()
            running.wait(SECONDS)
        [gone] = told(opened, "ps")
        left = read_by_another(opened, "watch", alive["id"])

    assert (alive["owner_gone"], gone["owner_gone"]) == (False, True)
    assert ("running" in shown, "interrupted" in shown) == (True, False), shown
    assert (left.returncode, "the process that ran it is gone" in left.stderr) == (1, True)


def test_no_other_user_who_may_write_takes_a_tree_over_from_a_living_process(opened: Shell) -> None:
    gate = opened.gate("gate")
    with opened.start("run", "Lead", "go", GATE=str(gate)) as running:
        with held(gate):
            for folder in (opened.folder, opened.folder / "o.db-owners"):
                folder.chmod(0o777)
            [root] = opened.json("ps")
            refused = read_by_another(opened, "resume", root["id"], mode=0o666)
        answer, _ = running.communicate(timeout=SECONDS)

    assert (refused.returncode, "is running" in refused.stderr) == (3, True), refused.stderr
    assert (running.returncode, answer) == (0, "[rehearsed] it is done\n")


def test_a_database_that_no_process_has_open_is_read_where_nothing_may_be_written(opened: Shell) -> None:
    assert opened.type("run", "Quick", "go").returncode == 0
    before = {file: file.stat().st_mtime_ns for file in opened.folder.glob("o.db*") if file.is_file()}
    [ended] = told(opened, "ps", "--all")
    watched = read_by_another(opened, "watch", ended["id"])
    asked = read_by_another(opened, "sql", "select agent from executions")

    assert (watched.returncode, watched.stdout) == (0, "[rehearsed]\n\n# Finding\n\nat once\n")
    assert (asked.returncode, asked.stdout) == (0, "agent\nQuick\n"), asked.stderr
    assert {file: file.stat().st_mtime_ns for file in opened.folder.glob("o.db*") if file.is_file()} == before


def test_a_reader_who_came_first_sees_what_a_process_writes_that_opens_the_database_later(opened: Shell) -> None:
    assert opened.type("run", "Quick", "go").returncode == 0
    with another(opened, "ps", "--watch", "--json", first=["ps"]) as listing:
        assert listing.stdout is not None
        assert json.loads(listing.stdout.readline())["agent"] == "Quick"
        assert opened.type("run", "Broken", "go").returncode == 1
        while (entry := json.loads(listing.stdout.readline()))["group"] != "attention":
            assert entry["agent"] == "Broken"

    assert entry["status"] == "failed"


def test_files_that_another_user_cannot_read_are_told_with_what_helps(opened: Shell) -> None:
    gate = opened.gate("gate")
    with opened.start("run", "Lead", "go", GATE=str(gate)) as running, held(gate):
        running.kill()
        running.wait(SECONDS)
    database = opened.folder / "o.db"
    private = read_by_another(opened, "ps", mode=0o600)
    database.with_name("o.db-shm").unlink()
    shut = read_by_another(opened, "ps")

    assert [private.returncode, shut.returncode] == [2, 2]
    assert f"\n\nhint: let this user read `{database}`, or name another one with `--db`\n" in private.stderr
    assert f"\n\nhint: let a user who may write in `{opened.folder}` open it once with `outrider serve`" in shut.stderr
