"""Cover by brute force: every division of the demand among payers is tried, in order.

It shares no code with cover. Whenever a limit is checked, the use under it is added up again from
all leases.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from quorate.model.specs import Budget, Cap, Envelope, Owner
from tests.oracles.packing import selects

OWNED, SHARED, BORROWED = "owned", "shared", "borrowed"


@dataclass(frozen=True)
class Use:
    """What a lease takes from an envelope: GPUs now, and GPU-ms spent or held."""

    payer: str
    gpus: int
    gpu_ms: int
    lent: bool


@dataclass(frozen=True)
class Purchase:
    """A request for payment: the run's owner, the flavor, the time, the duration, and the terms."""

    owner: str
    flavor: str
    now_ms: int
    duration_ms: int
    borrows: bool = False
    borrow_max: int | None = None
    sponsors: tuple[str, ...] = ()


@dataclass
class Bank:
    """Owners, budgets, and all uses of the budgets' envelopes."""

    owners: Mapping[str, Owner]
    budgets: Sequence[Budget]
    uses: list[Use] = field(default_factory=list)

    def lines(self) -> Iterator[tuple[str, Budget, Envelope]]:
        """Yield every envelope, by budget name, then envelope name."""
        for budget in sorted(self.budgets, key=lambda b: b.name):
            for envelope in sorted(budget.envelopes, key=lambda e: e.name):
                yield f"{budget.name}/{envelope.name}", budget, envelope

    def line(self, key: str) -> tuple[Budget, Envelope]:
        """Return the envelope with the name ``key``."""
        return next((b, e) for k, b, e in self.lines() if k == key)


Payer = tuple[str, str]
"""(envelope, tier)."""


def family(bank: Bank, purchase: Purchase) -> list[Payer]:
    """Return the payers of the family: own envelopes, then those of siblings and parents."""
    parents = set(bank.owners[purchase.owner].parents)
    siblings = {o.name for o in bank.owners.values() if parents & set(o.parents)}
    siblings -= {purchase.owner}
    found: list[Payer] = []
    for whose, tier in (({purchase.owner}, OWNED), (siblings, SHARED), (parents, SHARED)):
        for key, budget, envelope in bank.lines():
            if envelope.flavor != purchase.flavor or budget.owner not in whose:
                continue
            if tier is SHARED and envelope.sharing != "family":
                continue
            if key not in [known for known, _ in found]:
                found.append((key, tier))
    return found


def sponsors(bank: Bank, purchase: Purchase) -> list[Payer]:
    """Return the possible lenders: the listed sponsors in that order, or all lenders by name."""
    if not purchase.borrows:
        return []
    known = {key for key, _ in family(bank, purchase)}
    whose = purchase.sponsors or tuple(sorted(bank.owners))
    return [
        (key, BORROWED)
        for sponsor in whose
        for key, budget, envelope in bank.lines()
        if budget.owner == sponsor != purchase.owner
        and envelope.flavor == purchase.flavor
        and key not in known
        and _lends(envelope, purchase.owner)
    ]


def _lends(envelope: Envelope, borrower: str) -> bool:
    lending = envelope.lending
    if not lending.allow:
        return False
    return not lending.to or any(
        name == borrower or (name.endswith("*") and borrower.startswith(name[:-1]))
        for name in lending.to
    )


def phases(bank: Bank, purchase: Purchase) -> list[list[Payer]]:
    """Return the payers that are tried: first the family, then the family with sponsors."""
    own, lenders = family(bank, purchase), sponsors(bank, purchase)
    return [own, own + lenders] if lenders else [own]


Demand = tuple[Mapping[str, str], int]
"""Labels of a place, and GPUs there."""

Cell = tuple[int, str, str, int]
"""(demand, payer, tier, GPUs)."""


def hold_ms(bank: Bank, purchase: Purchase, key: str) -> int:
    """Return for how long a hold on the envelope ``key`` pays for each GPU."""
    return min(purchase.duration_ms, bank.line(key)[1].end_ms - purchase.now_ms)


