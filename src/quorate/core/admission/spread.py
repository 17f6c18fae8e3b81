"""Spread: how many groups of a run go to which domain.

``spreads`` yields every distinct way to divide a request among domains, in pack order, which means
best first. The caller uses the first division that can also be paid for. If the caller does not
check payers, it uses the first division.

Pack order begins with placements in a single domain, under ``tight`` and for every run that must
stay in one domain. ``tight`` first tries the domain with the fewest free GPUs that has room for the
run; ``classic`` first tries the domain with the most free GPUs. Then come divisions among several
domains, which fill one domain before the next. They first fill domains that the run already uses,
and then the domains with the most free GPUs. Equal domains are ordered by key.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from math import gcd
from typing import Final

from msgspec import Struct

from quorate.core.admission.domain_offer import DomainOffer, DomainOffers
from quorate.core.admission.layout import PackRequest
from quorate.core.admission.payers import Demand
from quorate.core.admission.search_budget import SearchBudget
from quorate.model.specs import Placement

Payable = Callable[[Sequence[Demand]], bool]
"""A function that returns whether some demands could be paid for.

The search uses it to skip divisions. The result False is always right, and the result True may be
wrong.
"""

DEPTH_MAX: Final = 200
"""The most pieces into which a run is divided; a search that needs more pieces gives up."""


class Item(Struct, frozen=True, gc=False):
    """``count`` groups of ``gpus`` GPUs each.

    A divisible item may be divided among domains; in each of them, its part is one group.
    """

    bundle: int
    gpus: int
    count: int
    divisible: bool


class Piece(Struct, frozen=True, gc=False):
    """``count`` groups in one domain, each with ``gpus`` GPUs and ``spares`` spare GPUs.

    ``amounts`` are the GPUs that the piece takes from each node class of the domain.
    """

    bundle: int
    gpus: int
    count: int
    spares: int
    domain_offer: DomainOffer
    amounts: tuple[int, ...]


Spread = tuple[Piece, ...]


def items_of(request: PackRequest) -> tuple[Item, ...]:
    """Return the groups of ``request``; the groups of equal size in a bundle are one item."""
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
    """Return the GPUs to be paid for in each place, with the places in pack order."""
    totals: dict[str, Demand] = {}
    for piece in spread:
        for node_class, gpus in zip(piece.domain_offer.node_classes, piece.amounts, strict=True):
            if gpus:
                place = node_class.place
                known = totals.get(place.where)
                totals[place.where] = (place, gpus if known is None else gpus + known[1])
    return list(totals.values())


def spreads(
    domain_offers: DomainOffers, payable: Payable | None, steps: SearchBudget
) -> Iterator[Spread]:
    """Yield the ways to place ``domain_offers.request``, in pack order.

    If the search takes too many steps, it stops early and sets ``steps.exhausted``.
    """
    request = domain_offers.request
    items = items_of(request)
    if request.whole_nodes and not _fits_whole_nodes(domain_offers, items):
        return
    if request.one_domain or request.placement is Placement.TIGHT:
        yield from _single_domain(domain_offers, items, payable, steps)
    if request.one_domain:
        return
    search = _SpreadSearch(domain_offers, items, payable, steps)
    if payable is None and search.filling_is_best:
        filled = search.fill()
        if filled is not None:
            yield filled
        return
    yield from search.run()


def _fits_whole_nodes(domain_offers: DomainOffers, items: Sequence[Item]) -> bool:
    """Return whether every group could consist of whole nodes, if enough nodes were free."""
    sizes = {
        node_class.unit
        for domain_offer in domain_offers.most_free()
        for node_class in domain_offer.node_classes
    }
    return fills_nodes(items, domain_offers.request.spares_per_group, sizes)


def fills_nodes(items: Sequence[Item], spares: int, sizes: Collection[int]) -> bool:
    """Return whether every group with its spares could fill nodes of ``sizes`` completely.

    If a divisible item is divided, each part has spares.
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
    domain_offers: DomainOffers, items: Sequence[Item], payable: Payable | None, steps: SearchBudget
) -> Iterator[Spread]:
    """Yield the spreads that use one domain only."""
    spares = domain_offers.request.spares_per_group
    need = 0
    for item in items:
        need += (item.gpus + spares) * item.count
    for domain_offer in _holding(domain_offers, need):
        if not steps.spend():
            return
        if domain_offer.is_plain:
            pieces = []
            for item in items:
                gpus = (item.gpus + spares) * item.count
                pieces.append(
                    Piece(item.bundle, item.gpus, item.count, spares, domain_offer, (gpus,))
                )
            yield tuple(pieces)
        else:
            yield from _InOneDomain(domain_offer, items, spares, payable, steps).run()


