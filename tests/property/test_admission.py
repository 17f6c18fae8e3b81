"""Admission, compared with an oracle that tries every placement with every payment."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from quorate.core.admission.admit import Admitted, admit, try_admit
from quorate.core.admission.bind import bind
from quorate.core.admission.hard_quota import HARD
from quorate.core.admission.holds import hold_duration_ms
from quorate.core.admission.search_budget import SearchBudget
from quorate.core.planning.start_now import can_carry
from quorate.core.profile.firm_places import payers_of
from quorate.model.amounts import HOUR_MS
from quorate.model.refusal import Refusal, RefusalCode
from quorate.model.specs import Budget, Malleable, Owner, Placement, Pool, Run
from quorate.model.state.free_slots import ordinals
from quorate.model.state.state import State
from quorate.testing.builders import NOW_MS
from quorate.testing.builders import run as run_of
from tests.oracles.admitting import Job, Start, starts
from tests.oracles.choosing import chooser
from tests.oracles.effort import examples
from tests.oracles.packing import on_nodes
from tests.oracles.paying import Bank, Purchase, Use
from tests.oracles.worlds import (
    FLAVORS,
    Fleet,
    ask_of,
    bank_of,
    choose_budgets,
    choose_family,
    choose_fleet,
    choose_funding,
    choose_selector,
    choose_uses,
    state_of,
)


@dataclass(frozen=True)
class Question:
    """A run to admit in a small world."""

    fleet: Fleet
    pool: Pool
    owners: dict[str, Owner]
    money: tuple[Budget, ...]
    used: tuple[Use, ...]
    run: Run

    def answer(self) -> Start | None:
        """Return the answer of the oracle."""
        run = self.run
        purchase = Purchase(
            run.owner,
            "",
            NOW_MS,
            hold_duration_ms(run, self.pool),
            run.funding.allow_borrow,
            run.funding.borrow_gpus_max,
            run.funding.sponsors,
        )
        widths = [run.gpus]
        if run.malleable is not None:
            low, step = run.malleable.gpus_min, run.malleable.gpus_step
            widths = [w for w in range(run.gpus, 0, -1) if w >= low and (w - low) % step == 0]
        job = Job(tuple((w, ask_of(run, self.pool, w)) for w in widths), run.flavors, purchase)
        machines = {flavor: self.fleet.machines(flavor) for flavor in FLAVORS}
        return next(starts(machines, self.bank, job), None)

    @property
    def bank(self) -> Bank:
        return bank_of(self.owners, self.money, self.used)


@st.composite
def questions(draw: st.DrawFn, *, racks: bool = False) -> Question:
    choose = chooser(draw)
    owners = choose_family(choose, most=3)
    money = choose_budgets(choose, owners, most=2, gpus=5, racks=racks)
    malleable = None
    gpus = choose.number(1, 6)
    if choose.flip():
        step, low = choose.number(1, 2), choose.number(1, 3)
        gpus = low + choose.number(0, 2) * step
        malleable = Malleable(gpus_min=low, gpus_max=gpus, gpus_step=step, gpus_desired=gpus)
    run = run_of(
        "run",
        gpus,
        choose.one_of(sorted(owners)),
        flavors=choose.one_of([("H100",), ("H100", "A100"), ("A100", "H100")]),
        malleable=malleable,
        group_gpus=choose.maybe(1, 3),
        cross_group_spread=choose.number(0, 2) > 0,
        spares_per_group=choose.one_of([0, 0, 0, 1]),
        selector=choose_selector(choose) if choose.flip() else (),
        expected_duration_ms=choose.one_of([None, HOUR_MS // 2]),
        funding=choose_funding(choose, owners),
    )
    pool = Pool(
        name="default",
        placement=choose.one_of(list(Placement)),
        whole_nodes=choose.number(0, 3) == 1,
    )
    fleet = choose_fleet(choose, domains=3, nodes=2, gpus=3)
    return Question(fleet, pool, owners, money, choose_uses(choose, money), run)


def _check_tried(state: State, run: Run, answer: Admitted | Refusal) -> None:
    """Check that a start that is only tried is that of ``answer``, and needs what payers have."""
    steps = SearchBudget()
    tried = try_admit(state, run, NOW_MS, has_executor=False, steps=steps)
    if isinstance(answer, Admitted):
        assert tried == answer
        payers = (key for flavor in run.flavors for key in payers_of(state, run, flavor))
        assert can_carry(state, payers, run.widths()[-1])
    elif answer.code in HARD:
        assert tried == answer
    elif not steps.exhausted:
        assert tried is None


def _check(question: Question) -> None:
    """Check that the core and the oracle agree, and that the leases add up."""
    state = state_of(
        question.fleet,
        pool=question.pool,
        owners=question.owners.values(),
        money=question.money,
        used=question.used,
    )
    answer, expected = admit(state, question.run, NOW_MS), question.answer()
    _check_tried(state, question.run, answer)
    if expected is None:
        assert not isinstance(answer, Admitted), answer
        assert answer.code is not RefusalCode.SEARCH_LIMIT
        event(f"refused: {answer.code}")
        return
    assert isinstance(answer, Admitted), (answer, expected)
    assert (answer.width, answer.flavor) == (expected.width, expected.flavor)
    legs = [
        (answer.demands[leg.place][0].where, leg.payer, leg.tier, leg.gpus) for leg in answer.legs
    ]
    assert tuple(legs) == expected.cells
    event(f"admitted in {len({heap.domain for heap in expected.division})} domains")
    machines = question.fleet.machines(expected.flavor)
    groups = on_nodes(machines, expected.ask, expected.division)
    placed = [(g.bundle, g.domain, g.gpus) for g in answer.plan.groups]
    assert placed == [(g.bundle, g.domain, g.gpus) for g in groups]
    slots = [{n: set(ordinals(m)) for n, m in g.slots} for g in answer.plan.groups]
    assert slots == [g.slots for g in groups]
    spares = [{n: set(ordinals(m)) for n, m in g.spare_slots} for g in answer.plan.groups]
    assert spares == [g.spares for g in groups]
    _check_leases(question, answer)


def _check_leases(question: Question, answer: Admitted) -> None:
    """Check that the leases have exactly the slots of the plan and the GPUs of each payer."""
    drafts = bind(answer.plan, answer.demands, answer.legs)
    by_name = {node.name: node for node in question.fleet.nodes}
    left: dict[str, int] = {}
    for group in answer.plan.groups:
        for node, mask in (*group.slots, *group.spare_slots):
            left[node] = left.get(node, 0) | mask
    paid: dict[str, int] = {}
    for draft in drafts:
        selector = dict(question.bank.line(draft.payer)[1].selector)
        for node, mask in draft.slots:
            assert left[node] & mask == mask
            left[node] ^= mask
            paid[draft.payer] = paid.get(draft.payer, 0) + mask.bit_count()
            assert selector.get("rack") in (None, by_name[node].rack)
            assert selector.get("fabric.domain") in (None, by_name[node].domain)
    assert not any(left.values())
    wanted: dict[str, int] = {}
    for leg in answer.legs:
        wanted[leg.payer] = wanted.get(leg.payer, 0) + leg.gpus
    assert paid == wanted


@pytest.mark.heavy
@examples(6)
@given(questions())
def test_a_run_starts_exactly_when_some_placement_can_be_paid(question: Question) -> None:
    _check(question)


@pytest.mark.heavy
@examples(6)
@given(questions(racks=True))
def test_a_run_starts_exactly_when_some_rack_by_rack_placement_can_be_paid(
    question: Question,
) -> None:
    _check(question)
