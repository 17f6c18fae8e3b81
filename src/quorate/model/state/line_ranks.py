"""The lines of waiting runs in the order of their ranks, cached between decisions.

A line has the waiting runs of one owner that ask one pool for the same flavors. The rank of a line
is valid until an event concerns its owner or its first run, or until the owner's score may have
changed by a step. Only lines whose rank may be outdated are ranked again, so a walk over the queue
does not rank every line. An overlay records its own changes, and reads all other ranks from the
layer below.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Iterator
from heapq import heapify, heappop, heappush
from typing import Final, NamedTuple

from quorate.model.state.waiting_index import Line, Place, Waiting

Rank = tuple[bool, int]
"""(whether over budget, minus the step of the score): runs of the lowest rank are tried first."""
Lasting = tuple[Rank, int]
"""A rank, and the instant up to which it is valid."""
Ranked = tuple[Rank, Place, Line]
"""(rank, first run, line): lines are tried in the order of these tuples."""

_OUTDATED_MAX: Final = 1_024
"""Outdated instants are removed if they outnumber the lines by more than this."""


_NO_LINES: Final = frozenset[Line]()

Planned = tuple[str, int]
"""A flavor, and the number of its GPUs that are planned for an owner."""


class PlannedRank(NamedTuple):
    """The rank that an owner has if planned GPUs are counted as its use.

    The rank is valid from ``from_ms`` (included) to ``until_ms`` (excluded).
    """

    rank: Rank
    from_ms: int
    until_ms: int


class LineRanks:
    """Every line with waiting runs, in order. A read of the order ranks changed lines again."""

    __slots__ = (
        "asked_ms",
        "below",
        "by_owner",
        "ends",
        "known",
        "lines",
        "order",
        "owners",
        "planned",
        "until",
    )

    def __init__(self, below: LineRanks | None = None) -> None:
        self.below = below
        self.asked_ms = -1
        """When the order was last read; -1 if it was never read."""
        self.order: list[Ranked] = []
        self.known: dict[Line, Ranked] = {}
        self.by_owner: dict[str, set[Line]] = {}
        """The lines of ``known``, by owner."""
        self.until: dict[Line, int] = {}
        self.ends: list[tuple[int, Line]] = []
        self.owners: set[str] = set()
        """The owners that have changed since the order was last read."""
        self.lines: set[Line] = set()
        """The lines in which a run began or ceased to wait since the order was last read."""
        self.planned: dict[str, dict[Planned, PlannedRank]] = {}
        """The cached ranks with planned GPUs, by owner."""

    def layer(self) -> LineRanks:
        """Return a layer over this one, which records its changes separately."""
        return LineRanks(self)

    @property
    def last_asked_ms(self) -> int:
        """When the order was last read, in this layer or below; -1 if it was never read."""
        return self.asked_ms if self.below is None else self.below.last_asked_ms

    def owner_changed(self, owner: str) -> None:
        """Record that the rank of ``owner`` may have changed."""
        self.owners.add(owner)
        self.planned.pop(owner, None)

    def planned_of(self, owner: str) -> dict[Planned, PlannedRank] | None:
        """Return the cache for the ranks that ``owner`` has with planned GPUs.

        Return None if the owner has changed in an overlay, because its ranks are then not cached.
        """
        layer = self
        while layer.below is not None:
            if owner in layer.owners:
                return None
            layer = layer.below
        known = layer.planned.get(owner)
        if known is None:
            known = layer.planned[owner] = {}
        return known

    def line_changed(self, line: Line) -> None:
        """Record that the first run of ``line`` may have changed."""
        self.lines.add(line)

    def in_order(
        self,
        waiting: Waiting,
        now_ms: int,
        rank: Callable[[Line], Rank],
        lasting: Callable[[Line], Lasting],
    ) -> list[Ranked]:
        """Return every line of ``waiting`` in the order of their ranks at ``now_ms``.

        ``lasting`` computes a rank that is to be cached, and the instant up to which it is valid.
        ``rank`` computes the rank of a line that changed in an overlay; such a rank is not cached.
        """
        base, above = self, list[LineRanks]()
        while base.below is not None:
            above.append(base)
            base = base.below
        changed = {line for layer in above for line in layer.lines}
        owners = {owner for layer in above for owner in layer.owners}
        if owners:
            changed |= base._lines_of(owners, waiting, now_ms)  # noqa: SLF001 - same class
        base.bring_up_to(waiting, now_ms, lasting, changed)
        if not changed:
            return base.order.copy()
        order = base.order.copy()
        for line in changed:
            former = base.known.get(line)
            if former is not None:
                del order[bisect_left(order, former)]
        for line in changed:
            places = waiting.lines.get(line)
            if places is not None:
                insort(order, (rank(line), places.places[0], line))
        return order

    def surely_before(self, mine: Ranked, now_ms: int, most: int) -> int:
        """Return how many lines of the same pool certainly come before ``mine``, at most ``most``.

        This call ranks no line. It does not count lines whose cached rank may be outdated.
        """
        lines, owners, base = self.lines, self.owners, self
        while base.below is not None:
            base = base.below
            lines, owners = lines | base.lines, owners | base.owners
        if now_ms < base.asked_ms:
            return 0
        count, pool, until = 0, mine[2][0], base.until
        for known in base.order:
            if count == most or known >= mine:
                break
            line = known[2]
            if until[line] > now_ms and line not in lines and line[1] not in owners:
                count += line[0] == pool
        return count

    def bring_up_to(
        self,
        waiting: Waiting,
        now_ms: int,
        lasting: Callable[[Line], Lasting],
        elsewhere: set[Line],
    ) -> None:
        """Rank the lines whose rank may have changed, except those that changed in an overlay."""
        if self._is_anew(now_ms):
            lines: Iterable[Line] = waiting.lines
            self.order, self.known, self.until, self.ends = [], {}, {}, []
            self.by_owner = {}
            self.lines, self.owners = set(elsewhere), set()
        else:
            self.lines |= self._lines_of(self.owners, waiting, now_ms)
            self.owners = set()
            lines = {*self.lines, *self._ended(now_ms)}
            self.lines = lines & elsewhere
        self.asked_ms = now_ms
        for line in lines:
            if line not in elsewhere:
                self._rank(line, waiting, lasting)
        if len(self.ends) > 2 * len(self.known) + _OUTDATED_MAX:
            self.ends = [(at_ms, line) for line, at_ms in self.until.items()]
            heapify(self.ends)

    def _is_anew(self, now_ms: int) -> bool:
        """Return whether every line has to be ranked: no line was ranked yet, or time went back."""
        return self.asked_ms < 0 or now_ms < self.asked_ms

    def _lines_of(self, owners: set[str], waiting: Waiting, now_ms: int) -> set[Line]:
        """Return the lines of ``owners`` that are ranked here, or that the next read will rank."""
        if self._is_anew(now_ms):
            return {line for line in waiting.lines if line[1] in owners}
        found = {line for line in self.lines if line[1] in owners}
        for owner in owners:
            found |= self.by_owner.get(owner, _NO_LINES)
        return found

    def _ended(self, now_ms: int) -> Iterator[Line]:
        """Yield the lines whose rank is no longer valid."""
        while self.ends and self.ends[0][0] <= now_ms:
            at_ms, line = heappop(self.ends)
            if self.until.get(line) == at_ms:
                yield line

    def _rank(self, line: Line, waiting: Waiting, lasting: Callable[[Line], Lasting]) -> None:
        former = self.known.pop(line, None)
        if former is not None:
            del self.order[bisect_left(self.order, former)]
            del self.until[line]
            self.by_owner[line[1]].discard(line)
        places = waiting.lines.get(line)
        if places is None:
            return
        rank, until_ms = lasting(line)
        self.by_owner.setdefault(line[1], set()).add(line)
        self.known[line] = ranked = (rank, places.places[0], line)
        insort(self.order, ranked)
        self.until[line] = until_ms
        heappush(self.ends, (until_ms, line))