@dataclass(slots=True)
class _InOneDomain:
    """A search for every way to take all items from one domain.

    The search takes GPUs from the first node classes first.
    """

    domain_offer: DomainOffer
    items: Sequence[Item]
    spares: int
    payable: Payable | None
    steps: SearchBudget
    entered: set[tuple[int, tuple[int, ...]]] = field(default_factory=set)

    def run(self) -> Iterator[Spread]:
        """Yield complete spreads, without those whose totals per node class occurred before."""
        return self._rest(
            0, [node_class.gpus_free for node_class in self.domain_offer.node_classes], ()
        )

    def _rest(self, at: int, left: Sequence[int], done: Spread) -> Iterator[Spread]:
        if at == len(self.items):
            yield done
            return
        if (at, tuple(left)) in self.entered:
            return
        self.entered.add((at, tuple(left)))
        item = self.items[at]
        for piece in _fits(item, item.count, self.spares, self.domain_offer, left, self.steps):
            if not self.steps.spend():
                return
            pieces = (*done, piece)
            if self.payable is None or self.payable(demands_of(pieces)):
                rest = [have - gpus for have, gpus in zip(left, piece.amounts, strict=True)]
                yield from self._rest(at + 1, rest, pieces)


def _holding(domain_offers: DomainOffers, need: int) -> Iterator[DomainOffer]:
    """Yield the domains with at least ``need`` free GPUs, in pack order.

    Domains that the run already uses come first.
    """
    request = domain_offers.request
    in_order = (
        domain_offers.least_free
        if request.placement is Placement.TIGHT
        else domain_offers.most_free
    )
    if not request.prefer:
        return in_order(need)
    return iter(
        sorted(in_order(need), key=lambda domain_offer: domain_offer.domain not in request.prefer)
    )


def _take(left: list[int], amounts: Sequence[int], sign: int) -> None:
    for index, gpus in enumerate(amounts):
        left[index] -= sign * gpus


def _fits(  # noqa: PLR0913, PLR0917 - a search needs all of these arguments
    item: Item,
    count: int,
    spares: int,
    domain_offer: DomainOffer,
    left: Sequence[int],
    steps: SearchBudget,
) -> Iterator[Piece]:
    """Yield the ways to take ``count`` groups of ``item`` from the node classes of a domain."""
    need = (item.gpus + spares) * count
    if domain_offer.is_plain:
        if left[0] >= need:
            yield Piece(item.bundle, item.gpus, count, spares, domain_offer, (need,))
        return
    if count == 1 or all(node_class.unit == 1 for node_class in domain_offer.node_classes):
        ways = _splits(domain_offer, left, need, steps)
    else:
        ways = _group_by_group(domain_offer, left, item.gpus + spares, count, steps)
    for amounts in ways:
        yield Piece(item.bundle, item.gpus, count, spares, domain_offer, amounts)


def _group_by_group(
    domain_offer: DomainOffer, left: Sequence[int], gpus: int, count: int, steps: SearchBudget
) -> Iterator[tuple[int, ...]]:
    """Yield how many GPUs ``count`` groups of ``gpus`` can take from each node class.

    Each group consists of whole nodes. The results are ordered by the placement of the first group,
    then by the placement of the second group, and so on. No result is yielded twice.
    """
    seen = {(0, tuple(left))}
    stack = [_splits(domain_offer, left, gpus, steps)]
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
            stack.append(_splits(domain_offer, rest, gpus, steps))
            path.append(rest)


