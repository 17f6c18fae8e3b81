"""An etcd in memory, which can lose answers: the oracle for the effects of an append.

It is a list of changes, carried out one after the other. A test sets the fate of each transaction:
it is answered; its answer is lost; it is lost itself; it is carried out later, when no caller waits
for it any more; or it is refused for a reason that does not concern the log.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import Enum

from quorate.adapters.etcd.etcd_requests import (
    Absent,
    Comparison,
    Delete,
    Get,
    ModifiedAt,
    Put,
    Row,
    Txn,
    TxnAnswer,
)
from quorate.ports.errors import StoreAccessError, StoreDownError


class Fate(Enum):
    """What happens to a request."""

    ANSWERED = "answered"
    ANSWER_LOST = "answer lost"
    LOST = "lost"
    LATE = "late"
    REFUSED = "refused"


@dataclass(slots=True)
class PlayedEtcd:
    """Keys and values with revisions; ``fates`` are for the next requests, and later ones succeed.

    ``meanwhile`` is called after each request, for changes of other writers in between.
    """

    fates: Iterator[Fate] = field(default_factory=lambda: iter(()))
    meanwhile: Callable[[], None] = lambda: None
    rows: dict[bytes, Row] = field(default_factory=dict)
    revision: int = 1
    late: list[Txn] = field(default_factory=list)

    def get(self, asked: Get, *, within_s: float | None = None) -> tuple[Row, ...]:
        del within_s
        fate = next(self.fates, Fate.ANSWERED)
        found = self._found(asked)
        self.meanwhile()
        if fate is Fate.REFUSED:
            raise StoreAccessError("played: refused")
        if fate is not Fate.ANSWERED:
            raise StoreDownError("played: no answer")
        return found

    def commit(self, txn: Txn, *, within_s: float | None = None) -> TxnAnswer:
        del within_s
        fate = next(self.fates, Fate.ANSWERED)
        if fate is Fate.LATE:
            self.late.append(txn)
        answer = self.carry_out(txn) if fate in (Fate.ANSWERED, Fate.ANSWER_LOST) else None
        self.meanwhile()
        if fate is Fate.REFUSED:
            raise StoreAccessError("played: refused")
        if fate is not Fate.ANSWERED or answer is None:
            raise StoreDownError("played: no answer")
        return answer

    def carry_out_late(self) -> None:
        """Carry out the transactions that are still under way."""
        late, self.late = self.late, []
        for txn in late:
            self.carry_out(txn)

    def carry_out(self, txn: Txn) -> TxnAnswer:
        held = all(self._holds(each) for each in txn.compare)
        revision = self.revision + 1
        rows: list[tuple[Row, ...]] = []
        for action in txn.then if held else txn.otherwise:
            match action:
                case Get():
                    rows.append(self._found(action))
                case Put(key, value, _):
                    old = self.rows.get(key)
                    made = revision if old is None else old.create_revision
                    self.rows[key] = Row(key, value, made, revision)
                    self.revision = revision
                case Delete(key, end):
                    for row in self._found(Get(key, end)):
                        del self.rows[row.key]
                        self.revision = revision
        return TxnAnswer(held, self.revision, tuple(rows))

    def _holds(self, compare: Comparison) -> bool:
        if isinstance(compare, Absent):
            return not self._found(Get(compare.key, compare.end))
        row = self.rows.get(compare.key)
        if isinstance(compare, ModifiedAt):
            return compare.revision == (0 if row is None else row.mod_revision)
        return compare.revision == (0 if row is None else row.create_revision)

    def _found(self, asked: Get) -> tuple[Row, ...]:
        end = asked.end or asked.key + b"\0"
        keys = sorted(key for key in self.rows if asked.key <= key < end)
        return tuple(self.rows[key] for key in keys)[: asked.limit or None]
