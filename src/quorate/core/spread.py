"""Spread: how many groups go to which domain, in pack order.

``spreads`` yields every distinct way to divide a request among domains, best first, so that the
first one that can also be paid is the answer. Without a payer to please, the first is the answer.
Order: under ``tight``, and for a run that must stay in one domain, single domains first (``tight``:
the least free that holds it; ``classic``: the most free); then one domain is filled before the
next, beginning with those the run already uses, most free first, ties by key.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from msgspec import Struct

from quorate.core.layout import PackRequest
from quorate.core.purse import Demand
from quorate.core.steps import Steps
from quorate.core.yard import Yard, Yards
from quorate.model.specs import Placement

Payable = Callable[[Sequence[Demand]], bool]
"""Whether some demands could be paid; asked to prune, so it may err towards yes alone."""


class Item(Struct, frozen=True, gc=False):
    """``count`` groups of ``gpus`` each; a divisible one is cut into as many groups as domains."""

    bundle: int
    gpus: int
    count: int
    divisible: bool


class Piece(Struct, frozen=True, gc=False):
    """``count`` groups of ``gpus``, each with ``spares``, in ``yard``: ``amounts`` of its lots."""

    bundle: int
    gpus: int
    count: int
    spares: int
    yard: Yard
    amounts: tuple[int, ...]


Spread = tuple[Piece, ...]


def items_of(request: PackRequest) -> tuple[Item, ...]:
    """Return the groups of ``request`` as runs of equal size."""
    items: list[Item] = []
    for bundle in request.bundles:
        if bundle.groups is None:
            items.append(Item(bundle.index, bundle.gpus, 1, divisible=True))
            continue
        items.extend(
            Item(bundle.index, size, bundle.groups.count(size), divisible=False)
            for size in dict.fromkeys(bundle.groups)
        )
    return tuple(items)


def demands_of(spread: Sequence[Piece]) -> list[Demand]:
    """Return what has to be paid where, places in pack order."""
    totals: dict[str, Demand] = {}
    for piece in spread:
        for lot, gpus in zip(piece.yard.lots, piece.amounts, strict=True):
            if gpus:
                place = lot.place
                known = totals.get(place.where)
                totals[place.where] = (place, gpus if known is None else gpus + known[1])
    return list(totals.values())


def spreads(yards: Yards, payable: Payable | None, steps: Steps) -> Iterator[Spread]:
    """Yield the ways to place ``yards.request``, in pack order.

    Stops early, with ``steps.exhausted`` set, when the search is too long.
    """
    request = yards.request
    items = items_of(request)
    if request.one_domain or request.placement is Placement.TIGHT:
        yield from _single_domain(yards, items, steps)
    if not request.one_domain:
        yield from _SpreadSearch(yards, items, payable, steps).run()


def _single_domain(yards: Yards, items: Sequence[Item], steps: Steps) -> Iterator[Spread]:
    """Yield the spreads that use one domain only."""
    request = yards.request
    spares = request.spares_per_group
    need = 0
    for item in items:
        need += (item.gpus + spares) * item.count
    for yard in _holding(yards, need):
        if not steps.spend():
            return
        left = [lot.gpus_free for lot in yard.lots]
        pieces: list[Piece] = []
        for item in items:
            piece = _first_fit(item, spares, yard, left)
            if piece is None:
                break
            _take(left, piece.amounts, 1)
            pieces.append(piece)
        else:
            yield tuple(pieces)


def _holding(yards: Yards, need: int) -> Iterator[Yard]:
    """Yield the domains with at least ``need`` free, those the run uses first, ties by key."""
    request = yards.request
    in_order = yards.least_free if request.placement is Placement.TIGHT else yards.most_free
    if not request.prefer:
        return in_order(need)
    return iter(sorted(in_order(need), key=lambda yard: yard.domain not in request.prefer))


def _first_fit(item: Item, spares: int, yard: Yard, left: Sequence[int]) -> Piece | None:
    """Return the first way to take all groups of ``item`` from ``yard``."""
    if len(left) == 1 and yard.lots[0].unit == 1:
        need = (item.gpus + spares) * item.count
        if left[0] < need:
            return None
        return Piece(item.bundle, item.gpus, item.count, spares, yard, (need,))
    return next(_fits(item, item.count, spares, yard, left), None)


def _take(left: list[int], amounts: Sequence[int], sign: int) -> None:
    for index, gpus in enumerate(amounts):
        left[index] -= sign * gpus


def _fits(item: Item, count: int, spares: int, yard: Yard, left: Sequence[int]) -> Iterator[Piece]:
    """Yield the ways to take ``count`` groups of ``item`` from the lots of ``yard``."""
    need = (item.gpus + spares) * count
    if len(yard.lots) == 1 and yard.lots[0].unit == 1:
        if left[0] >= need:
            yield Piece(item.bundle, item.gpus, count, spares, yard, (need,))
        return
    if all(lot.unit == 1 for lot in yard.lots) or count == 1:
        for amounts in _splits(yard, left, need, 0):
            yield Piece(item.bundle, item.gpus, count, spares, yard, amounts)
        return
    # Whole nodes of several sizes: one group after the other, each in its first way.
    remaining, total = list(left), [0] * len(left)
    for _ in range(count):
        amounts_one = next(_splits(yard, remaining, item.gpus + spares, 0), None)
        if amounts_one is None:
            return
        _take(remaining, amounts_one, 1)
        _take(total, amounts_one, -1)
    yield Piece(item.bundle, item.gpus, count, spares, yard, tuple(total))


def _splits(yard: Yard, left: Sequence[int], gpus: int, at: int) -> Iterator[tuple[int, ...]]:
    """Yield the ways to take ``gpus`` from the lots from ``at`` on, most from the first first."""
    unit = yard.lots[at].unit
    most = min(gpus, left[at]) // unit * unit
    if at == len(yard.lots) - 1:
        if most == gpus:
            yield (gpus,)
        return
    rest = sum(left[at + 1 :])
    for here in range(most, -1, -unit):
        if gpus - here > rest:
            return
        for others in _splits(yard, left, gpus - here, at + 1):
            yield (here, *others)


@dataclass(slots=True)
class _SpreadSearch:
    """Depth-first, domain by domain, the most groups first; no state is entered twice."""

    yards: Yards
    items: Sequence[Item]
    payable: Payable | None
    steps: Steps
    pieces: list[Piece] = field(default_factory=list)
    left: dict[str, list[int]] = field(default_factory=dict)
    used: dict[str, int] = field(default_factory=dict)
    entered: set[tuple[object, ...]] = field(default_factory=set)
    filling_is_best: bool = field(init=False)

    def __post_init__(self) -> None:
        # Groups of one size waste the same room wherever they go, and one smaller group at the end
        # fits wherever a full one would have. Divisible work wastes nothing unless it has spares.
        sizes = [item.gpus for item in self.items]
        uniform = len(set(sizes[:-1])) <= 1 and sizes[-1] <= sizes[0]
        last_is_one = sizes[-1] == sizes[0] or self.items[-1].count == 1
        divisible = self.items[0].divisible
        self.filling_is_best = (
            len(self.items) == 1 or not self.yards.request.spares_per_group
            if divisible
            else uniform and last_is_one
        )

    def run(self) -> Iterator[Spread]:
        """Yield complete spreads in order."""
        return self._item(0)

    def _item(self, at: int) -> Iterator[Spread]:
        if at == len(self.items):
            yield tuple(self.pieces)
            return
        item = self.items[at]
        yield from self._rest(at, item.gpus if item.divisible else item.count, ())

    def _rest(self, at: int, rest: int, done: tuple[str, ...]) -> Iterator[Spread]:
        """Place what is left of item ``at`` (GPUs or groups) in domains that are not ``done``."""
        if rest == 0:
            yield from self._item(at + 1)
            return
        if not self._is_new(at, rest, done):
            return
        item, spares = self.items[at], self.yards.request.spares_per_group
        least = spares + (1 if item.divisible else item.gpus)
        for yard in self._candidates(least):
            if yard.domain in done:
                continue
            left = sum(self._left(yard))
            most = min(rest, left - spares if item.divisible else left // (item.gpus + spares))
            for amount in self._amounts(item, most, yard):
                for _ in self._placed(item, amount, yard):
                    yield from self._rest(at, rest - amount, (*done, yard.domain))
                if self.steps.exhausted:
                    return
            # Whatever follows does without this domain, so that no division comes up twice.
            done = (*done, yard.domain)

    def _amounts(self, item: Item, most: int, yard: Yard) -> Iterator[int]:
        """Yield how much of ``item`` to try in ``yard``, most first.

        Without a payer, giving a domain less than it holds never helps where ``filling_is_best``.
        """
        if self.payable is None and self.filling_is_best and len(yard.lots) == 1:
            yield most
            return
        top = most
        if self.payable is not None and not self._could(item, most, yard):
            low, high = 0, most
            while high - low > 1:
                middle = (low + high) // 2
                if self._could(item, middle, yard):
                    low = middle
                else:
                    high = middle
            top = low
        yield from range(top, 0, -1)

    def _pieces(self, item: Item, amount: int, yard: Yard) -> Iterator[Piece]:
        spares = self.yards.request.spares_per_group
        part = Item(item.bundle, amount, 1, divisible=True) if item.divisible else item
        return _fits(part, 1 if item.divisible else amount, spares, yard, self._left(yard))

    def _could(self, item: Item, amount: int, yard: Yard) -> bool:
        """Return whether some way to put ``amount`` into ``yard`` might be payable."""
        assert self.payable is not None
        for piece in self._pieces(item, amount, yard):
            if not self.steps.spend():
                return False
            if self.payable(demands_of([*self.pieces, piece])):
                return True
        return False

    def _placed(self, item: Item, amount: int, yard: Yard) -> Iterator[None]:
        """Put ``amount`` into ``yard`` in each way that may be payable, and take it out again."""
        for piece in self._pieces(item, amount, yard):
            if not self.steps.spend():
                return
            self.pieces.append(piece)
            if self.payable is None or self.payable(demands_of(self.pieces)):
                left = self._left(yard)
                _take(left, piece.amounts, 1)
                self.used[yard.domain] = self.used.get(yard.domain, 0) + 1
                yield None
                self.used[yard.domain] -= 1
                _take(left, piece.amounts, -1)
            self.pieces.pop()

    def _left(self, yard: Yard) -> list[int]:
        if yard.domain not in self.left:
            self.left[yard.domain] = [lot.gpus_free for lot in yard.lots]
        return self.left[yard.domain]

    def _candidates(self, need: int) -> Iterator[Yard]:
        """Yield the domains with room for ``need``: used ones first, then by most free and key."""
        used = {domain for domain, count in self.used.items() if count}
        used |= self.yards.request.prefer
        offers = [(yard, sum(self._left(yard))) for d in used if (yard := self.yards.at(d))]
        offers.sort(key=lambda offer: (-offer[1], offer[0].domain))
        for yard, gpus in offers:
            if gpus >= need:
                yield yard
        for yard in self.yards.most_free(need):
            if yard.domain not in used:
                yield yard

    def _is_new(self, *at: object) -> bool:
        """Return whether the search was never here with the same things taken."""
        taken = ((domain, tuple(self.left[domain])) for domain, count in self.used.items() if count)
        state = (*at, tuple(sorted(taken)))
        if state in self.entered:
            return False
        self.entered.add(state)
        return True
