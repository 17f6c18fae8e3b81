"""Crossings: an instant for each owner; before it, the owner's use crosses no budget threshold.

Until the next event about an owner, the future use of this owner is known: it grows with the GPUs
and nodes that the owner has, and falls when past use leaves the rolling window. So the instant of
an owner is computed again only after an event about the owner, or when the instant has passed. A
query reads only the first few instants, so it is fast however many owners there are.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from heapq import heapify, heappop, heappush, merge
from typing import Final, Protocol

from quorate.model.amounts import DAY_MS
from quorate.model.specs import Owner, System
from quorate.model.state.meters import Meter, NodeMeter
from quorate.model.state.records import ReportRecord

PERCENTS: Final = (80, 100, 120)
"""The thresholds, in percent of a budget."""
REARM_POINTS: Final = 5
"""How far use must fall below a threshold before it can rise above the same threshold again.

The unit is percentage points.
"""
_WHOLE: Final = 100
"""100 percent."""
_AT_ONCE: Final = 0
"""An instant that is earlier than every decision."""
_OUTDATED_MAX: Final = 1_024
"""A heap is built again if its outdated entries outnumber its names by more than this."""


class UseView(Protocol):
    """The part of a state that this module reads: owners, their quotas and their use."""

    @property
    def at_ms(self) -> int:
        """The time of the last event."""
        ...

    @property
    def system(self) -> System:
        """The settings of the installation."""
        ...

    @property
    def owners(self) -> Mapping[str, Owner]:
        """Owners by name."""
        ...

    @property
    def meters(self) -> Mapping[tuple[str, str], Meter]:
        """The present and past use of each flavor by each owner."""
        ...

    @property
    def metered(self) -> Collection[str]:
        """The flavors of which GPUs were ever leased."""
        ...

    @property
    def node_meters(self) -> Mapping[str, NodeMeter]:
        """The present and past nodes of owners with a budget of node-hours."""
        ...

    @property
    def reports(self) -> Mapping[str, ReportRecord]:
        """The reports of accounting systems about the budgets of linked owners."""
        ...

    @property
    def thresholds(self) -> Mapping[str, int]:
        """The highest threshold, in percent, that each owner's use has crossed."""
        ...


def metered(view: UseView, owner: Owner) -> list[tuple[list[Meter], int]]:
    """Return (meters, budget) for each budget of hours of ``owner``; the meters count its use."""
    quota, found = owner.quota, list[tuple[list[Meter], int]]()
    if quota.gpu_ms_budget is not None:
        meters = [view.meters.get((owner.name, flavor)) for flavor in view.metered]
        found.append(([meter for meter in meters if meter is not None], quota.gpu_ms_budget))
    if quota.node_ms_budget is not None:
        found.append(([view.node_meters[owner.name].meter], quota.node_ms_budget))
    return found


Counted = tuple[list[Meter], int, int]
"""(meters, other use, budget): the use that is compared with a budget of hours."""


def counted(view: UseView, owner: Owner) -> list[Counted]:
    """Return the use that is compared with each budget of ``owner``: GPU-hours, then node-hours.

    While a report of an accounting system is valid, its figures replace the ledger's own.
    """
    record = view.reports.get(owner.name)
    if record is None or not record.answers:
        return [(meters, 0, budget) for meters, budget in metered(view, owner)]
    own, quota, counts = metered(view, owner), owner.quota, list[Counted]()
    for allowance, budget in (
        (record.gpu, quota.gpu_ms_budget),
        (record.node, quota.node_ms_budget),
    ):
        mine = own.pop(0) if budget is not None else None
        if allowance is not None:
            counts.append(([], allowance.used_ms, allowance.granted_ms))
        elif mine is not None:
            counts.append((mine[0], 0, mine[1]))
    return counts


