"""Pack, compared with an oracle that lists every division: same answer, order and slots."""

from __future__ import annotations

import pytest
from hypothesis import assume, event, given
from hypothesis import strategies as st

from quorate.core.admission.layout import PackRequest, pack_request
from quorate.core.admission.pack import PackPlan, pack_gang, residual
from quorate.model.events import Slots
from quorate.model.refusal import RefusalCode
from quorate.model.specs import Malleable, Placement, Pool, Run
from quorate.model.state.free_slots import ordinals
from quorate.testing.builders import run as run_of
from tests.oracles.choosing import chooser
from tests.oracles.effort import examples
from tests.oracles.packing import Ask, Group, Machine, divisions, lot_of, on_nodes, usable
from tests.oracles.worlds import Fleet, ask_of, choose_selector, fleets, state_of


@st.composite
def pools(draw: st.DrawFn) -> Pool:
    choose = chooser(draw)
    return Pool(
        name="default",
        placement=choose.one_of(list(Placement)),
        whole_nodes=choose.number(0, 3) == 1,
    )


@st.composite
def runs(
    draw: st.DrawFn,
    *,
    anywhere: bool = False,
    fixed: bool = False,
    spares: tuple[int, ...] = (0, 0, 0, 1, 2),
    gpus: tuple[int, int] = (1, 14),
) -> Run:
    """Draw a run of any shape that pack distinguishes."""
    choose = chooser(draw)
    malleable = None
    width = choose.number(*gpus)
    if not fixed and choose.flip():
        step, low, steps = choose.number(1, 4), choose.number(1, 5), choose.number(0, 3)
        width = low + steps * step
        malleable = Malleable(gpus_min=low, gpus_max=width, gpus_step=step, gpus_desired=width)
    return run_of(
        "r",
        width,
        malleable=malleable,
        group_gpus=choose.maybe(1, 5),
        cross_group_spread=choose.number(0, 2) > 0,
        spares_per_group=choose.one_of(spares),
        selector=() if anywhere else choose_selector(choose),
    )


def _request(run: Run, pool: Pool) -> PackRequest:
    return pack_request(run, pool, "H100", run.gpus)


def _counts(slots: Slots) -> dict[str, set[int]]:
    return {node: set(ordinals(mask)) for node, mask in slots}


def _groups(plan: PackPlan) -> list[Group]:
    return [
        Group(g.bundle, g.domain, g.gpus, _counts(g.slots), _counts(g.spare_slots))
        for g in plan.groups
    ]


@pytest.mark.heavy
@examples(10)
@given(fleets(), pools(), runs())
def test_pack_finds_the_first_division_exactly_when_there_is_one(
    fleet: Fleet, pool: Pool, run: Run
) -> None:
    state, ask = state_of(fleet, pool=pool), ask_of(run, pool, run.gpus)
    machines = fleet.machines("H100")
    plan = pack_gang(state, _request(run, pool))
    expected = next(divisions(machines, ask), None)
    if expected is None:
        event("refused")
        assert not isinstance(plan, PackPlan)
        assert plan.code is not RefusalCode.SEARCH_LIMIT
        return
    assert isinstance(plan, PackPlan), plan
    event(f"placed in {len({heap.domain for heap in expected})} domains")
    assert _groups(plan) == on_nodes(machines, ask, expected)
    _check_plan(machines, ask, plan)


def _check_plan(machines: list[Machine], ask: Ask, plan: PackPlan) -> None:
    """Check that the plan is possible, whatever its order."""
    by_name = {m.name: m for m in usable(machines, ask)}
    left = {name: set(m.free) for name, m in by_name.items()}
    for group in plan.groups:
        assert sum(mask.bit_count() for _, mask in group.slots) == group.gpus
        assert sum(mask.bit_count() for _, mask in group.spare_slots) == ask.spares
        for slots in (group.slots, group.spare_slots):
            assert len({node for node, _ in slots}) == len(slots)
            for node, mask in slots:
                assert by_name[node].domain == group.domain
                assert set(ordinals(mask)) <= left[node]
                left[node] -= set(ordinals(mask))
    assert [g.index for g in plan.groups] == list(range(len(plan.groups)))
    for bundle, gpus in enumerate(ask.bundles):
        sizes = [g.gpus for g in plan.groups if g.bundle == bundle]
        assert sum(sizes) == gpus
        if ask.group is not None:
            assert sizes == [ask.group] * (gpus // ask.group) + [gpus % ask.group] * (
                gpus % ask.group > 0
            )
    if ask.one_domain:
        assert len({g.domain for g in plan.groups}) == 1
    if ask.whole_nodes:
        assert all(not left[name] or len(left[name]) == m.size for name, m in by_name.items())


