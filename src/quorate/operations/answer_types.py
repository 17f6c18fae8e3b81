"""What a handler returns: an answer to a read, or an order that is carried out afterwards."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from quorate.core.commands import Command
from quorate.views.runs.instant import Moment


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The answer to a read, made on demand: ``tree`` for programs, ``lines`` for people.

    The argument of ``lines`` is whether the lines are wide. ``csv`` is for spreadsheets, if the
    answer is a table. ``notes`` go to standard error or a header. ``done`` describes the recorded
    changes, in case the output can no longer be printed. ``etag`` is the version of the one
    resource that is shown. ``stream`` is set if the answer may be too long for memory: its lines,
    each with its newline, are sent as they are made.
    """

    tree: Callable[[], Any]
    lines: Callable[[bool], Iterable[str]]
    csv: Callable[[], str] | None = None
    notes: tuple[str, ...] = ()
    done: str = ""
    etag: str = ""
    stream: Callable[[], Iterator[str]] | None = None


class Aside(Protocol):
    """Additional output of an order, made from the state after its decision."""

    def lines(self, moment: Moment) -> list[str]:
        """Return the lines for people."""
        ...

    def tree(self, moment: Moment) -> dict[str, Any]:
        """Return further fields of the answer, for programs."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """A command to carry out; ``unchanged`` is the message if the command changes nothing.

    ``notes`` go to standard error or a header.
    """

    command: Command
    unchanged: str = ""
    aside: Aside | None = None
    notes: tuple[str, ...] = ()
