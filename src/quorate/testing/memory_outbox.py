"""An outbox kept in memory: the simplest implementation of the outbox port."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from quorate.ports.outbox_port import (
    BACK_OFF_MS_MAX,
    KEYS_KEPT_EVENTS,
    Parcel,
    Waiting,
    back_off_ms,
)


@dataclass
class _Sink:
    cursor: int = 0
    head: bytes = b""
    parcels: list[Parcel] = field(default_factory=list)
    due_ms: dict[str, int] = field(default_factory=dict)
    done: dict[str, int] = field(default_factory=dict)
    failing: dict[str, tuple[int, int, str]] = field(default_factory=dict)


class MemoryOutbox:
    """An outbox in memory, for one thread."""

    def __init__(self) -> None:
        self._sinks: dict[str, _Sink] = {}

    def cursor(self, sink: str) -> int:
        """Return the sequence of the last event from which ``sink`` has made parcels."""
        return self._of(sink).cursor

    def head(self, sink: str) -> bytes:
        """Return the hash of the ledger at the cursor of ``sink``."""
        return self._of(sink).head

    def take_in(self, sink: str, parcels: Sequence[Parcel], cursor: int, head: bytes = b"") -> None:
        """Store ``parcels``, ``cursor`` and ``head``."""
        box = self._of(sink)
        assert cursor >= box.cursor, (sink, box.cursor, cursor)
        assert all(parcel.seq <= cursor for parcel in parcels), (sink, cursor)
        box.cursor, box.head = cursor, head
        for parcel in parcels:
            if parcel.key not in box.done and parcel.key not in box.due_ms:
                box.parcels.append(replace(parcel, attempts=0, failing_since_ms=None))
                box.due_ms[parcel.key] = 0
        oldest = cursor - KEYS_KEPT_EVENTS
        box.done = {key: seq for key, seq in box.done.items() if seq >= oldest}

    def due(self, sink: str, now_ms: int, limit: int) -> Sequence[Parcel]:
        """Return the parcels that are due; of each line, only the first parcel can be due."""
        box = self._of(sink)
        waits_ms = {one.key: box.due_ms[one.key] - now_ms for one in self._first(box)}
        found = [one for one in self._first(box) if not 0 < waits_ms[one.key] <= BACK_OFF_MS_MAX]
        return [
            replace(one, failing_since_ms=box.failing.get(one.line, (None,))[0])
            for one in found[:limit]
        ]

    def delivered(self, sink: str, key: str) -> None:
        """Remove a delivered parcel, and remember its key."""
        line = self._removed(sink, key)
        if line is not None:
            self._of(sink).failing.pop(line, None)

    def failed(self, sink: str, key: str, now_ms: int, why: str) -> int:
        """Count one more attempt; return when the parcel is due again."""
        box = self._of(sink)
        assert key in {one.key for one in self._first(box)}, (sink, key)
        at = next(n for n, one in enumerate(box.parcels) if one.key == key)
        parcel = box.parcels[at] = replace(box.parcels[at], attempts=box.parcels[at].attempts + 1)
        since_ms, _, _ = box.failing.get(parcel.line, (now_ms, now_ms, why))
        box.failing[parcel.line] = (since_ms, now_ms, why)
        box.due_ms[key] = now_ms + back_off_ms(key, parcel.attempts)
        return box.due_ms[key]

    def given_up(self, sink: str, key: str) -> None:
        """Remove a parcel that will not be delivered."""
        line = self._removed(sink, key)
        box = self._of(sink)
        if line is not None and all(one.line != line for one in box.parcels):
            box.failing.pop(line, None)

    def waiting(self, sink: str) -> Waiting:
        """Return how many parcels wait, since when they wait, and what the trouble is."""
        box = self._of(sink)
        by_time = sorted(box.failing.items(), key=lambda one: (-one[1][1], one[0]))
        last = by_time[0][1] if by_time else None
        return Waiting(
            parcels=len(box.parcels),
            since_ms=min((one.at_ms for one in box.parcels), default=None),
            lines_failing=len(box.failing),
            trouble="" if last is None else last[2],
        )

    def next_due_ms(self, sink: str) -> int | None:
        """Return the instant at which the next parcel is due."""
        box = self._of(sink)
        return min((box.due_ms[one.key] for one in self._first(box)), default=None)

    def close(self) -> None:
        """Do nothing: there is nothing to close."""

    def _of(self, sink: str) -> _Sink:
        return self._sinks.setdefault(sink, _Sink())

    def _first(self, box: _Sink) -> list[Parcel]:
        firsts: dict[str, Parcel] = {}
        for parcel in box.parcels:
            firsts.setdefault(parcel.line, parcel)
        return list(firsts.values())

    def _removed(self, sink: str, key: str) -> str | None:
        box = self._of(sink)
        if key in box.done:
            return None
        parcel = next(one for one in box.parcels if one.key == key)
        box.parcels.remove(parcel)
        del box.due_ms[key]
        box.done[key] = parcel.seq
        return parcel.line