@pytest.mark.heavy
@examples(3)
@given(fleets(flavors=1), runs(anywhere=True))
def test_tight_uses_the_least_free_domain_that_holds_the_run(fleet: Fleet, run: Run) -> None:
    pool = Pool(name="default", placement=Placement.TIGHT)
    machines = fleet.machines("H100")
    free: dict[str, int] = {}
    for machine in machines:
        free[machine.domain] = free.get(machine.domain, 0) + len(machine.free)
    ask = ask_of(run, pool, run.gpus)
    groups = sum(-(-gpus // ask.group) if ask.group else 1 for gpus in ask.bundles)
    need = run.gpus + groups * run.spares_per_group
    holding = [domain for domain, gpus in free.items() if gpus >= need]
    plan = pack_gang(state_of(fleet, pool=pool), _request(run, pool))
    if not holding:
        assert not isinstance(plan, PackPlan) or len({g.domain for g in plan.groups}) > 1
        return
    assert isinstance(plan, PackPlan)
    assert {g.domain for g in plan.groups} == {min(holding, key=lambda d: (free[d], d))}


@pytest.mark.heavy
@examples(3)
@given(fleets(flavors=1), st.integers(1, 8))
def test_tight_breaks_an_untouched_node_only_when_no_other_holds_the_remainder(
    fleet: Fleet, gpus: int
) -> None:
    pool = Pool(name="default", placement=Placement.TIGHT)
    run = run_of("r", gpus)
    plan = pack_gang(state_of(fleet, pool=pool), _request(run, pool))
    assume(isinstance(plan, PackPlan))
    assert isinstance(plan, PackPlan)
    machines = {m.name: m for m in fleet.machines("H100")}
    for group in plan.groups:
        for node, mask in group.slots:
            broken = machines[node]
            took = mask.bit_count()
            if len(broken.free) < broken.size or took == broken.size:
                continue
            others = [
                m
                for m in machines.values()
                if m.domain == broken.domain
                and took <= len(m.free) < m.size
                and m.name not in dict(group.slots)
            ]
            assert others == []


@pytest.mark.heavy
@given(
    fleets(flavors=1), runs(anywhere=True, spares=(1, 2), gpus=(1, 6)), st.sampled_from(Placement)
)
def test_spares_are_off_their_groups_nodes_whenever_the_domain_has_room(
    fleet: Fleet, run: Run, placement: Placement
) -> None:
    pool = Pool(name="default", placement=placement)
    plan = pack_gang(state_of(fleet, pool=pool), _request(run, pool))
    assume(isinstance(plan, PackPlan))
    assert isinstance(plan, PackPlan)
    left = {m.name: len(m.free) for m in fleet.machines("H100")}
    domain = {m.name: m.domain for m in fleet.machines("H100")}
    for group in plan.groups:
        for node, mask in group.slots:
            left[node] -= mask.bit_count()
    for group in plan.groups:
        working = {node for node, _ in group.slots}
        elsewhere = sum(
            gpus
            for node, gpus in left.items()
            if domain[node] == group.domain and node not in working
        )
        off = sum(mask.bit_count() for node, mask in group.spare_slots if node not in working)
        assert off == min(run.spares_per_group, elsewhere)
        for node, mask in group.spare_slots:
            left[node] -= mask.bit_count()


@pytest.mark.heavy
@given(fleets(), pools(), runs())
def test_residual_is_what_is_free_after_the_plan(fleet: Fleet, pool: Pool, run: Run) -> None:
    state = state_of(fleet, pool=pool)
    request = _request(run, pool)
    plan = pack_gang(state, request)
    assume(isinstance(plan, PackPlan))
    assert isinstance(plan, PackPlan)
    expected: dict[str, int] = {}
    for machine in fleet.machines("H100"):
        expected[machine.domain] = expected.get(machine.domain, 0) + len(machine.free)
    for group in plan.groups:
        expected[group.domain] -= group.gpus + run.spares_per_group
    assert residual(state, request, plan) == expected


@pytest.mark.heavy
@given(fleets(flavors=1), runs(anywhere=True, fixed=True, gpus=(6, 24)), st.sampled_from(Placement))
def test_a_refusal_says_by_how_much_the_nodes_are_short(
    fleet: Fleet, run: Run, placement: Placement
) -> None:
    pool = Pool(name="default", placement=placement)
    answer = pack_gang(state_of(fleet, pool=pool), _request(run, pool))
    assume(not isinstance(answer, PackPlan))
    assert not isinstance(answer, PackPlan)
    assert answer.short == sum(s.short for s in answer.shortages) > 0
    assert answer.wanted == sum(s.wanted for s in answer.shortages)
    free: dict[str, int] = {}
    for machine in fleet.machines("H100"):
        free[machine.domain] = free.get(machine.domain, 0) + len(machine.free)
    for shortage in answer.shortages:
        assert shortage.available == free[shortage.where]


def test_lots_are_what_the_oracle_calls_lots() -> None:
    machine = Machine("n", "r/c/A", (("rack", "r1"),), "r1", 4, frozenset(range(4)))
    assert lot_of(machine, Ask((1,))) == ("", 1)
    assert lot_of(machine, Ask((1,), by_rack=True, whole_nodes=True)) == ("r1", 4)
