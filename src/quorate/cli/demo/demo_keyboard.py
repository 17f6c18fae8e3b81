"""The demo's keyboard: commands carried out in this process, by the ``main`` a shell starts."""

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
    """How a command ended, and what it wrote."""

    code: int
    out: str
    err: str


@dataclass(frozen=True, slots=True)
class Keyboard:
    """Types ``quorate ...`` with ``settings``, which say whom it asks."""

    settings: Settings

    def run(self, words: Sequence[str]) -> Typed:
        """Return the result of ``quorate`` with ``words``; raises ``KeyboardInterrupt``."""
        out, err = io.StringIO(), io.StringIO()
        with redirect_stdout(out), redirect_stderr(err):
            code = main(words, self.settings)
        if code == Exit.INTERRUPTED:
            raise KeyboardInterrupt
        return Typed(int(code), out.getvalue(), err.getvalue())

    def ask(self, *words: str) -> Any:
        """Return the response of ``quorate`` to ``words`` as a value; raises ``CommandError``."""
        typed = self.run((*words, "-o", "json"))
        if typed.code != Exit.OK:
            raise CommandError(Exit.UNSOUND, f"quorate {shlex.join(words)}: {typed.err.strip()}")
        return json.loads(typed.out)

    def items(self, kind: str) -> list[Any]:
        """Return all there is of ``kind``."""
        found: list[Any] = self.ask("get", kind)["items"]
        return found

    def log(self, run: str) -> list[str]:
        """Return what the work of a run has written; nothing where it has not begun."""
        typed = self.run(("logs", run))
        return typed.out.splitlines() if typed.code == Exit.OK else []


def interpreter() -> str:
    """Return how work calls the Python that runs the demo: ``python`` if its folder has that."""
    return "python" if (Path(sys.executable).parent / "python").exists() else sys.executable


def piped(text: str, into: Sequence[str]) -> str:
    """Return what the program ``into`` makes of ``text``; raises ``CommandError`` without it."""
    try:
        done = subprocess.run(  # noqa: S603 - `tail` or `grep`, as it is shown
            list(into), input=text, capture_output=True, text=True, check=False
        )
    except FileNotFoundError:
        raise CommandError(Exit.UNUSABLE, f"the demo needs {into[0]}; install it") from None
    return done.stdout
