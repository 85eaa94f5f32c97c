"""A real terminal of 12 rows and 90 columns, with a person before it.

Owns: giving a command a terminal as its stdin and stderr. Must not know: what a test is about.
Invariant: stdout is a pipe, so that data and what a person sees stay apart.
"""

import fcntl
import os
import pty
import struct
import subprocess
import termios

from tests.support.shell import SCRIPT, SECONDS, Shell


def typed(shell: Shell, *words: str, keys: str = "", **environ: str) -> tuple[int, str, str]:
    """Run a command before a person who presses these keys; its exit code, stdout, and what the terminal got."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 12, 90, 0, 0))
    surroundings = shell.surroundings(**{"TERM": "xterm-256color", **environ})
    process = subprocess.Popen(
        [SCRIPT, *words], cwd=shell.folder, env=surroundings, stdin=slave, stdout=subprocess.PIPE, stderr=slave
    )
    os.close(slave)
    os.write(master, keys.encode())  # the terminal keeps them until they are read
    seen = bytearray()
    try:
        while chunk := os.read(master, 65536):
            seen += chunk
    except OSError:  # the other end was closed: that is how a terminal ends
        pass
    finally:
        os.close(master)
    out, _ = process.communicate(timeout=SECONDS)
    return process.returncode, out.decode(), seen.decode()
