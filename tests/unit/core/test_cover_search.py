"""Payment in many small worlds, compared with every division: separate and overlapping caps.

The worlds come from fixed seeds, and there are so many that a wrong step of the search would be
noticed; ``tests/property/test_cover.py`` draws fewer and more irregular ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from random import Random

import pytest

from quorate.core.admission.cover_search import PaymentSearch, pay, payable
from quorate.core.admission.payers import CoverRequest, Demand, PayerList, Place, family_payers
from quorate.core.admission.search_budget import SearchBudget
from quorate.core.admission.shortfall import explain_uncovered
from quorate.model.amounts import HOUR_MS
from quorate.model.specs import Cap, Envelope
from quorate.model.state.state import State
from quorate.testing.builders import NOW_MS, budget, envelope, world

PLACES = {name: {"region": "r", "cluster": "c", "fabric.domain": name} for name in "AB"}
REQUEST = CoverRequest(owner="team", flavor="H100", now_ms=NOW_MS, duration_ms=HOUR_MS)
WORLDS = 300


class Bill:
    """A few envelopes, some for one place only, under a few caps; and GPUs to pay in A and B."""

    def __init__(self, seed: int, *, overlapping: bool) -> None:
        chance = Random(seed)
        self.where = [chance.choice(["AB", "A", "B"]) for _ in range(3)]
        self.rooms = [chance.randint(1, 6) for _ in self.where]
        self.caps: list[tuple[int, frozenset[int]]] = []
        apart = [frozenset({0, 1})] if chance.random() < 0.7 else []
        for under in (
            [frozenset({0, 1}), frozenset({1, 2}), frozenset({0, 2})] if overlapping else apart
        ):
            self.caps.append((chance.randint(1, 7), under))
        self.wanted = [chance.randint(1, 6), chance.randint(1, 6)]

    def payer_list(self) -> PayerList:
        lines: list[Envelope] = []
        for number, (where, room) in enumerate(zip(self.where, self.rooms, strict=True)):
            one = (("fabric.domain", where),) if len(where) == 1 else ()
            lines.append(envelope(f"e{number}", room, selector=(("region", "r"), *one)))
        caps = [
            Cap(
                name=f"c{number}",
                flavor="H100",
                envelopes=tuple(f"e{each}" for each in sorted(under)),
                concurrency_max=most,
            )
            for number, (most, under) in enumerate(self.caps)
        ]
        state: State = world(budgets=[budget("b", "team", *lines, caps=caps)])
        return PayerList(state, REQUEST, family_payers(state, "team", "H100"))

    def demands(self) -> list[Demand]:
        return [
            (Place(name, PLACES[name]), gpus) for name, gpus in zip("AB", self.wanted, strict=True)
        ]

    def allows(self, paid: Sequence[int]) -> bool:
        """Return whether the envelopes and caps can pay these total amounts."""
        return all(gpus <= room for gpus, room in zip(paid, self.rooms, strict=True)) and all(
            sum(paid[each] for each in under) <= most for most, under in self.caps
        )

    def divisions(self) -> Iterator[list[int]]:
        """Yield every way to fill the cells, A's then B's, most from the first payer first."""
        for first in self._of("A", self.wanted[0]):
            if self.allows(first):
                for second in self._of("B", self.wanted[1]):
                    if self.allows([a + b for a, b in zip(first, second, strict=True)]):
                        yield [*first, *second]

    def _of(self, place: str, gpus: int) -> list[tuple[int, int, int]]:
        most = [gpus if place in where else 0 for where in self.where]
        return [
            (a, b, gpus - a - b)
            for a in range(min(most[0], gpus), -1, -1)
            for b in range(min(most[1], gpus - a), -1, -1)
            if gpus - a - b <= most[2]
        ]


def paid_by(bill: Bill, steps: SearchBudget) -> list[int] | None:
    payer_list = bill.payer_list()
    legs = pay(payer_list, bill.demands(), steps)
    assert not any(payer_list.taken.values())
    if legs is None:
        return None
    cells = [0] * 6
    for leg in legs:
        cells[3 * leg.place + int(leg.payer[-1])] += leg.gpus
    return cells


@pytest.mark.heavy
@pytest.mark.parametrize("overlapping", [False, True], ids=["apart", "overlapping"])
def test_the_first_division_that_can_be_paid_is_found(*, overlapping: bool) -> None:
    paid = 0
    for seed in range(WORLDS):
        bill, steps = Bill(seed, overlapping=overlapping), SearchBudget()
        expected = next(bill.divisions(), None)
        assert paid_by(bill, steps) == expected, seed
        assert not steps.exhausted, seed
        paid += expected is not None
    assert WORLDS // 10 < paid < WORLDS, paid


@pytest.mark.parametrize("overlapping", [False, True], ids=["apart", "overlapping"])
def test_a_search_that_finds_nothing_leaves_nothing_taken(*, overlapping: bool) -> None:
    failed = 0
    for seed in range(WORLDS):
        bill = Bill(seed, overlapping=overlapping)
        payer_list = bill.payer_list()
        search = PaymentSearch(payer_list, bill.demands(), SearchBudget())
        if search.run() is None:
            failed += 1
            assert (search.left, search.taken) == (bill.wanted, []), seed
            assert not any(payer_list.taken.values()), seed
    assert failed > WORLDS // 10


def test_without_overlapping_caps_the_search_never_turns_back() -> None:
    for seed in range(WORLDS):
        bill = Bill(seed, overlapping=False)
        search = PaymentSearch(bill.payer_list(), bill.demands(), SearchBudget())
        if search.run() is not None:
            assert search.by_bisection, seed
            assert len(search.dead_ends) < len(search.choices), seed


def test_what_was_paid_elsewhere_is_not_looked_at_twice() -> None:
    # Twelve rings of three envelopes, any two of which pay for one GPU: a ring seems to pay for
    # two.
    lines = [envelope(f"e{number:02d}", 1) for number in range(36)]
    caps = [
        Cap(
            name=f"c{ring}-{side}",
            flavor="H100",
            envelopes=(f"e{3 * ring + side:02d}", f"e{3 * ring + (side + 1) % 3:02d}"),
            concurrency_max=1,
        )
        for ring in range(12)
        for side in range(3)
    ]
    state = world(budgets=[budget("b", "team", *lines, caps=caps)])
    for gpus, is_paid in ((12, True), (13, False)):
        steps, payer_list = (
            SearchBudget(),
            PayerList(state, REQUEST, family_payers(state, "team", "H100")),
        )
        found = PaymentSearch(payer_list, [(Place("A", PLACES["A"]), gpus)], steps).run()
        assert (found is not None, steps.exhausted) == (is_paid, False)


@pytest.mark.heavy
def test_without_overlapping_caps_what_is_payable_is_the_most_that_can_be_paid() -> None:
    for seed in range(WORLDS):
        bill = Bill(seed, overlapping=False)
        found = payable(bill.payer_list(), bill.demands())
        best = (0, 0)
        wanted = list(bill.wanted)
        for a in range(wanted[0], -1, -1):
            for b in range(wanted[1], -1, -1):
                bill.wanted = [a, b]
                if next(bill.divisions(), None) is not None:
                    best = max(best, (a, b))
        assert tuple(found) == best, seed


def test_of_two_caps_over_the_same_payers_the_tighter_one_tells_what_is_payable() -> None:
    caps = [
        Cap(name=name, flavor="H100", envelopes=("e", "f"), concurrency_max=most)
        for name, most in (("loose", 7), ("tight", 2))
    ]
    state = world(budgets=[budget("b", "team", envelope("e", 8), envelope("f", 8), caps=caps)])
    payer_list = PayerList(state, REQUEST, family_payers(state, "team", "H100"))
    assert payable(payer_list, [(Place("A", PLACES["A"]), 8)]) == [2]


@pytest.mark.heavy
def test_what_overlapping_caps_leave_unpaid_is_told_to_the_gpu() -> None:
    told = 0
    for seed in range(WORLDS):
        bill = Bill(seed, overlapping=True)
        if paid_by(bill, SearchBudget()) is not None:
            continue
        refusal = explain_uncovered(bill.payer_list(), bill.demands(), SearchBudget())
        wanted, best = list(bill.wanted), (0, 0)
        if sum(payable(bill.payer_list(), bill.demands())) < sum(wanted):
            continue
        for a in range(wanted[0], -1, -1):
            for b in range(wanted[1], -1, -1):
                bill.wanted = [a, b]
                if next(bill.divisions(), None) is not None:
                    best = max(best, (a, b))
        assert refusal.short == sum(wanted) - sum(best), seed
        told += 1
    assert told
