"""A machine room that takes orders from several services, and records the orders it obeys.

It refuses orders of older terms, as executors do, and records each order that it obeys with the
service that gave it. Its work runs until the test ends.
"""

from __future__ import annotations

import fcntl
import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final, TextIO

from quorate.ports.errors import OldTermError
from quorate.ports.executor_port import EndLease, Order, Report, StartLease, StopLease
from quorate.testing.client_history import Obeyed

TAKES_OVER: Final = "takes over"
STARTS: Final = "starts"
OTHER: Final = "other"


@dataclass(frozen=True, slots=True)
class Line:
    """What the room did for the service ``by``, which said that it led in ``term``."""

    by: str
    term: int
    what: str
    lease: str = ""


class SharedRoom:
    """The room as one service sees it; the file ``path`` has the orders of all services."""

    def __init__(self, path: Path, by: str) -> None:
        self._path, self._by = path, by
        self.trouble = ""
        self.outages: Mapping[str, str] = {}

    @property
    def newest_term(self) -> int:
        """The newest term from which the room has accepted orders."""
        return max((line.term for line in lines_of(self._path)), default=0)

    def carry_out(self, orders: Sequence[Order], *, term: int = 0) -> None:
        with self._taken(term) as file:
            self._obey(file, orders, term)

    def resume(self, orders: Sequence[Order], *, term: int = 0, is_whole: bool = True) -> None:
        del is_whole
        with self._taken(term) as file:
            _write(file, Line(self._by, term, TAKES_OVER))
            self._obey(file, orders, term)

    def reports(self) -> Sequence[Report]:
        return ()

    def steps(self, runs: Collection[str]) -> Mapping[str, int]:
        del runs
        return {}

    def belong_to(self, ledger_id: str) -> None:
        """Accept any ledger."""

    def listen(self, wake: Callable[[], None]) -> None:
        """Report nothing."""

    def next_ms(self) -> int | None:
        return None

    def close(self) -> None:
        """Do nothing: no file stays open between two orders."""

    @contextmanager
    def _taken(self, term: int) -> Iterator[TextIO]:
        """Yield the record, locked for this service until the end of the block."""
        with self._path.open("a", encoding="utf-8") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            newest = self.newest_term
            if term < newest:
                raise OldTermError(term=term, newest=newest)
            yield file

    def _obey(self, file: TextIO, orders: Sequence[Order], term: int) -> None:
        started = {line.lease for line in lines_of(self._path) if line.what == STARTS}
        for order in orders:
            match order:
                case StartLease(lease=lease):
                    what = OTHER if lease.lease in started else STARTS
                    _write(file, Line(self._by, term, what, lease.lease))
                case StopLease(lease=lease) | EndLease(lease=lease):
                    _write(file, Line(self._by, term, OTHER, lease))
                case _:
                    raise AssertionError(order)


def _write(file: TextIO, line: Line) -> None:
    file.write(json.dumps(asdict(line)) + "\n")


def lines_of(path: Path) -> list[Line]:
    """Return what the room did, in order."""
    lines = path.read_text("utf-8").splitlines() if path.exists() else ()
    return [Line(**json.loads(line)) for line in lines]


def obeyed_in(path: Path) -> list[Obeyed]:
    """Return the orders that the room obeyed, each with the term in which its sender took over.

    That is the sender's real term, whatever term it claimed.
    """
    terms: dict[str, int] = {}
    found: list[Obeyed] = []
    for line in lines_of(path):
        if line.what == TAKES_OVER:
            terms[line.by] = line.term
        found.append(Obeyed(terms[line.by], line.lease, is_start=line.what == STARTS))
    return found
