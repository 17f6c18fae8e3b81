"""Starts that counting cannot find: of runs in racks or under a quota of shared nodes."""

from __future__ import annotations

from random import Random

import pytest

from quorate.core.commands import (
    Apply,
    Complete,
    MarkNode,
    Removable,
    Remove,
    Reported,
    Submit,
    Tick,
)
from quorate.core.planning.expected_states import ExpectedStates
from quorate.core.profile.firm_places import firm_profile
from quorate.model.amounts import HOUR_MS, MINUTE_MS
from quorate.model.events import MoveCause, MoveCode, NodeStatus
from quorate.model.specs import Malleable, OnQuota, Owner, Quota
from quorate.model.state.records import Phase
from quorate.testing.builders import NOW_MS, budget, envelope, node
from tests.oracles.lives import Life
from tests.oracles.plans import (
    alone,
    clashes,
    firm_ms,
    marked,
    moves,
    of,
    planned_life,
    quiet_pool,
    tick_until,
)


def fragmented(nodes: int) -> Life:
    """Return a ledger in which each of ``nodes`` nodes has eight runs that end one after another.

    Owner two may hold one node at a time.
    """
    life = planned_life(
        nodes=[node(f"n{number}") for number in range(nodes)],
        owners=[Owner(name="two", quota=Quota(nodes_max=1))],
    )
    for place in range(nodes):
        for slot in range(8):
            life.do(Submit(of(f"s{place}-{slot}", 1, "one", 60 + slot * nodes + place)))
    return life


@pytest.mark.heavy
@pytest.mark.parametrize("nodes", [2, 5])
def test_a_run_that_needs_one_whole_node_gets_the_start_at_which_the_first_is_empty(
    nodes: int,
) -> None:
    life = fragmented(nodes)
    life.do(Submit(of("wide", 8, "two", 60, on_quota=OnQuota.WAIT)))
    assert firm_ms(life, "wide") == NOW_MS + (60 + 7 * nodes) * MINUTE_MS


@pytest.mark.heavy
@pytest.mark.parametrize("others", [10, 24])
def test_a_run_in_one_rack_is_planned_however_many_leases_end_in_others(others: int) -> None:
    racks = [node("r0", 8, rack="k0"), *(node(f"q{n}", 8, rack="k1") for n in range(4))]
    life = planned_life(nodes=racks)
    life.do(Submit(of("last", 8, "one", 600, selector=(("rack", "k0"),))))
    for number in range(others):
        life.do(Submit(of(f"s{number}", 1, "one", 60 + number, selector=(("rack", "k1"),))))
    life.do(Submit(of("racked", 8, "two", 60, selector=(("rack", "k0"),))))
    assert firm_ms(life, "racked") == NOW_MS + 600 * MINUTE_MS


@pytest.mark.heavy
def test_a_state_made_from_an_earlier_one_starts_what_one_made_anew_does() -> None:
    life = fragmented(3)
    life.do(Submit(of("wide", 8, "two", 60, on_quota=OnQuota.WAIT)))
    profile = firm_profile(life.state, life.now_ms)
    kept, chance, starts = ExpectedStates(profile), Random(1), set[bool]()
    for _ in range(40):
        at_ms = NOW_MS + chance.randrange(60, 90) * MINUTE_MS
        run = of("probe", chance.choice((1, 4, 8, 16)), chance.choice(("one", "two")))
        found = kept.would_start(run, at_ms, has_executor=False)
        assert found == ExpectedStates(profile).would_start(run, at_ms, has_executor=False)
        starts.add(found is not None)
    assert starts == {True, False}