def is_budgeted(view: UseView, name: str) -> bool:
    """Return whether owner ``name`` has a budget of hours, in its quota or in a report."""
    owner, record = view.owners.get(name), view.reports.get(name)
    return owner is not None and (owner.quota.is_soft or (record is not None and record.answers))


class Agenda:
    """Names, each with an instant, ordered by their instants.

    The entry of a layer hides the entry of the same name in the layer below.
    """

    __slots__ = ("below", "heap", "instants_ms")

    def __init__(self, below: Agenda | None = None) -> None:
        self.below = below
        self.instants_ms: dict[str, int | None] = {}
        self.heap: list[tuple[int, str]] = []

    def put(self, name: str, at_ms: int | None) -> None:
        """Set the instant of ``name``; None means that it has no instant."""
        known = self.instants_ms
        if at_ms is not None and known.get(name) != at_ms:
            heappush(self.heap, (at_ms, name))
        known[name] = at_ms
        if len(self.heap) > 2 * len(known) + _OUTDATED_MAX:
            self.heap = [(ms, other) for other, ms in known.items() if ms is not None]
            heapify(self.heap)

    def has_any(self, until_ms: int) -> bool:
        """Return whether some name may have an instant of ``until_ms`` or earlier."""
        level: Agenda | None = self
        while level is not None:
            if level.heap and level.heap[0][0] <= until_ms:
                return True
            level = level.below
        return False

    def in_order(self) -> Iterator[tuple[int, str]]:
        """Yield every (instant, name), earliest first; the caller must not ``put`` meanwhile."""
        levels: list[Iterator[tuple[int, str]]] = []
        above: tuple[dict[str, int | None], ...] = ()
        level: Agenda | None = self
        while level is not None:
            levels.append(level.walk(above))
            above = (*above, level.instants_ms)
            level = level.below
        return merge(*levels) if len(levels) > 1 else levels[0]

    def walk(self, above: tuple[dict[str, int | None], ...]) -> Iterator[tuple[int, str]]:
        """Yield this layer's entries in order, without names that a layer ``above`` has."""
        heap, instants_ms = self.heap, self.instants_ms
        while heap and instants_ms[heap[0][1]] != heap[0][0]:
            heappop(heap)  # Otherwise every walk would have to skip this outdated entry.
        places = [(*heap[0], 0)] if heap else []
        while places:
            at_ms, name, place = heappop(places)
            if instants_ms[name] == at_ms and not any(name in layer for layer in above):
                yield at_ms, name
            for below in (2 * place + 1, 2 * place + 2):
                if below < len(heap):
                    heappush(places, (*heap[below], below))


class Crossings:
    """Two instants for each owner: its use does not rise to a threshold before the first one.

    Before the second instant, the use does not fall below a threshold. The instants are computed
    for the time of the state. They may be too early, but never too late. The instants of owners
    that have changed are computed again before the next query.
    """

    __slots__ = ("_falls", "_rises", "_touched")

    def __init__(self) -> None:
        self._rises = Agenda()
        self._falls = Agenda()
        self._touched: dict[str, None] = {}

    def layer(self) -> Crossings:
        """Return a layer over these crossings; changes in the new layer do not change these."""
        over = Crossings()
        over._rises, over._falls = Agenda(self._rises), Agenda(self._falls)
        return over

    def touch(self, owner: str) -> None:
        """Record that the use, the budgets or the threshold of ``owner`` may have changed."""
        self._touched[owner] = None

    def look(self, view: UseView) -> None:
        """Compute the instants of the owners that ``touch`` named."""
        if self._touched:
            for name in self._touched:
                self._find(view, name)
            self._touched.clear()

    def until(self, view: UseView, at_ms: int) -> set[str]:
        """Return the owners whose use may have crossed a threshold by ``at_ms``."""
        owners: set[str] = set()
        for agenda in (self._rises, self._falls):
            if not agenda.has_any(at_ms):
                continue
            for instant_ms, name in agenda.in_order():
                if instant_ms > at_ms:
                    break
                owners.add(name)
        # Most of these instants were computed long ago. If they are computed again now, they are
        # later.
        again = ((name, self._find(view, name)) for name in owners)
        return {name for name, both in again if any(ms is not None and ms <= at_ms for ms in both)}

    def rising(self, view: UseView) -> Iterator[tuple[int, str]]:
        """Yield (instant, owner) for owners whose use may rise to a threshold, earliest first.

        The first instant is exact for the time of ``view``; the others may be too early.
        """
        while (first := next(self._rises.in_order(), None)) is not None:
            if self._find(view, first[1])[0] == first[0]:
                break
        return self._rises.in_order()

    def _find(self, view: UseView, name: str) -> tuple[int | None, int | None]:
        """Compute, cache and return both instants of owner ``name`` for the time of ``view``."""
        rise_ms, fall_ms = found = next_crossings_ms(view, name)
        self._rises.put(name, rise_ms)
        self._falls.put(name, fall_ms)
        return found