def allowed(bank: Bank, purchase: Purchase, cells: Sequence[Cell]) -> bool:
    """Return whether all limits are kept if all ``cells`` are paid."""
    borrowed = sum(gpus for *_, tier, gpus in cells if tier == BORROWED)
    if purchase.borrow_max is not None and borrowed > purchase.borrow_max:
        return False
    new = [
        Use(key, gpus, gpus * hold_ms(bank, purchase, key), tier == BORROWED)
        for _, key, tier, gpus in cells
        if gpus
    ]
    touched = {use.payer for use in new}
    uses = [*bank.uses, *new]
    for key in touched:
        budget, envelope = bank.line(key)
        mine = [use for use in uses if use.payer == key]
        if not _envelope_holds(
            purchase, envelope, mine, lends=any(u.lent for u in new if u.payer == key)
        ):
            return False
        for cap in budget.caps:
            if envelope.name in cap.envelopes and not _cap_holds(budget, cap, uses):
                return False
    return True


def _envelope_holds(
    purchase: Purchase, envelope: Envelope, uses: list[Use], *, lends: bool
) -> bool:
    if purchase.now_ms >= envelope.end_ms:
        return False
    if purchase.now_ms < envelope.start_ms and not envelope.allow_admission:
        return False
    granted = envelope.gpu_ms_max
    if granted is None:
        granted = envelope.concurrency * (envelope.end_ms - envelope.start_ms)
    lending, lent = envelope.lending, [use for use in uses if use.lent]
    limits: list[tuple[list[Use], int | None, int | None]] = [(uses, envelope.concurrency, granted)]
    if lends:
        limits.append((lent, lending.concurrency_max, lending.gpu_ms_max))
    return all(_within(counted, gpus, gpu_ms) for counted, gpus, gpu_ms in limits)


def _cap_holds(budget: Budget, cap: Cap, uses: list[Use]) -> bool:
    keys = {f"{budget.name}/{name}" for name in cap.envelopes}
    return _within([use for use in uses if use.payer in keys], cap.concurrency_max, cap.gpu_ms_max)


def _within(uses: list[Use], gpus: int | None, gpu_ms: int | None) -> bool:
    return (gpus is None or sum(use.gpus for use in uses) <= gpus) and (
        gpu_ms is None or sum(use.gpu_ms for use in uses) <= gpu_ms
    )


def payments(
    bank: Bank, purchase: Purchase, payers: Sequence[Payer], demands: Sequence[Demand]
) -> Iterator[tuple[Cell, ...]]:
    """Yield every complete payment in lexicographic order: the most from the first payer first."""
    table = [
        (index, key, tier)
        for index, (labels, _) in enumerate(demands)
        for key, tier in payers
        if selects(bank.line(key)[1].selector, labels)
    ]
    yield from _fill(bank, purchase, table, [gpus for _, gpus in demands], ())


def _fill(
    bank: Bank,
    purchase: Purchase,
    table: list[tuple[int, str, str]],
    left: list[int],
    done: tuple[Cell, ...],
) -> Iterator[tuple[Cell, ...]]:
    if not any(left):
        yield done
        return
    if not table or any(left[index] for index in range(table[0][0])):
        return
    (index, key, tier), rest = table[0], table[1:]
    for gpus in range(left[index], -1, -1):
        cells = (*done, (index, key, tier, gpus)) if gpus else done
        if gpus and not allowed(bank, purchase, cells):
            continue
        left[index] -= gpus
        yield from _fill(bank, purchase, rest, left, cells)
        left[index] += gpus


def first_payment(
    bank: Bank, purchase: Purchase, demands: Sequence[Demand]
) -> tuple[Cell, ...] | None:
    """Return the payment of ``demands``: by the family if possible, otherwise with sponsors."""
    for payers in phases(bank, purchase):
        found = next(payments(bank, purchase, payers, demands), None)
        if found is not None:
            return found
    return None


def most_payable(bank: Bank, purchase: Purchase, demands: Sequence[Demand]) -> int:
    """Return how many GPUs of ``demands`` can be paid for at most, by all payers."""
    wanted = sum(gpus for _, gpus in demands)
    payers = phases(bank, purchase)[-1]
    for total in range(wanted, 0, -1):
        for part in _parts([gpus for _, gpus in demands], total):
            asked = [(labels, gpus) for (labels, _), gpus in zip(demands, part, strict=True)]
            if next(payments(bank, purchase, payers, asked), None) is not None:
                return total
    return 0


def _parts(most: list[int], total: int) -> Iterator[list[int]]:
    if not most:
        if total == 0:
            yield []
        return
    for here in range(min(most[0], total), -1, -1):
        for rest in _parts(most[1:], total - here):
            yield [here, *rest]