def test_a_start_whose_payers_name_no_rack_leaves_the_rest_of_its_domain_to_others() -> None:
    """An unneeded payer names a rack; the plan takes the same GPUs before and after it is firm."""
    racked = envelope("r", 8, selector=(("rack", "k0"),))
    life = planned_life(
        nodes=[node("n0", 8, rack="k0"), node("n1", 8, rack="k1")],
        budgets=[budget("b-two", "two", alone(envelope("e", 8)), alone(racked))],
        pool=quiet_pool(horizon_ms=HOUR_MS),
    )
    life.do(Submit(of("busy", 16, "one", 120)))
    life.do(Submit(of("first", 8, "two", 60)))
    life.do(Submit(of("beside", 8, "three", 60)))
    life.do(Tick(), NOW_MS + HOUR_MS)
    starts = [firm_ms(life, name) for name in ("first", "beside")]
    assert starts == [NOW_MS + 2 * HOUR_MS] * 2
    assert life.do(Tick()).events == ()


def test_a_run_is_planned_beside_a_firm_start_if_its_payers_name_no_rack() -> None:
    """The plan of ``first`` is the same whether ``beside`` was planned before or after it."""
    racked = envelope("r", 8, selector=(("rack", "k0"),))
    life = planned_life(
        nodes=[node("n0", 8, rack="k0"), node("n1", 8, rack="k1")],
        budgets=[budget("b-two", "two", alone(envelope("e", 8)), alone(racked))],
    )
    life.do(Submit(of("busy", 16, "one", 120)))
    life.do(Submit(of("beside", 8, "three", 600)))
    life.do(Submit(of("first", 8, "two", 60)))
    starts = [firm_ms(life, name) for name in ("first", "beside")]
    assert starts == [NOW_MS + 2 * HOUR_MS] * 2


@pytest.mark.heavy
def test_a_firm_run_starts_as_promised_where_the_search_for_more_is_too_long() -> None:
    """Its payer names the last of eight racks, so all ways to be wider are tried first."""
    there = (("rack", "k7"),)
    life = planned_life(
        nodes=[node(f"n{number}", 8, rack=f"k{number}") for number in range(8)],
        budgets=[budget("b-two", "two", alone(envelope("e", 64, selector=there)))],
    )
    life.do(Submit(of("busy", 8, selector=there)))
    grid = Malleable(gpus_min=2, gpus_max=32, gpus_step=30, gpus_desired=32)
    life.do(Submit(of("elastic", 32, "two", malleable=grid, spares_per_group=1)))
    start_ms = NOW_MS + 2 * HOUR_MS
    assert firm_ms(life, "elastic") == start_ms
    assert life.state.reservations["elastic@1"].slice.gpus == 2
    life.do(Complete("busy"), start_ms)
    assert life.phase("elastic") is Phase.RUNNING


def two_racks(*ends: tuple[str, int]) -> Life:
    """Return two domains of two racks; owner two has money for rack k0 only.

    ``ends`` has runs of one node each, and their durations in minutes. The name of a run says on
    which node it runs: b1 is in domain B and rack k1.
    """
    only = envelope("e", 8, selector=(("rack", "k0"),))
    life = planned_life(
        nodes=[node(f"{d}{k}", 8, d.upper(), rack=f"k{k}") for d in "ab" for k in (0, 1)],
        budgets=[budget("b-two", "two", alone(only))],
    )
    for name, minutes in ends:
        where = (("fabric.domain", name[0].upper()), ("rack", f"k{name[1]}"))
        life.do(Submit(of(name, 8, "one", minutes, selector=where)))
    return life


def test_a_run_whose_payer_names_a_rack_is_recorded_where_that_rack_is_free() -> None:
    life = two_racks(("a0", 600), ("a1", 60), ("b0", 60), ("b1", 600))
    for name, owner in (("racked", "two"), ("beside", "three")):
        life.do(Submit(of(name, 8, owner, 60)))
    assert [firm_ms(life, name) for name in ("racked", "beside")] == [NOW_MS + HOUR_MS] * 2
    assert not clashes(life)
    for name in ("a1", "b0"):
        life.do(Complete(name), NOW_MS + HOUR_MS)
    assert [life.phase(name) for name in ("racked", "beside")] == [Phase.RUNNING] * 2


