"""Spread: how many groups go to which domain, in pack order.

``spreads`` yields every distinct way to divide a request among domains, best first, so that the
first one that can also be paid is the answer. Without a payer to please, the first is the answer.
Order: under ``tight``, and for a run that must stay in one domain, single domains first (``tight``:
the least free that holds it; ``classic``: the most free); then one domain is filled before the
next, beginning with those the run already uses, most free first, ties by key.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from math import gcd
from typing import Final

from msgspec import Struct

from quorate.core.layout import PackRequest
from quorate.core.purse import Demand
from quorate.core.steps import Steps
from quorate.core.yard import Yard, Yards
from quorate.model.specs import Placement

Payable = Callable[[Sequence[Demand]], bool]
"""Whether some demands could be paid; asked to prune, so it may err towards yes alone."""

DEPTH_MAX: Final = 200
"""Into how many pieces a search for payable placements cuts a run before it gives up."""


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
    if request.whole_nodes and not _fits_whole_nodes(yards, items):
        return
    if request.one_domain or request.placement is Placement.TIGHT:
        yield from _single_domain(yards, items, payable, steps)
    if request.one_domain:
        return
    search = _SpreadSearch(yards, items, payable, steps)
    if payable is None and search.filling_is_best:
        filled = search.fill()
        if filled is not None:
            yield filled
        return
    yield from search.run()


def _fits_whole_nodes(yards: Yards, items: Sequence[Item]) -> bool:
    """Return whether every group could be made up of whole nodes, were there enough of them."""
    sizes = {lot.unit for yard in yards.most_free() for lot in yard.lots}
    return fills_nodes(items, yards.request.spares_per_group, sizes)


def fills_nodes(items: Sequence[Item], spares: int, sizes: Collection[int]) -> bool:
    """Return whether every group with its spares could fill nodes of ``sizes`` without a rest.

    A divisible item has spares in each of its parts.
    """
    grain = gcd(*sizes)
    return grain > 0 and all(
        any(
            (item.gpus + parts * spares) % grain == 0
            for parts in (range(1, grain + 1) if item.divisible else (1,))
        )
        for item in items
    )


def _single_domain(
    yards: Yards, items: Sequence[Item], payable: Payable | None, steps: Steps
) -> Iterator[Spread]:
    """Yield the spreads that use one domain only."""
    spares = yards.request.spares_per_group
    need = 0
    for item in items:
        need += (item.gpus + spares) * item.count
    for yard in _holding(yards, need):
        if not steps.spend():
            return
        if yard.is_plain:
            pieces = []
            for item in items:
                gpus = (item.gpus + spares) * item.count
                pieces.append(Piece(item.bundle, item.gpus, item.count, spares, yard, (gpus,)))
            yield tuple(pieces)
        else:
            yield from _InOneYard(yard, items, spares, payable, steps).run()


@dataclass(slots=True)
class _InOneYard:
    """Every way to take all items from the lots of one yard, most from the first lots first."""

    yard: Yard
    items: Sequence[Item]
    spares: int
    payable: Payable | None
    steps: Steps
    entered: set[tuple[int, tuple[int, ...]]] = field(default_factory=set)

    def run(self) -> Iterator[Spread]:
        """Yield complete spreads; two that take the same from each lot come up once."""
        return self._rest(0, [lot.gpus_free for lot in self.yard.lots], ())

    def _rest(self, at: int, left: Sequence[int], done: Spread) -> Iterator[Spread]:
        if at == len(self.items):
            yield done
            return
        if (at, tuple(left)) in self.entered:
            return
        self.entered.add((at, tuple(left)))
        item = self.items[at]
        for piece in _fits(item, item.count, self.spares, self.yard, left, self.steps):
            if not self.steps.spend():
                return
            pieces = (*done, piece)
            if self.payable is None or self.payable(demands_of(pieces)):
                rest = [have - gpus for have, gpus in zip(left, piece.amounts, strict=True)]
                yield from self._rest(at + 1, rest, pieces)


def _holding(yards: Yards, need: int) -> Iterator[Yard]:
    """Yield the domains with at least ``need`` free, those the run uses first, ties by key."""
    request = yards.request
    in_order = yards.least_free if request.placement is Placement.TIGHT else yards.most_free
    if not request.prefer:
        return in_order(need)
    return iter(sorted(in_order(need), key=lambda yard: yard.domain not in request.prefer))


def _take(left: list[int], amounts: Sequence[int], sign: int) -> None:
    for index, gpus in enumerate(amounts):
        left[index] -= sign * gpus


def _fits(  # noqa: PLR0913, PLR0917 - what to take, from where, and how long to look
    item: Item, count: int, spares: int, yard: Yard, left: Sequence[int], steps: Steps
) -> Iterator[Piece]:
    """Yield the ways to take ``count`` groups of ``item`` from the lots of ``yard``."""
    need = (item.gpus + spares) * count
    if yard.is_plain:
        if left[0] >= need:
            yield Piece(item.bundle, item.gpus, count, spares, yard, (need,))
        return
    if count == 1 or all(lot.unit == 1 for lot in yard.lots):
        ways = _splits(yard, left, need, steps)
    else:
        ways = _group_by_group(yard, left, item.gpus + spares, count, steps)
    for amounts in ways:
        yield Piece(item.bundle, item.gpus, count, spares, yard, amounts)


def _group_by_group(
    yard: Yard, left: Sequence[int], gpus: int, count: int, steps: Steps
) -> Iterator[tuple[int, ...]]:
    """Yield what ``count`` groups of ``gpus``, each of whole nodes, can take from the lots.

    One group after the other, each in its first way first; no total is met twice.
    """
    seen = {(0, tuple(left))}
    stack = [_splits(yard, left, gpus, steps)]
    path = [tuple(left)]
    while stack:
        one = next(stack[-1], None)
        if one is None:
            stack.pop()
            path.pop()
            continue
        rest = tuple(have - taken for have, taken in zip(path[-1], one, strict=True))
        if (len(stack), rest) in seen:
            continue
        seen.add((len(stack), rest))
        if len(stack) == count:
            yield tuple(had - have for had, have in zip(left, rest, strict=True))
        else:
            stack.append(_splits(yard, rest, gpus, steps))
            path.append(rest)


def _splits(yard: Yard, left: Sequence[int], gpus: int, steps: Steps) -> Iterator[tuple[int, ...]]:
    """Yield the ways to take ``gpus`` from the lots, most from the first lot first.

    A lot is only given what the lots behind it can make up: never more than they have, and never
    what their units do not divide.
    """
    units = [lot.unit for lot in yard.lots]
    behind, grain = [0] * len(units), [0] * len(units)
    for at in range(len(units) - 2, -1, -1):
        behind[at] = behind[at + 1] + left[at + 1] // units[at + 1] * units[at + 1]
        grain[at] = gcd(grain[at + 1], units[at + 1])
    taken: list[int] = []
    rest = gpus
    choices = [_here(rest, left[0], units[0], behind[0], grain[0])]
    while choices:
        if not steps.spend():
            return
        here = next(choices[-1], None)
        if here is None:
            choices.pop()
            if taken:
                rest += taken.pop()
            continue
        at = len(taken)
        if at == len(units) - 1:
            yield (*taken, here)
            continue
        taken.append(here)
        rest -= here
        following = at + 1
        choices.append(
            _here(rest, left[following], units[following], behind[following], grain[following])
        )


def _here(rest: int, left: int, unit: int, behind: int, grain: int) -> Iterator[int]:
    """Yield what one lot may give of ``rest``, most first; nothing lies behind where grain is 0."""
    most = min(rest, left) // unit * unit
    for here in range(most, max(0, rest - behind) - 1, -unit):
        other = rest - here
        if other == 0 if grain == 0 else other % grain == 0:
            yield here


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
        # fits wherever a full one would have. Divisible work wastes nothing unless it has spares,
        # and then it wastes least in the largest domains. Whole nodes fit or do not fit.
        request = self.yards.request
        sizes = [item.gpus for item in self.items]
        uniform = len(set(sizes[:-1])) <= 1 and sizes[-1] <= sizes[0]
        last_is_one = sizes[-1] == sizes[0] or self.items[-1].count == 1
        if request.whole_nodes and not self._of_one_size():
            self.filling_is_best = False
        elif self.items[0].divisible:
            alone = len(self.items) == 1 and not request.prefer
            self.filling_is_best = alone or not request.spares_per_group
        else:
            self.filling_is_best = uniform and last_is_one

    def _of_one_size(self) -> bool:
        """Return whether all nodes have one size and every group is a multiple of it."""
        units = {lot.unit for yard in self.yards.most_free() for lot in yard.lots}
        spares = self.yards.request.spares_per_group
        return len(units) == 1 and all(
            size % unit == 0
            for unit in units
            for size in (spares, *(item.gpus for item in self.items))
        )

    def fill(self) -> Spread | None:
        """Return the spread that fills one domain before the next; None where nothing fits.

        A proof where ``filling_is_best``, however many domains there are.
        """
        spares = self.yards.request.spares_per_group
        for item in self.items:
            rest = item.gpus if item.divisible else item.count
            least = spares + (1 if item.divisible else item.gpus)
            for yard in self._candidates(least):
                left = self._left(yard)
                gpus = sum(left)
                most = min(rest, gpus - spares if item.divisible else gpus // (item.gpus + spares))
                piece = next(self._pieces(item, most, yard), None)
                if piece is None:
                    return None
                _take(left, piece.amounts, 1)
                self.pieces.append(piece)
                self.used[yard.domain] = self.used.get(yard.domain, 0) + 1
                rest -= most
                if rest == 0:
                    break
            if rest:
                return None
        return tuple(self.pieces)

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
        if len(self.pieces) == DEPTH_MAX:
            self.steps.exhausted = True
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

        What can be paid is an interval from nothing up, so its top is found by halving; not so
        where nodes go whole, because there an amount in between may not fit at all.
        """
        top = most
        halving = self.payable is not None and not self.yards.request.whole_nodes
        if halving and not self._could(item, most, yard):
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
        count = 1 if item.divisible else amount
        return _fits(part, count, spares, yard, self._left(yard), self.steps)

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