def next_crossings_ms(view: UseView, name: str) -> tuple[int | None, int | None]:
    """Return the instants before which the use of ``name`` neither rises nor falls to a threshold.

    The first instant is for rising, the second for falling. The first is None if, without a further
    event about the owner, the use rises to no threshold; the second is None if it falls to none.
    """
    owner, crossed = view.owners.get(name), view.thresholds.get(name, 0)
    budgets = [] if owner is None else counted(view, owner)
    percent = next((p for p in PERCENTS if p > crossed), None)
    now_ms, period_ms = view.at_ms, view.system.budget_period_days * DAY_MS
    from_ms = now_ms - period_ms
    rise_ms: int | None = None
    fall_ms: int | None = _AT_ONCE if crossed else None
    for meters, beside, budget in budgets:
        used, rate = beside, 0
        for meter in meters:
            if meter.was_corrected(from_ms):
                # When an hour with a negative correction leaves the window, use rises at once.
                return None if percent is None else _AT_ONCE, _AT_ONCE if crossed else None
            used += meter.used(from_ms, now_ms)
            rate += meter.amount
        if percent is not None:
            wait_ms = _rises_in_ms(used, rate, budget, percent)
            if wait_ms is not None and (rise_ms is None or now_ms + wait_ms < rise_ms):
                rise_ms = now_ms + wait_ms
        if fall_ms is not None:
            gone_ms = _gone_ms(meters, used, budget, crossed - REARM_POINTS, from_ms)
            fall_ms = None if gone_ms is None else max(fall_ms, gone_ms + period_ms)
    return rise_ms, fall_ms


def _rises_in_ms(used: int, rate: int, budget: int, percent: int) -> int | None:
    """Return how long it takes to use ``percent`` of ``budget`` if no past use leaves the window.

    The result is None if the use never reaches this percentage.
    """
    if not budget:
        return 0 if percent <= _WHOLE else None  # A budget of 0 counts as 100 % used.
    missing = percent * budget - used * _WHOLE
    if missing <= 0:
        return 0
    return -(-missing // (_WHOLE * rate)) if rate else None


def _gone_ms(meters: list[Meter], used: int, budget: int, percent: int, from_ms: int) -> int | None:
    """Return the first start of the rolling window at which the use may be ``percent`` or less.

    ``from_ms`` is the present start of the window. The result assumes that no use is added, and may
    be too early. It is None if the use does not fall so far. For the use to fall to ``percent``, at
    least one of the n meters has to lose an n-th of the difference. The result is the first start
    of the window at which some meter has lost so much.
    """
    if not budget:
        return from_ms if percent >= _WHOLE else None
    excess = used * _WHOLE - percent * budget
    if excess <= 0:
        return from_ms
    if not meters:
        return None  # A reported figure does not change by itself.
    part = -(-excess // (_WHOLE * len(meters)))
    starts = (meter.past_ms(from_ms, part) for meter in meters)
    return min((ms for ms in starts if ms is not None), default=None)
