"""Where the demo plays: a folder of its own, a clock that can be moved, and a keyboard.

Commands run in this process through the same ``main`` that a shell starts, so what is shown is
what they print. Only the clock is the demo's: it begins three hours ago and is
moved to now, so that hours can pass.
"""

from __future__ import annotations

import io
import json
import shlex
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import chdir, contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

import click

from quorate.answers.exits import CommandError, Exit
from quorate.cli.main import main
from quorate.cli.session import clock_of
from quorate.cli.settings import LEDGER_DEFAULT, Settings
from quorate.model.amounts import HOUR_MS

HOURS_AGO: Final = 3
_FILES: Final = "demo_files"


@dataclass(slots=True)
class MovableClock:
    """A clock that stands still until it is moved."""

    at_ms: int

    def now_ms(self) -> int:
        """Return the time it was set to."""
        return self.at_ms


@dataclass(frozen=True, slots=True)
class Stage:
    """The demo's folder, clock and settings."""

    folder: Path
    clock: MovableClock
    settings: Settings

    def say(self, text: str = "") -> None:
        """Print a line of the story."""
        click.echo(text)

    def title(self, text: str) -> None:
        """Print the heading of a part."""
        click.echo("\n" + click.style(f"== {text}", bold=True), color=self._color())

    def later(self, hours: int) -> None:
        """Let hours pass."""
        self.clock.at_ms += hours * HOUR_MS
        click.echo(f"\n... {hours} {'hour' if hours == 1 else 'hours'} later ...")

    def type(self, *words: str, expect: Exit = Exit.OK) -> str:
        """Carry out ``quorate`` with ``words``, show command and output, and return the output.

        Raises ``CommandError`` when it does not end as it must: the demo never glosses over.
        """
        click.echo(
            "\n" + click.style(f"$ quorate {shlex.join(words)}", bold=True), color=self._color()
        )
        code, screen = self._run(words)
        click.echo(screen, nl=False)
        if code != expect:
            raise CommandError(
                Exit.UNSOUND, f"the demo expected exit code {int(expect)} here, and got {code}"
            )
        if code:
            click.echo(f"(exit code {code})")
        return screen

    def ask(self, *words: str) -> Any:
        """Return what ``quorate`` answers to ``words`` as a value, without showing it."""
        code, screen = self._run((*words, "-o", "json"))
        assert code == Exit.OK, screen
        return json.loads(screen)

    def _run(self, words: tuple[str, ...]) -> tuple[int, str]:
        screen = io.StringIO()
        with redirect_stdout(screen), redirect_stderr(screen):
            code = main(words, self.settings)
        if code == Exit.INTERRUPTED:
            raise KeyboardInterrupt
        return int(code), screen.getvalue()

    def _color(self) -> bool | None:
        return False if self.settings.environ.get("NO_COLOR") else None


@contextmanager
def open_stage(settings: Settings, folder: str | None) -> Iterator[Stage]:
    """Make the folder with the demo's documents in it, and work there; it stays afterwards."""
    place = Path(tempfile.mkdtemp(prefix="quorate-demo-")) if folder is None else _new(folder)
    place = place.resolve()
    for source in files("quorate.cli").joinpath(_FILES).iterdir():
        if source.name.endswith(".yaml"):
            (place / source.name).write_text(source.read_text(encoding="utf-8"), encoding="utf-8")
    clock = MovableClock(clock_of(settings).now_ms() - HOURS_AGO * HOUR_MS)
    own = Settings(
        environ={
            "QUORATE_ACTOR": "demo",
            "QUORATE_LEDGER": LEDGER_DEFAULT,
            "NO_COLOR": settings.environ.get("NO_COLOR", ""),
        },
        clock=clock,
    )
    with chdir(place):
        yield Stage(place, clock, own)


def _new(folder: str) -> Path:
    try:
        Path(folder).mkdir()
    except FileExistsError:
        raise CommandError(
            Exit.REFUSED, f"{folder} exists already and was left alone; choose another folder"
        ) from None
    except OSError as error:
        raise CommandError(
            Exit.UNUSABLE, f"{folder} cannot be created: {error.strerror}; choose another folder"
        ) from None
    return Path(folder)


def flip_one_bit(original: Path, copy: Path, inside: bytes) -> str:
    """Copy a ledger, change one bit of the stored word ``inside``, and return what was done."""
    shutil.copyfile(original, copy)
    data = bytearray(copy.read_bytes())
    position = data.find(inside)
    assert position >= 0, inside
    was = data[position]
    data[position] ^= 1
    copy.write_bytes(data)
    return f"byte {position} of {copy.name}: 0x{was:02x} is now 0x{data[position]:02x}"
