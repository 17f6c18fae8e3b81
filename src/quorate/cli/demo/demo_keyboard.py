"""Runs ``quorate`` commands of the demo in this process, with the ``main`` of the program."""

from __future__ import annotations

import io
import json
import shlex
import subprocess
import sys
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from quorate.cli.main import main
from quorate.cli.settings import Settings
from quorate.views.exits import CommandError, Exit


@dataclass(frozen=True, slots=True)
class Typed:
    """The exit code and the output of a command."""

    code: int
    out: str
    err: str


@dataclass(frozen=True, slots=True)
class Keyboard:
    """Runs ``quorate ...`` with ``settings``, which choose the service."""

    settings: Settings

    def run(self, words: Sequence[str]) -> Typed:
        """Return the exit code and output of ``quorate`` with ``words``.

        Raises ``KeyboardInterrupt`` if the command was interrupted.
        """
        out, err = io.StringIO(), io.StringIO()
        with redirect_stdout(out), redirect_stderr(err):
            code = main(words, self.settings)
        if code == Exit.INTERRUPTED:
            raise KeyboardInterrupt
        return Typed(int(code), out.getvalue(), err.getvalue())

    def ask(self, *words: str) -> Any:
        """Return the response of ``quorate`` to ``words`` as a tree; raises ``CommandError``."""
        typed = self.run((*words, "-o", "json"))
        if typed.code != Exit.OK:
            raise CommandError(Exit.UNSOUND, f"quorate {shlex.join(words)}: {typed.err.strip()}")
        return json.loads(typed.out)

    def items(self, kind: str) -> list[Any]:
        """Return all resources of ``kind``."""
        found: list[Any] = self.ask("get", kind)["items"]
        return found

    def log(self, run: str) -> list[str]:
        """Return the output of a run; empty if the run has not started."""
        typed = self.run(("logs", run))
        return typed.out.splitlines() if typed.code == Exit.OK else []


def interpreter() -> str:
    """Return the command that runs the demo's Python: ``python`` if it exists, else the path."""
    return "python" if (Path(sys.executable).parent / "python").exists() else sys.executable


def piped(text: str, into: Sequence[str]) -> str:
    """Return the output of the program ``into`` for the input ``text``.

    Raises ``CommandError`` if the program is missing.
    """
    try:
        done = subprocess.run(  # noqa: S603 - `tail` or `grep`, as it is shown
            list(into), input=text, capture_output=True, text=True, check=False
        )
    except FileNotFoundError:
        raise CommandError(Exit.UNUSABLE, f"the demo needs {into[0]}; install it") from None
    return done.stdout
