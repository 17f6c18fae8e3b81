"""What a handler returns: an answer to a read, or an order that is carried out afterwards."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from quorate.core.commands import Command
from quorate.views.runs.instant import Moment


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The answer to a read: functions that make a ``tree`` for programs, ``lines`` for people.

    The argument of ``lines`` says whether the lines may be wide. ``csv`` is for spreadsheets, if
    the answer is a table. ``notes`` go to standard error or, in REST, to a header. ``done``
    describes the recorded changes, for the case that the output can no longer be printed. ``etag``
    is the version of the resource if the answer shows one resource. ``stream`` is set if the answer
    may be too long for memory: each line, with its newline, is sent as soon as it is made.
    """

    tree: Callable[[], Any]
    lines: Callable[[bool], Iterable[str]]
    csv: Callable[[], str] | None = None
    notes: tuple[str, ...] = ()
    done: str = ""
    etag: str = ""
    stream: Callable[[], Iterator[str]] | None = None


class Aside(Protocol):
    """Additional output of an order, made from the state after the order's decision."""

    def lines(self, moment: Moment) -> list[str]:
        """Return the lines for people."""
        ...

    def tree(self, moment: Moment) -> dict[str, Any]:
        """Return the fields of the answer that only programs see."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """A command to carry out. ``unchanged`` is the message for a command that changes nothing.

    ``notes`` go to standard error or a header.
    """

    command: Command
    unchanged: str = ""
    aside: Aside | None = None
    notes: tuple[str, ...] = ()