def test_a_start_moves_at_once_when_its_rack_is_lost_though_its_domain_has_enough_gpus() -> None:
    life = two_racks(("a0", 60), ("a1", 60), ("b0", 300), ("b1", 600))
    life.do(Submit(of("racked", 8, "two", 60)))
    assert firm_ms(life, "racked") == NOW_MS + HOUR_MS
    decision = life.do(MarkNode("a0", NodeStatus.FAILED), NOW_MS + MINUTE_MS)
    (move,) = moves(decision)
    assert move.cause == MoveCause(MoveCode.NODE_LOST, (("node", "a0"),))
    assert firm_ms(life, "racked") == NOW_MS + 5 * HOUR_MS
    assert not clashes(life)


def test_a_start_moves_as_soon_as_its_rack_is_late_though_its_domain_has_enough_gpus() -> None:
    life = two_racks(("a0", 60), ("a1", 30), ("b0", 300), ("b1", 600))
    life.do(Submit(of("racked", 8, "two", 60)))
    life.do(Complete("a1"), NOW_MS + 30 * MINUTE_MS)
    assert firm_ms(life, "racked") == NOW_MS + HOUR_MS
    found = tick_until(life, NOW_MS + HOUR_MS + 20 * MINUTE_MS)
    moved = [(move.at_ms - NOW_MS - HOUR_MS, move.cause) for each in found for move in moves(each)]
    cause = MoveCause(MoveCode.LEASE_OVERRAN, (("lease", "a0/0"),))
    assert moved == [(1, cause), (15 * MINUTE_MS, cause)]
    assert not clashes(life)
    life.do(Complete("a0"), life.now_ms + 1)
    assert life.phase("racked") is Phase.RUNNING


def test_backfill_that_overstays_in_a_rack_is_stopped_for_the_start_that_needs_the_rack() -> None:
    there = (("fabric.domain", "A"), ("rack", "k0"))
    life = two_racks(("a1", 60), ("b0", 600), ("b1", 600))
    life.do(Submit(of("half", 4, "one", 120, selector=there)))
    life.do(Submit(of("racked", 8, "two", 60)))
    life.do(Submit(of("filler", 4, "one", 60, selector=there)))
    assert marked(life, "filler") == [0]
    life.do(Complete("a1"), NOW_MS + HOUR_MS)
    life.do(Complete("half"), NOW_MS + 2 * HOUR_MS)
    assert life.phase("filler") is Phase.PENDING
    assert life.phase("racked") is Phase.RUNNING


def test_a_start_moves_when_its_payer_is_bound_to_a_rack_that_is_not_free_then() -> None:
    life = two_racks(("a0", 600), ("a1", 60), ("b0", 300), ("b1", 600))
    life.do(Apply((budget("b-two", "two", alone(envelope("e", 8))),)))
    life.do(Submit(of("two", 8, "two", 60)))
    assert firm_ms(life, "two") == NOW_MS + HOUR_MS
    only = envelope("e", 8, selector=(("rack", "k0"),))
    (move,) = moves(life.do(Apply((budget("b-two", "two", alone(only)),))))
    assert move.cause == MoveCause(MoveCode.BUDGET_CHANGED, (("envelope", "b-two/e"),))
    assert firm_ms(life, "two") == NOW_MS + 5 * HOUR_MS


K0, K1 = (("rack", "k0"),), (("rack", "k1"),)


@pytest.mark.parametrize("is_whole", [False, True])
def test_what_a_choosy_start_leaves_of_its_domain_goes_to_earlier_runs_at_once(
    is_whole: bool,  # noqa: FBT001
) -> None:
    """The place of ``bound`` takes its whole domain in the plan, and only its node when it starts.

    ``wide`` is planned first, because its owner has less. It has to start with the same decision.
    """
    small = 2 if is_whole else 8
    there, elsewhere = ((), ()) if is_whole else (K0, K1)
    life = planned_life(
        nodes=[node("n0", small, rack="k0"), node("n1", 8, rack="k1")],
        pool=quiet_pool(whole_nodes=is_whole),
    )
    life.do(Submit(of("busy0", small, "one", 60, selector=there)))
    life.do(Submit(of("busy1", 8, "one", 60, selector=elsewhere)))
    life.do(Submit(of("bound", small, "one", 600, selector=there)))
    life.do(Submit(of("wide", 8, "two", 60)))
    at_ms = NOW_MS + 60 * MINUTE_MS
    life.do(Reported((Complete("busy0"), Complete("busy1"))), at_ms)
    assert {life.phase("bound"), life.phase("wide")} == {Phase.RUNNING}


