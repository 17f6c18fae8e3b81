"""The output of the demo: paragraphs, commands with their output, and bars of the fleet."""

from __future__ import annotations

import shlex
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

import click

from quorate.cli.demo.demo_bars import Screen, bars, machines
from quorate.cli.demo.demo_keyboard import Keyboard, interpreter, piped
from quorate.cli.demo.demo_service import Service
from quorate.cli.settings import Settings
from quorate.views.exits import CommandError, Exit

COLUMNS: Final = 80
POLL_S: Final = 0.15
WAIT_S: Final = 60.0
"""How long the demo waits for an expected change before it fails."""
BEAT_S: Final = 1.0
_WRAPPER: Final = textwrap.TextWrapper(
    width=COLUMNS - 1, break_on_hyphens=False, break_long_words=False
)


class Stage:
    """A folder, a service in it, and a screen; ``keyboard`` runs commands against the service."""

    def __init__(self, folder: Path, service: Service, environ: Mapping[str, str]) -> None:
        self.folder = folder
        self.service = service
        self.keyboard = service.keyboard
        self.screen = Screen(environ)
        self._color = False if environ.get("NO_COLOR") else None
        self._owners: dict[str, str] = {}

    # --- Output ---

    def say(self, text: str) -> None:
        """Print a paragraph."""
        click.echo("\n" + _WRAPPER.fill(" ".join(text.split())))

    def title(self, text: str) -> None:
        """Print the heading of a scene; on a terminal, pause first."""
        began_s = time.monotonic()
        if self.screen.is_live:
            self.wait("the next scene", lambda: time.monotonic() - began_s > BEAT_S)
        line = f"== {text} ".ljust(COLUMNS - 1, "=")
        click.echo("\n" + click.style(line, bold=True, fg="green"), color=self._color)

    def prompt(self, line: str) -> None:
        """Print a command as it is typed."""
        click.echo("\n" + click.style(f"$ {line}", bold=True), color=self._color)

    def show(self, text: str) -> None:
        """Print the output of a command, if there is any."""
        if text:
            click.echo(text, nl=not text.endswith("\n"))

    def bars(self) -> None:
        """Print which owner has which GPUs now."""
        click.echo()
        for line in self._bars(color=self.screen.is_live):
            click.echo(line, color=self._color)

    # --- Commands ---

    def type(self, *words: str, pipe: Sequence[str] = (), expect: Exit = Exit.OK) -> str:
        """Run ``quorate`` with ``words``, print the command and its output, and return the output.

        The output is piped through ``pipe``. Raises ``CommandError`` if the exit code is not
        ``expect``.
        """
        line = shlex.join(["quorate", *words])
        self.prompt(f"{line} | {shlex.join(pipe)}" if pipe else line)
        typed = self.keyboard.run(words)
        out = piped(typed.out, pipe) if pipe else typed.out
        self.show(typed.err)
        self.show(out)
        if typed.code != expect:
            raise CommandError(
                Exit.UNSOUND,
                f"the demo expected exit code {int(expect)}, but got {typed.code}",
            )
        if typed.code:
            click.echo(f"(exit code {typed.code})")
        return typed.err + out

    def python(self, *words: str, expect: int = 0) -> str:
        """Run a file with this Python, show command and output, and return the output."""
        self.prompt(shlex.join([interpreter(), *words]))
        done = subprocess.run(  # noqa: S603 - a file that the demo has put there
            [sys.executable, *words], cwd=self.folder, capture_output=True, text=True, check=False
        )
        self.show(done.stdout + done.stderr)
        self.check(done.returncode == expect, f"{words[0]} ended with {done.returncode}")
        if done.returncode:
            click.echo(f"(exit code {done.returncode})")
        return done.stdout + done.stderr

    def wait(self, what: str, happened: Callable[[], bool]) -> None:
        """Wait until ``happened`` returns true; meanwhile show the fleet if this is a terminal.

        Raises ``CommandError`` after ``WAIT_S``.
        """
        until_s = time.monotonic() + WAIT_S
        try:
            while not happened():
                self.check(
                    time.monotonic() < until_s, (f"{WAIT_S:.0f} s were not enough for this: {what}")
                )
                if self.screen.is_live:
                    self.screen.draw(["", f"  ... {what}", *self._bars(color=True)])
                time.sleep(POLL_S)
        finally:
            self.screen.clear()

    def check(self, is_so: bool, otherwise: str) -> None:
        """Raise ``CommandError`` with the text ``otherwise`` if ``is_so`` is false."""
        if not is_so:
            raise CommandError(Exit.UNSOUND, f"the demo did not go as planned: {otherwise}")

    def end_service(self) -> int:
        """Stop the service, and return its exit code; later commands read the ledger's file."""
        code = self.service.stop()
        self.keyboard = Keyboard(Settings(environ={"QUORATE_ACTOR": "demo", "NO_COLOR": "1"}))
        return code

    def _bars(self, *, color: bool) -> list[str]:
        leases = self.keyboard.items("leases")
        if any(lease["status"]["run"] not in self._owners for lease in leases):
            runs = self.keyboard.items("runs")
            self._owners = {run["metadata"]["name"]: run["spec"]["owner"] for run in runs}
        fleet = machines(self.keyboard.items("nodes"), leases, self._owners)
        return bars(fleet, self._owners.values(), color=color)
