"""The statement of a period: the granted, spent, held and free amount of each envelope.

The statement also lists the usage of each borrower in the period, and the lent and borrowed
amounts. There is one sum for each budget, one for each owner, and a total. A statement counts only
events that were recorded by the end of its period, so the same statement made later has the same
amounts. An event that is recorded late appears in the statement of the period in which it was
recorded. There, the event corrects the amount that is brought forward from earlier periods.

The cost of each use of an envelope is rounded once, to millionths of the unit of currency. Every
other cost is a sum of these rounded costs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from quorate.core.accounting.charge_book import ChargeBook, Use
from quorate.model.amounts import HOUR_MS, nearest, parts_that_add_up
from quorate.model.events import Event, Tier
from quorate.model.specs import EnvelopeId
from quorate.model.state.records import EnvelopeAccount
from quorate.model.state.state_view import StateView

Prices = Mapping[str, int]
"""Flavor -> price of a GPU-hour, in millionths of the unit of currency."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Used:
    """The GPU time of one envelope that one user's runs used in the period.

    ``cost_micros`` is None if the flavor has no price.
    """

    owner: str
    user: str
    tier: Tier
    flavor: str
    gpu_ms: int
    cost_micros: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One envelope of a statement.

    A ``retired`` envelope is no longer in its budget; its granted amount is the amount that it has
    spent and holds. ``brought_gpu_ms`` is the amount that was spent before the period.
    """

    envelope: EnvelopeId
    budget: str
    owner: str
    flavor: str
    retired: bool
    granted_gpu_ms: int
    brought_gpu_ms: int
    held_gpu_ms: int
    used: tuple[Used, ...]

    @property
    def period_gpu_ms(self) -> int:
        """The GPU-milliseconds spent in the period."""
        return sum(used.gpu_ms for used in self.used)

    @property
    def spent_gpu_ms(self) -> int:
        """The GPU-milliseconds spent up to the end of the period."""
        return self.brought_gpu_ms + self.period_gpu_ms

    @property
    def free_gpu_ms(self) -> int:
        """The granted GPU-milliseconds that are neither spent nor held."""
        return self.granted_gpu_ms - self.spent_gpu_ms - self.held_gpu_ms

    @property
    def cost_micros(self) -> int | None:
        """The cost of the period's GPU time on flavors with a price.

        The value is None if no GPU time was used on such flavors.
        """
        return _cost(self.used)

    @property
    def lent(self) -> tuple[tuple[str, int], ...]:
        """(owner, GPU-ms) for each owner that borrowed in the period, in the order of the names."""
        found: dict[str, int] = {}
        for used in self.used:
            if used.tier is Tier.BORROWED:
                found[used.owner] = found.get(used.owner, 0) + used.gpu_ms
        return tuple(sorted(found.items()))

    @property
    def lent_gpu_ms(self) -> int:
        """The GPU-milliseconds lent in the period."""
        return sum(gpu_ms for _, gpu_ms in self.lent)


@dataclass(frozen=True, slots=True, kw_only=True)
class Borrowing:
    """The GPU time that runs of ``borrower`` used in the period from an envelope of ``lender``."""

    borrower: str
    lender: str
    envelope: EnvelopeId
    gpu_ms: int
    cost_micros: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Sums:
    """Sums of statement lines. The granted amount is always spent + held + free.

    ``borrowed_gpu_ms`` is zero for a budget, because other budgets pay for borrowed GPUs.
    """

    name: str
    granted_gpu_ms: int
    spent_gpu_ms: int
    held_gpu_ms: int
    free_gpu_ms: int
    period_gpu_ms: int
    lent_gpu_ms: int
    borrowed_gpu_ms: int
    cost_micros: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """The statement of the period [``from_ms``, ``until_ms``): its lines, sorted by name, and sums.

    ``unpriced`` lists the used flavors that have no price, or is empty if no flavor at all has a
    price.
    """

    from_ms: int
    until_ms: int
    lines: tuple[Line, ...]
    borrowings: tuple[Borrowing, ...]
    budgets: tuple[Sums, ...]
    owners: tuple[Sums, ...]
    total: Sums
    unpriced: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """The request for a statement of a period, with the prices of flavors.

    ``budget`` or ``owner`` limits the statement to one budget or to one owner. ``owners`` are the
    owners whose money the caller may see; None means all owners.
    """

    from_ms: int
    until_ms: int
    budget: str | None = None
    owner: str | None = None
    owners: frozenset[str] | None = None
    prices: Prices = field(default_factory=dict)

    def takes(self, line: Line) -> bool:
        """Return whether ``line`` is part of the statement."""
        return self.budget in (None, line.budget) and self._takes_owner(line.owner)

    def takes_borrower(self, borrower: str) -> bool:
        """Return whether the statement lists what ``borrower`` borrowed.

        The statement of one budget lists no borrowing.
        """
        return self.budget is None and self._takes_owner(borrower)

    def _takes_owner(self, name: str) -> bool:
        return self.owner in (None, name) and (self.owners is None or name in self.owners)


def make_statement(events: Iterable[Event], view: StateView, asked: Asked) -> Statement:
    """Return the statement that ``asked`` describes.

    ``events`` are all events of the ledger up to the end of the period, and ``view`` is the state
    after these events. The running time grows with the number of events, and the memory grows with
    the number of open leases.
    """
    book = ChargeBook(from_ms=asked.from_ms, until_ms=asked.until_ms)
    book.fold_all(events)
    before, since = book.charged()
    lines = tuple(
        _line(account, before.get(key, 0), since.get(key, {}), asked.prices)
        for key, account in sorted(view.envelopes.items())
        if not account.retired or account.committed_gpu_ms
    )
    borrowings = tuple(each for each in _borrowings(lines) if asked.takes_borrower(each.borrower))
    stated = tuple(line for line in lines if asked.takes(line))
    return add_up(
        stated,
        borrowings,
        from_ms=asked.from_ms,
        until_ms=asked.until_ms,
        unpriced=_unpriced(stated, asked.prices),
    )


def add_up(
    lines: tuple[Line, ...],
    borrowings: tuple[Borrowing, ...],
    *,
    from_ms: int,
    until_ms: int,
    unpriced: tuple[str, ...] = (),
) -> Statement:
    """Return the statement of ``lines`` and ``borrowings``, with their sums."""
    return Statement(
        from_ms=from_ms,
        until_ms=until_ms,
        lines=lines,
        borrowings=borrowings,
        budgets=_by_budget(lines),
        owners=_by_owner(lines, borrowings),
        total=_sums("total", lines, borrowings),
        unpriced=unpriced,
    )


def rounded(found: Statement, *, gpu_ms: int, micros: int) -> Statement:
    """Return ``found`` with times in multiples of ``gpu_ms`` and costs in multiples of ``micros``.

    The granted amount of each line is rounded to the nearest multiple, halves up. The parts of the
    granted amount are first rounded down. Then the parts with the largest remainders are raised by
    one multiple each, until the parts sum to the granted amount. Every sum of the statement adds
    rounded parts, so all numbers add up.
    """
    lines = tuple(_rounded_line(line, gpu_ms, micros) for line in found.lines)
    shown = {(each.borrower, each.envelope): each for each in _borrowings(lines)}
    borrowings = tuple(
        shown.get((each.borrower, each.envelope))
        or replace(
            each,
            gpu_ms=nearest(each.gpu_ms, gpu_ms),
            cost_micros=None if each.cost_micros is None else nearest(each.cost_micros, micros),
        )
        for each in found.borrowings
    )
    return add_up(
        lines,
        borrowings,
        from_ms=found.from_ms,
        until_ms=found.until_ms,
        unpriced=found.unpriced,
    )


def _rounded_line(line: Line, gpu_ms: int, micros: int) -> Line:
    amounts = [used.gpu_ms for used in line.used]
    parts = [line.brought_gpu_ms, line.held_gpu_ms, line.free_gpu_ms, *amounts]
    brought, held, _, *amounts = parts_that_add_up(parts, gpu_ms)
    priced = [used.cost_micros for used in line.used if used.cost_micros is not None]
    costs = iter(parts_that_add_up(priced, micros))
    return replace(
        line,
        granted_gpu_ms=nearest(line.granted_gpu_ms, gpu_ms),
        brought_gpu_ms=brought,
        held_gpu_ms=held,
        used=tuple(
            replace(
                used, gpu_ms=amount, cost_micros=None if used.cost_micros is None else next(costs)
            )
            for used, amount in zip(line.used, amounts, strict=True)
        ),
    )


def cost_micros(gpu_ms: int, micros_per_hour: int) -> int:
    """Return the cost of ``gpu_ms``, rounded to a whole number of millionths of the currency."""
    return (2 * gpu_ms * micros_per_hour + HOUR_MS) // (2 * HOUR_MS)


def _line(
    account: EnvelopeAccount, before_gpu_ms: int, since: Mapping[Use, int], prices: Prices
) -> Line:
    used = tuple(
        Used(
            owner=use.owner,
            user=use.user,
            tier=use.tier,
            flavor=use.flavor,
            gpu_ms=gpu_ms,
            cost_micros=(cost_micros(gpu_ms, prices[use.flavor]) if use.flavor in prices else None),
        )
        for use, gpu_ms in sorted(since.items())
    )
    spent = before_gpu_ms + sum(since.values())
    committed = account.committed_gpu_ms
    return Line(
        envelope=account.envelope_id,
        budget=account.budget,
        owner=account.owner,
        flavor=account.spec.flavor,
        retired=account.retired,
        granted_gpu_ms=committed if account.retired else account.spec.gpu_ms_granted,
        brought_gpu_ms=before_gpu_ms,
        held_gpu_ms=committed - spent,
        used=used,
    )


def _borrowings(lines: Sequence[Line]) -> list[Borrowing]:
    """Return what was borrowed from the envelopes of ``lines``, sorted by borrower."""
    uses: dict[tuple[str, str, EnvelopeId], list[Used]] = {}
    for line in lines:
        for used in line.used:
            if used.tier is Tier.BORROWED:
                uses.setdefault((used.owner, line.owner, line.envelope), []).append(used)
    return [
        Borrowing(
            borrower=borrower,
            lender=lender,
            envelope=envelope,
            gpu_ms=sum(used.gpu_ms for used in parts),
            cost_micros=_cost(parts),
        )
        for (borrower, lender, envelope), parts in sorted(uses.items())
    ]


def _cost(parts: Iterable[Used]) -> int | None:
    """Return the total cost of the parts that have a price; None if no part has one."""
    costs = [used.cost_micros for used in parts if used.cost_micros is not None]
    return sum(costs) if costs else None


def _by_budget(lines: Sequence[Line]) -> tuple[Sums, ...]:
    names = sorted({line.budget for line in lines})
    return tuple(_sums(name, [line for line in lines if line.budget == name], ()) for name in names)


def _by_owner(lines: Sequence[Line], borrowings: Sequence[Borrowing]) -> tuple[Sums, ...]:
    """Return the sums of every owner that has an envelope or borrowed from one."""
    names = {line.owner for line in lines} | {each.borrower for each in borrowings}
    return tuple(
        _sums(
            name,
            [line for line in lines if line.owner == name],
            [each for each in borrowings if each.borrower == name],
        )
        for name in sorted(names)
    )


def _sums(name: str, lines: Sequence[Line], borrowings: Sequence[Borrowing]) -> Sums:
    sums = Sums(
        name=name,
        granted_gpu_ms=sum(line.granted_gpu_ms for line in lines),
        spent_gpu_ms=sum(line.spent_gpu_ms for line in lines),
        held_gpu_ms=sum(line.held_gpu_ms for line in lines),
        free_gpu_ms=sum(line.free_gpu_ms for line in lines),
        period_gpu_ms=sum(line.period_gpu_ms for line in lines),
        lent_gpu_ms=sum(line.lent_gpu_ms for line in lines),
        borrowed_gpu_ms=sum(each.gpu_ms for each in borrowings),
        cost_micros=_cost(used for line in lines for used in line.used),
    )
    assert sums.granted_gpu_ms == sums.spent_gpu_ms + sums.held_gpu_ms + sums.free_gpu_ms, sums
    return sums


def _unpriced(lines: Sequence[Line], prices: Prices) -> tuple[str, ...]:
    used = {each.flavor for line in lines for each in line.used}
    return tuple(sorted(used - prices.keys())) if prices else ()