@pytest.mark.heavy
@pytest.mark.parametrize("ahead", [2, 8, 28])
def test_a_run_in_one_rack_is_planned_however_many_starts_are_planned_before(ahead: int) -> None:
    racks = [node("n0", 8, rack="k0"), node("n1", 8, rack="k1"), node("n2", 8, rack="k1")]
    life = planned_life(nodes=racks, pool=quiet_pool(reservation_depth=100))
    life.do(Submit(of("last", 8, "one", 600, selector=K0)))
    life.do(Submit(of("half", 4, "one", 900, selector=K1)))
    for number in range(ahead):
        life.do(Submit(of(f"c{number}", (8, 11)[number % 2], "one", 20)))
    life.do(Submit(of("racked", 1, "two", 60, selector=K0)))
    assert firm_ms(life, "racked") == NOW_MS + 600 * MINUTE_MS


def test_a_removed_node_is_the_cause_and_not_one_that_was_drained_before() -> None:
    life = planned_life(nodes=[node(f"n{number}") for number in range(4)])
    life.do(MarkNode("n1", NodeStatus.CORDONED))
    life.do(Submit(of("busy", 16, "one", 60)))
    life.do(Submit(of("wide", 24, "two", 60)))
    (idle,) = {"n0", "n2", "n3"} - set(life.on("busy"))
    (moved,) = moves(life.do(Remove(Removable.NODE, idle), NOW_MS + MINUTE_MS))
    assert moved.cause == MoveCause(MoveCode.NODES_CHANGED, (("domain", "r/c/A"),))


@pytest.mark.parametrize("is_removed", [True, False])
def test_a_start_that_no_longer_fills_whole_nodes_names_the_nodes_that_changed(
    is_removed: bool,  # noqa: FBT001
) -> None:
    life = planned_life(
        nodes=[node("n0", 2), node("n1", 4), node("n2", 4)], pool=quiet_pool(whole_nodes=True)
    )
    life.do(Submit(of("busy", 8, "one", 60)))
    life.do(Submit(of("six", 6, "two", 60)))
    change = Remove(Removable.NODE, "n0") if is_removed else Apply((node("n0", 4),))
    (moved,) = moves(life.do(change, NOW_MS + MINUTE_MS))
    assert moved.cause == MoveCause(MoveCode.NODES_CHANGED, (("domain", "r/c/A"),))


def test_a_divided_start_moves_as_soon_as_its_pool_gives_whole_nodes_that_it_does_not_fill() -> (
    None
):
    life = planned_life(nodes=[node("a0", 8, "A"), node("b0", 2, "B"), node("b1", 2, "B")])
    domain = "fabric.domain"
    life.do(Submit(of("busy-b", 4, "one", 60, selector=((domain, "B"),))))
    life.do(Submit(of("busy-a", 8, "one", 60, selector=((domain, "A"),))))
    life.do(Submit(of("first", 6, "one", 120, selector=((domain, "A"),))))
    life.do(Submit(of("six", 6, "two", 60)))
    assert life.state.reservations["six@1"].slice.domains == (("r/c/A", 2), ("r/c/B", 4))
    found = moves(life.do(Apply((quiet_pool(whole_nodes=True),)), NOW_MS + MINUTE_MS))
    causes = {each.reservation: each.cause for each in found}
    assert causes["six@1"] == MoveCause(MoveCode.POOL_CHANGED, (("pool", "default"),))
