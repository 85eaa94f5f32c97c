"""The live tree on a real terminal: redrawn in place, the last picture stays, colour only where it is wanted."""

import re

from tests.support.shell import Shell
from tests.support.terminal import typed


def test_the_last_picture_stays_in_the_scroll_back(shell: Shell) -> None:
    code, answer, seen = typed(shell, "run", "look", "go")

    assert (code, answer) == (0, "[rehearsed]\n\n# Finding\n\nat once\n")
    plain = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", seen).replace("\r", "")
    last = plain[plain.rindex("● look") :].splitlines()
    assert re.match(r"└─ ● Quick \(only\)  \w{6} +at once", last[1])
    assert last[2].startswith("total")
    assert re.search(r"\x1b\[[0-9;]*3[0-9]m", seen)


def test_no_color_is_honoured(shell: Shell) -> None:
    code, _, seen = typed(shell, "run", "Quick", "go", NO_COLOR="1")
    refused, _, told = typed(shell, "run", "Quik", "go", NO_COLOR="1")

    assert (code, refused) == (0, 4)
    assert not re.search(r"\x1b\[[0-9;]*3[0-9]m", seen + told)
    assert "error: no agent" in told


def test_a_terminal_that_cannot_redraw_gets_lines(shell: Shell) -> None:
    code, _, seen = typed(shell, "run", "Quick", "go", TERM="dumb")

    assert code == 0
    assert "\x1b" not in seen
    assert re.search(r"◐ Quick  running\r\n.*● Quick  completed: at once", seen)
