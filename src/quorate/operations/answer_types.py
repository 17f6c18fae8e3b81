"""What a handler returns: an answer to a question, or an order that is yet to be carried out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from quorate.core.commands import Command
from quorate.views.runs.instant import Moment


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """``tree`` is for programs, ``lines`` (wide or not) for people: made on demand.

    ``csv`` is for spreadsheets, where the answer fits one. ``notes`` go to standard error or a
    header. ``done`` says what was recorded, for when the rest cannot be printed any more. ``etag``
    is the version of the one resource that is shown. ``stream`` is there where an answer may be too
    long to be held: it is sent line by line, each with its end, as it is made.
    """

    tree: Callable[[], Any]
    lines: Callable[[bool], Iterable[str]]
    csv: Callable[[], str] | None = None
    notes: tuple[str, ...] = ()
    done: str = ""
    etag: str = ""
    stream: Callable[[], Iterator[str]] | None = None


class Aside(Protocol):
    """What an order shows beside the decision, from the state after it."""

    def lines(self, moment: Moment) -> list[str]:
        """Return it for people."""
        ...

    def tree(self, moment: Moment) -> dict[str, Any]:
        """Return it for programs, as further fields of the answer."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """``unchanged`` is the message when nothing has to change.

    ``notes`` go to standard error or a header.
    """

    command: Command
    unchanged: str = ""
    aside: Aside | None = None
    notes: tuple[str, ...] = ()
