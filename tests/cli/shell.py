"""A shell for tests: the command line on a real ledger in a separate folder."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from contextlib import chdir
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import pytest

from quorate.cli.main import main
from quorate.cli.settings import Settings
from quorate.views.runs.tried_words import WOULD

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"
NOW_MS = 1_800_000_000_000


@dataclass(slots=True)
class MovableClock:
    """A clock that shows the same time until a test changes it."""

    at_ms: int

    def now_ms(self) -> int:
        """Return the time to which the clock was set."""
        return self.at_ms


@dataclass(frozen=True, slots=True)
class Said:
    """The exit code and the output of a command."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """Standard output, read as JSON."""
        return json.loads(self.out)


@dataclass(slots=True)
class Shell:
    """Runs commands in ``folder``, in this process, at a time that the test sets."""

    folder: Path
    capsys: pytest.CaptureFixture[str]
    clock: MovableClock = field(default_factory=lambda: MovableClock(NOW_MS))
    environ: dict[str, str] = field(
        default_factory=lambda: {"QUORATE_ACTOR": "ada", "QUORATE_LOCK_TIMEOUT": "0"}
    )

    def __call__(self, *words: str | Path) -> Said:
        """Run ``quorate`` with ``words``, and return its exit code and output."""
        self.capsys.readouterr()
        settings = Settings(environ=self.environ, clock=self.clock)
        with chdir(self.folder):
            code = main([str(word) for word in words], settings)
        out, err = self.capsys.readouterr()
        return Said(int(code), out, err)

    def ok(self, *words: str | Path) -> str:
        """Return the output of a command that must succeed."""
        said = self(*words)
        assert said.code == 0, said
        return said.out

    def file(self, name: str, text: str | bytes) -> Path:
        """Return the path of a new file that holds ``text``."""
        path = self.folder / name
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return path

    def ledger_bytes(self) -> bytes:
        """Return the ledger file as it is on disk."""
        return (self.folder / "quorate.db").read_bytes()


def as_done(line: str) -> str:
    """Return a line of a dry run in the words that are printed after the real command."""
    for done, would in sorted(WOULD.items(), key=lambda pair: -len(pair[1])):
        line = line.replace(would, done)
    return line.replace(" (dry run)", "")


def start(
    folder: Path,
    *words: str | Path,
    env: Mapping[str, str] | None = None,
    stdout: int | IO[bytes] = subprocess.PIPE,
    file_bytes_max: int | None = None,
) -> subprocess.Popen[bytes]:
    """Start a real ``quorate`` process in ``folder``, with a limit on file sizes if given."""
    # Background jobs, as in some test runs, ignore interrupts; commands of a user do not.
    interruptible = "import signal as s; s.signal(s.SIGINT, s.default_int_handler)"
    program = f"{interruptible}; from quorate.cli.main import run; run()"
    if file_bytes_max is not None:
        limit = f"({file_bytes_max}, {file_bytes_max})"
        program = f"import resource as r; r.setrlimit(r.RLIMIT_FSIZE, {limit}); {program}"
    return subprocess.Popen(
        [sys.executable, "-c", program, *map(str, words)],
        cwd=folder,
        env={
            **os.environ,
            "PYTHONPATH": str(ROOT / "src"),
            "QUORATE_ACTOR": "ada",
            "QUORATE_LOCK_TIMEOUT": "0",
            **(env or {}),
        },
        stdin=subprocess.PIPE,
        stdout=stdout,
        stderr=subprocess.PIPE,
    )


def process(
    folder: Path, *words: str | Path, env: Mapping[str, str] | None = None, stdin: bytes = b""
) -> Said:
    """Run a real ``quorate`` process in ``folder``, and return its exit code and output."""
    return finish(start(folder, *words, env=env), stdin)


def finish(running: subprocess.Popen[bytes], stdin: bytes = b"") -> Said:
    """Return the exit code and the output of ``running`` after its end."""
    with running:
        try:
            out, err = running.communicate(stdin, timeout=120)
        except subprocess.TimeoutExpired:
            running.kill()
            raise
    return Said(running.returncode, (out or b"").decode(), err.decode())
