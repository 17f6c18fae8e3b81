"""``quorate top`` in a real terminal: redrawn, controlled by keys, and restored at the end."""

from __future__ import annotations

import os
import pty
import re
import select
import subprocess
import sys
import termios
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.bounds import until
from tests.cli.shell import ROOT, Shell

pytestmark = pytest.mark.slow
LINE = ("--team", "rai", "--flavor", "H100")


@dataclass
class Terminal:
    """A terminal of 24 lines in which a command runs, and all output of the command."""

    file: int
    process: subprocess.Popen[bytes]
    written: str = ""

    def press(self, keys: str) -> None:
        os.write(self.file, keys.encode())

    def screen(self) -> str:
        """Return the screen as drawn last."""
        while select.select([self.file], [], [], 0.05)[0]:
            try:
                self.written += os.read(self.file, 65_536).decode()
            except OSError:
                break  # The command has ended.
        return self.written.rpartition("\x1b[H")[2]

    def ends(self) -> int:
        """Return the exit code of the command; read its output until then."""

        def has_ended() -> bool:
            self.screen()
            return self.process.poll() is not None

        until(has_ended, "it ends", tell=lambda: self.written)
        self.screen()
        return self.process.returncode

    def until(self, pattern: str) -> str:
        """Return the screen as soon as it matches ``pattern``."""
        found = until(
            lambda: re.search(pattern, self.screen(), re.DOTALL), pattern, tell=lambda: self.written
        )
        return found[0]


@contextmanager
def terminal(folder: Path, *words: str, **env: str) -> Iterator[Terminal]:
    """Run ``quorate`` with ``words`` in a separate terminal."""
    master, slave = pty.openpty()
    termios.tcsetwinsize(slave, (24, 100))
    # As in a shell, an interrupt comes from the terminal, even if the tests run in the background,
    # where interrupts are ignored.
    own = "import fcntl, signal, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0)"
    heeds = "signal.signal(signal.SIGINT, signal.default_int_handler)"
    program = f"{own}; {heeds}; from quorate.cli.main import run; run()"
    process = subprocess.Popen(
        [sys.executable, "-c", program, *words],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), "TERM": "xterm", **env},
        stdin=slave,
        stdout=slave,
        stderr=slave,
        start_new_session=True,
    )
    os.close(slave)
    try:
        yield Terminal(master, process)
    finally:
        process.kill()
        process.wait()
        os.close(master)


def test_keys_sort_filter_and_end_it(shell: Shell) -> None:
    for name, gpus in (("small", "1"), ("large", "4")):
        shell.ok("submit", *LINE, "--name", name, "--gpus", gpus, "--", "x")
    with terminal(shell.folder, "top", "--interval", "0.2") as top:
        top.until(r"by gpus.*large .*small .*q quit")
        top.press("sss")
        top.until(r"by name.*large .*small ")
        top.press("r")
        top.until(r"by name, reversed.*small .*large ")
        top.press("/lar")
        top.until(r"1 of 2 runs.*filter: lar_")
        top.press("\r")
        assert "small " not in top.until(r"with 'lar'.*large .*q quit")
        # Events of other writers are shown, too.
        shell.ok("submit", *LINE, "--name", "larger", "--gpus", "2", "--", "x")
        top.until(r"2 of 3 runs.*larger ")
        assert "\x1b[32m" in top.written
        top.press("\x1b")
        top.press("q")
        assert top.ends() == 0
        assert top.written.startswith("\x1b[?1049h")
        assert top.written.rstrip().endswith("\x1b[?25h\x1b[?1049l")


def test_no_color_is_respected(shell: Shell) -> None:
    shell.ok("submit", *LINE, "--name", "small", "--gpus", "1", "--", "x")
    with terminal(shell.folder, "top", NO_COLOR="1") as top:
        top.until(r"small .*q quit")
        assert re.search(r"\x1b\[\d+m", top.written) is None
        top.press("\x03")
        assert top.ends() == 130


def test_it_is_printed_once_where_no_person_looks(shell: Shell) -> None:
    assert "FLAVOR" in shell.ok("top")
    with terminal(shell.folder, "top", "--once") as top:
        assert top.ends() == 0
        assert "no run uses it" in top.written
        assert "\x1b[?1049h" not in top.written
