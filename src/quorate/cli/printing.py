"""Prints trees in the requested format, and handles a full or closed output."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext

import click

from quorate.cli.settings import Settings
from quorate.views.exits import CommandError, Exit


def print_tree(settings: Settings, tree: object) -> None:
    """Print ``tree`` as JSON or YAML."""
    from quorate.documents import to_json, to_yaml

    click.echo(to_json(tree) if settings.output == "json" else to_yaml(tree), nl=False)


def print_lines(lines: Iterable[str]) -> None:
    """Print ``lines``; on a terminal, tables are made to fit its width."""
    if not sys.stdout.isatty():
        for line in lines:
            click.echo(line)
        return
    import shutil

    from quorate.views.table_fit import fitted

    ellipsis = "\u2026" if "utf" in (sys.stdout.encoding or "").lower() else "..."
    each = [part for line in lines for part in line.splitlines() or [""]]
    for line in fitted(each, shutil.get_terminal_size().columns, ellipsis):
        click.echo(line)


@contextmanager
def telling(done: str) -> Iterator[None]:
    """Run the block, which prints; if printing fails, the error ends with ``done``.

    ``done`` says what was recorded before.
    """
    try:
        yield
    except BrokenPipeError:
        raise CommandError(Exit.BROKEN_PIPE, f"the output was closed; {done}") from None
    except KeyboardInterrupt:
        raise CommandError(Exit.INTERRUPTED, f"interrupted while printing; {done}") from None
    except OSError as error:
        raise CommandError(
            Exit.UNTOLD, f"the output could not be written: {error.strerror}; {done}"
        ) from None


class Printouts:
    """Prints the responses of several requests.

    ``goes_on`` is set for requests that write: all of them are sent, even if the output is closed
    or a request is refused. ``check`` raises the errors afterwards.
    """

    def __init__(self, *, goes_on: bool) -> None:
        self._goes_on = goes_on
        self._fault: CommandError | OSError | None = None
        self._refused: list[CommandError] = []
        self._made = 0
        self._done = ""

    def refuse(self, error: CommandError) -> None:
        """Store the refusal of one request; raise the refusal instead if it ends the command."""
        from quorate.views.statuses import UNAUTHENTICATED

        if not self._goes_on or error.code is not Exit.REFUSED or error.fault == UNAUTHENTICATED:
            raise error
        self._made += 1
        self._refused.append(error)

    def add(self, done: str, write: Callable[[], None]) -> None:
        """Call ``write`` unless the output is closed; ``done`` says what was recorded so far.

        Stores a failure of the output if ``goes_on`` is set; raises any other error of ``write``.
        """
        self._made += 1
        self._done = done or self._done
        if self._fault is not None:
            return
        try:
            with telling(done) if done else nullcontext():
                write()
        except CommandError as error:
            if not self._goes_on or error.code not in (Exit.BROKEN_PIPE, Exit.UNTOLD):
                raise
            self._fault = error
        except OSError as error:
            if not self._goes_on:
                raise
            self._fault = error

    def check(self) -> None:
        """Raise the stored refusals; if there are none, raise the stored failure of the output.

        The failure names the recorded changes. Does nothing if nothing is stored.
        """
        if self._refused:
            raise self._all_refused()
        error = self._fault
        if error is None:
            return
        if self._made == 1 or not self._done:
            raise error
        if isinstance(error, CommandError):
            code, text = error.code, error.lines[0].partition(";")[0]
        elif isinstance(error, BrokenPipeError):
            code, text = Exit.BROKEN_PIPE, "the output was closed"
        else:
            code, text = Exit.UNTOLD, f"the output could not be written: {error.strerror}"
        raise CommandError(code, f"{text}; all {self._made} requests succeeded; {self._done}")

    def _all_refused(self) -> CommandError:
        """Return the refusals of all requests as one error, with the number of refusals."""
        first = self._refused[0]
        if self._made == 1:
            return first
        lines = [line for error in self._refused for line in error.lines]
        found = CommandError(first.code, *lines, fault=first.fault, refusals=first.refusals)
        for note in dict.fromkeys(
            note for error in self._refused for note in getattr(error, "__notes__", ())
        ):
            found.add_note(note)
        count = len(self._refused)
        others = "; the other requests succeeded" if count < self._made else ""
        found.add_note(
            f"{count} of {self._made} requests {'was' if count == 1 else 'were'} refused{others}"
        )
        return found