def _splits(
    domain_offer: DomainOffer, left: Sequence[int], gpus: int, steps: SearchBudget
) -> Iterator[tuple[int, ...]]:
    """Yield the ways to take ``gpus`` from the node classes, in descending lexicographic order.

    After each class, the remaining GPUs must be an amount that the later classes may give. So their
    number is at most the number of free GPUs of these classes, and divisible by the greatest common
    divisor of the units of these classes.
    """
    units = [node_class.unit for node_class in domain_offer.node_classes]
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
    """Yield how many GPUs of ``rest`` one node class may give, the largest number first.

    ``rest`` is the number of GPUs still wanted, and ``left`` is how many the class has left.
    ``behind`` is the number of GPUs in the later classes. ``grain`` is the greatest common divisor
    of the units of the later classes; it is 0 for the last class.
    """
    most = min(rest, left) // unit * unit
    for here in range(most, max(0, rest - behind) - 1, -unit):
        other = rest - here
        if other == 0 if grain == 0 else other % grain == 0:
            yield here


@dataclass(slots=True)
class _SpreadSearch:
    """A depth-first search, domain by domain; it first tries as much as possible in each domain.

    No state is searched twice.
    """

    domain_offers: DomainOffers
    items: Sequence[Item]
    payable: Payable | None
    steps: SearchBudget
    pieces: list[Piece] = field(default_factory=list)
    left: dict[str, list[int]] = field(default_factory=dict)
    used: dict[str, int] = field(default_factory=dict)
    entered: set[tuple[object, ...]] = field(default_factory=set)
    filling_is_best: bool = field(init=False)

    def __post_init__(self) -> None:
        # Filling one domain before the next is best if no other division leaves more room. It is
        # best for groups of one size, and also if the last group is smaller, because a smaller
        # group fits wherever a full group fits. Divisible work needs more room in some divisions
        # only because of its spares; spares need the least room if the domains with the most free
        # GPUs come first. If nodes are given whole, filling is best only if all nodes have one
        # size.
        request = self.domain_offers.request
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
        """Return whether all nodes have one size and every group is a multiple of this size."""
        units = {
            node_class.unit
            for domain_offer in self.domain_offers.most_free()
            for node_class in domain_offer.node_classes
        }
        spares = self.domain_offers.request.spares_per_group
        return len(units) == 1 and all(
            size % unit == 0
            for unit in units
            for size in (spares, *(item.gpus for item in self.items))
        )

    def fill(self) -> Spread | None:
        """Return the spread that fills one domain before the next; None if it has no room.

        If ``filling_is_best`` is true, None proves that no other division has room either.
        """
        spares = self.domain_offers.request.spares_per_group
        for item in self.items:
            rest = item.gpus if item.divisible else item.count
            least = spares + (1 if item.divisible else item.gpus)
            for domain_offer in self._candidates(least):
                left = self._left(domain_offer)
                gpus = sum(left)
                most = min(rest, gpus - spares if item.divisible else gpus // (item.gpus + spares))
                piece = next(self._pieces(item, most, domain_offer), None)
                if piece is None:
                    return None
                _take(left, piece.amounts, 1)
                self.pieces.append(piece)
                self.used[domain_offer.domain] = self.used.get(domain_offer.domain, 0) + 1
                rest -= most
                if rest == 0:
                    break
            if rest:
                return None
        return tuple(self.pieces)

    def run(self) -> Iterator[Spread]:
        """Yield complete spreads, in pack order."""
        return self._item(0)

    def _item(self, at: int) -> Iterator[Spread]:
        if at == len(self.items):
            yield tuple(self.pieces)
            return
        item = self.items[at]
        yield from self._rest(at, item.gpus if item.divisible else item.count, ())

    def _rest(self, at: int, rest: int, done: tuple[str, ...]) -> Iterator[Spread]:
        """Place the last ``rest`` GPUs or groups of item ``at`` in domains outside ``done``."""
        if rest == 0:
            yield from self._item(at + 1)
            return
        if not self._is_new(at, rest, done):
            return
        if len(self.pieces) == DEPTH_MAX:
            self.steps.exhausted = True
            return
        item, spares = self.items[at], self.domain_offers.request.spares_per_group
        least = spares + (1 if item.divisible else item.gpus)
        for domain_offer in self._candidates(least):
            if domain_offer.domain in done:
                continue
            left = sum(self._left(domain_offer))
            most = min(rest, left - spares if item.divisible else left // (item.gpus + spares))
            for amount in self._amounts(item, most, domain_offer):
                for _ in self._placed(item, amount, domain_offer):
                    yield from self._rest(at, rest - amount, (*done, domain_offer.domain))
                if self.steps.exhausted:
                    return
            # From here on, the search leaves this domain out, so that no division is yielded twice.
            done = (*done, domain_offer.domain)

    def _amounts(self, item: Item, most: int, domain_offer: DomainOffer) -> Iterator[int]:
        """Yield how much of ``item`` to try in ``domain_offer``, the largest amount first.

        If an amount can be paid for, every smaller amount can be paid for, too. So bisection finds
        the largest amount. If nodes are given whole, there is no bisection, because some smaller
        amounts may not fit at all.
        """
        top = most
        halving = self.payable is not None and not self.domain_offers.request.whole_nodes
        if halving and not self._could(item, most, domain_offer):
            low, high = 0, most
            while high - low > 1:
                middle = (low + high) // 2
                if self._could(item, middle, domain_offer):
                    low = middle
                else:
                    high = middle
            top = low
        yield from range(top, 0, -1)

    def _pieces(self, item: Item, amount: int, domain_offer: DomainOffer) -> Iterator[Piece]:
        spares = self.domain_offers.request.spares_per_group
        part = Item(item.bundle, amount, 1, divisible=True) if item.divisible else item
        count = 1 if item.divisible else amount
        return _fits(part, count, spares, domain_offer, self._left(domain_offer), self.steps)

    def _could(self, item: Item, amount: int, domain_offer: DomainOffer) -> bool:
        """Return whether ``amount`` of ``item`` in ``domain_offer`` might be paid for."""
        assert self.payable is not None
        for piece in self._pieces(item, amount, domain_offer):
            if not self.steps.spend():
                return False
            if self.payable(demands_of([*self.pieces, piece])):
                return True
        return False

    def _placed(self, item: Item, amount: int, domain_offer: DomainOffer) -> Iterator[None]:
        """Place ``amount`` in each way that may be paid for: add it, yield, and remove it again."""
        for piece in self._pieces(item, amount, domain_offer):
            if not self.steps.spend():
                return
            self.pieces.append(piece)
            if self.payable is None or self.payable(demands_of(self.pieces)):
                left = self._left(domain_offer)
                _take(left, piece.amounts, 1)
                self.used[domain_offer.domain] = self.used.get(domain_offer.domain, 0) + 1
                yield None
                self.used[domain_offer.domain] -= 1
                _take(left, piece.amounts, -1)
            self.pieces.pop()

    def _left(self, domain_offer: DomainOffer) -> list[int]:
        if domain_offer.domain not in self.left:
            self.left[domain_offer.domain] = [
                node_class.gpus_free for node_class in domain_offer.node_classes
            ]
        return self.left[domain_offer.domain]

    def _candidates(self, need: int) -> Iterator[DomainOffer]:
        """Yield the domains with room for ``need`` GPUs, used domains first.

        Used domains, and then the other domains, are ordered by their free GPUs, most first; equal
        domains by key.
        """
        used = {domain for domain, count in self.used.items() if count}
        used |= self.domain_offers.request.prefer
        offers = [
            (domain_offer, sum(self._left(domain_offer)))
            for d in used
            if (domain_offer := self.domain_offers.at(d))
        ]
        offers.sort(key=lambda offer: (-offer[1], offer[0].domain))
        for domain_offer, gpus in offers:
            if gpus >= need:
                yield domain_offer
        for domain_offer in self.domain_offers.most_free(need):
            if domain_offer.domain not in used:
                yield domain_offer

    def _is_new(self, *at: object) -> bool:
        """Return whether this is the first visit to ``at`` with the GPUs that are taken now."""
        taken = ((domain, tuple(self.left[domain])) for domain, count in self.used.items() if count)
        state = (*at, tuple(sorted(taken)))
        if state in self.entered:
            return False
        self.entered.add(state)
        return True
