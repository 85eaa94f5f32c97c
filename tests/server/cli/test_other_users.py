"""A database that another user of the machine owns: what one may learn who can read it and write nothing."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.shell import SECONDS, Shell, held, make_shell
from tests.support.sources import ROOT

pytestmark = pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")

AS_ANOTHER = f"""\
import contextlib, io, os, sys
from outrider.__main__ import main
sys.path.append({str(ROOT)!r})
from tests.support.fork_server import preload
preload()
with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
    main()  # imports what the command needs besides: the interpreter of root may be closed to others
os.setgroups([])
os.setgid(65534)
os.setuid(65534)
sys.exit(main())
"""


@pytest.fixture
def opened() -> Iterator[Shell]:
    """A shell in a folder that every user may enter; pytest's own is closed to others."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    yield make_shell(folder, environ={"OUTRIDER_DATABASE_URL": str(folder / "o.db")})
    shutil.rmtree(folder)


def read_by_another(shell: Shell, *words: str, mode: int = 0o644) -> subprocess.CompletedProcess[str]:
    """Run a command that starts nothing as a user who owns nothing here."""
    for file in shell.folder.glob("o.db*"):
        if file.is_file():
            file.chmod(mode)
    return subprocess.run(
        [sys.executable, "-c", AS_ANOTHER, *words],
        cwd=shell.folder,
        env=shell.surroundings(),
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )


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
