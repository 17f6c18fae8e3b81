"""The profile: what leases, spares, firm places, limits and quotas leave free over time."""

from __future__ import annotations

import pytest

from quorate.core.commands import Apply, Cancel, Submit
from quorate.core.planning.start_search import Searcher
from quorate.core.profile.expected_returns import ExpectedReturns
from quorate.core.profile.firm_places import firm_profile, in_order
from quorate.core.profile.lease_ends import lease_end_ms, run_end_ms
from quorate.core.profile.planned_accounts import ExpectedAccounts
from quorate.core.profile.profile import Profile
from quorate.model.amounts import HOLD_QUANTUM_MS, HOUR_MS, MINUTE_MS
from quorate.model.events import Tier
from quorate.model.selector import DOMAIN
from quorate.model.specs import DEFAULT_POOL, Cap, CapId, EnvelopeId, Owner, Quota, Run
from quorate.model.state.free_slots import IslandKey
from quorate.testing.builders import NOW_MS, budget, envelope, fleet, node
from tests.oracles.lives import Life
from tests.oracles.plans import alone, firm_ms, of, planned_life, quiet_pool

PLACE = IslandKey(DEFAULT_POOL, "H100", "r/c/A")
START_MS = NOW_MS + 2 * HOUR_MS


def profile_of(life: Life) -> Profile:
    """Return the present profile of a ledger, with its firm places."""
    return firm_profile(life.state, life.now_ms)


def earliest_ms(life: Life, spec: Run, from_ms: int | None = None) -> int | None:
    """Return the earliest start of a run that is not submitted, beside firm places."""
    search = Searcher(profile_of(life), has_executor=life.has_executor)
    entry = search.find(spec, life.now_ms if from_ms is None else from_ms)
    return None if entry is None else entry.start_ms


def one_firm() -> Life:
    """Return a ledger in which ``a`` has half of the room; ``b`` is firm for all of it then."""
    life = planned_life()
    life.do(Submit(of("a", 4)))
    life.do(Submit(of("b", 8, "two")))
    assert firm_ms(life, "b") == START_MS
    return life


def test_room_comes_back_with_leases_and_firm_places_take_it() -> None:
    room = profile_of(one_firm()).room(PLACE)
    instants = (NOW_MS, START_MS - 1, START_MS, START_MS + 2 * HOUR_MS)
    assert [room.value(at_ms) for at_ms in instants] == [4, 4, 0, 8]


def test_firm_place_takes_the_width_of_its_payer_while_it_runs() -> None:
    life = planned_life(budgets=[budget("b-two", "two", alone(envelope("e", 8)))])
    life.do(Submit(of("a", 4)))
    life.do(Submit(of("b", 8, "two")))
    payer = profile_of(life).payer(EnvelopeId("b-two/e"))
    assert [payer.value(at_ms) for at_ms in (NOW_MS, START_MS - 1, START_MS)] == [8, 8, 0]


def test_firm_place_takes_the_width_of_a_cap_while_it_runs() -> None:
    cap = Cap(name="c", flavor="H100", envelopes=("e",), concurrency_max=10)
    life = planned_life(budgets=[budget("b-two", "two", alone(envelope("e", 16)), caps=[cap])])
    life.do(Submit(of("a", 4)))
    life.do(Submit(of("b", 8, "two")))
    level = profile_of(life).cap(CapId("b-two/c"))
    assert [level.value(at_ms) for at_ms in (NOW_MS, START_MS)] == [10, 2]


def test_pins_are_in_the_order_in_which_they_became_firm() -> None:
    life = planned_life()
    life.do(Submit(of("a", 8)))
    for name in ("z", "y", "x"):
        life.do(Submit(of(name, 8, "two")))
    assert [record.made.run for _, record in in_order(life.state)] == ["z", "y", "x"]


# --- Expected ends ---


def test_run_that_ends_this_instant_is_not_overdue_yet() -> None:
    life = planned_life()
    life.do(Submit(of("a", 4)))
    record = life.state.runs["a"]
    assert run_end_ms(life.state, record, START_MS) == START_MS
    assert run_end_ms(life.state, record, START_MS + 1) == START_MS + 30 * MINUTE_MS


@pytest.mark.parametrize(
    ("minutes", "end_minutes"), [(60, 60), (61, 75), (74, 75), (75, 93.75), (94, 117.1875)]
)
def test_overdue_run_climbs_fixed_rungs_however_often_it_is_asked(
    minutes: float, end_minutes: float
) -> None:
    life = planned_life()
    life.do(Submit(of("a", 4, minutes=60)))
    now_ms, end_ms = (NOW_MS + int(each * MINUTE_MS) for each in (minutes, end_minutes))
    record = life.state.runs["a"]
    for asked_ms in (now_ms, end_ms - 1):
        assert run_end_ms(life.state, record, asked_ms) == end_ms


def test_lease_that_was_told_to_stop_is_expected_at_its_deadline_and_a_quantum_later_when_late() -> (  # noqa: E501
    None
):
    life = planned_life(has_executor=True)
    life.do(Submit(of("a", 8, checkpoint_ms=5 * MINUTE_MS)))
    life.do(Cancel("a"))
    gone_ms = NOW_MS + 5 * MINUTE_MS
    lease = life.state.leases["a/0"]
    for now_ms, end_ms in (
        (NOW_MS, gone_ms),
        (gone_ms, gone_ms),
        (gone_ms + 1, gone_ms + HOLD_QUANTUM_MS),
    ):
        assert lease_end_ms(life.state, lease, now_ms) == end_ms
        life.now_ms = now_ms
        assert earliest_ms(life, of("b", 8, "two")) == end_ms


# --- The earliest start ---


def test_start_from_an_instant_on_is_at_that_instant_where_there_is_room() -> None:
    life = planned_life()
    life.do(Submit(of("a", 4)))
    assert earliest_ms(life, of("b", 4, "two"), NOW_MS + HOUR_MS) == NOW_MS + HOUR_MS


def test_start_needs_its_room_for_its_duration_and_one_grace() -> None:
    life = one_firm()
    for minutes, checkpoint_ms, start_ms in (
        (120, 0, NOW_MS),
        (115, 5 * MINUTE_MS, NOW_MS),
        (120, 1, START_MS + 2 * HOUR_MS),
    ):
        spec = of("c", 4, "three", minutes, checkpoint_ms=checkpoint_ms)
        assert earliest_ms(life, spec) == start_ms


@pytest.mark.parametrize(("hours", "start"), [(1, 1), (3, 5)])
def test_start_is_where_a_firm_place_leaves_a_cap_enough_for_as_long_as_it_takes(
    hours: int, start: int
) -> None:
    cap = Cap(name="c", flavor="H100", envelopes=("e",), concurrency_max=8)
    life = planned_life(16, budgets=[budget("b-one", "one", alone(envelope("e", 16)), caps=[cap])])
    for name, gpus, taken in (("x", 8, 3), ("y", 4, 1), ("z", 4, 9)):
        life.do(Submit(of(name, gpus, "two", taken * 60)))
    life.do(Submit(of("wide", 8)))
    assert firm_ms(life, "wide") == NOW_MS + 3 * HOUR_MS
    assert earliest_ms(life, of("a", 4, minutes=60 * hours)) == NOW_MS + start * HOUR_MS


def test_start_is_where_one_of_two_envelopes_pays() -> None:
    lines = [
        alone(envelope(name, 8, selector=(("region", "r"), ("fabric.domain", name))))
        for name in "AB"
    ]
    life = planned_life(nodes=fleet({"A": 8, "B": 8}), budgets=[budget("b-one", "one", *lines)])
    life.do(Submit(of("a", 8)))
    life.do(Submit(of("b", 8, minutes=60)))
    assert earliest_ms(life, of("c", 8)) == NOW_MS + HOUR_MS


def test_filled_spares_come_free_each_with_its_own_run() -> None:
    life = planned_life(nodes=fleet({"A": 6}, gpus=6))
    for name, hours in (("k1", 1), ("k2", 3)):
        life.do(Submit(of(name, 2, minutes=60 * hours, group_gpus=2, spares_per_group=1)))
    life.do(Submit(of("filler", 2, "two", 30)))
    assert (life.filled("k1"), life.filled("k2")) == (1, 1)
    assert earliest_ms(life, of("w", 3, "three")) == NOW_MS + HOUR_MS


def test_pool_of_whole_nodes_counts_whole_nodes() -> None:
    nodes = [node("a0"), node("a1")]
    life = planned_life(nodes=nodes, pool=quiet_pool(whole_nodes=True))
    life.do(Submit(of("a", 8, minutes=60)))
    life.do(Submit(of("b", 8, "two", 120)))
    room = profile_of(life).room(PLACE)
    instants = (NOW_MS, NOW_MS + HOUR_MS, START_MS)
    assert [room.value(at_ms) for at_ms in instants] == [0, 8, 16]


def test_quota_on_runs_counts_what_runs_and_what_is_firm() -> None:
    limited = Owner(name="two", quota=Quota(concurrent_runs_max=2))
    life = planned_life(16, owners=[limited])
    life.do(Submit(of("a", 4, minutes=120)))
    life.do(Submit(of("b", 4, "two", 60)))
    life.do(Submit(of("c", 16, "two")))
    assert firm_ms(life, "c") == START_MS
    runs = profile_of(life).headroom.runs("two")
    instants = (NOW_MS, NOW_MS + HOUR_MS, START_MS)
    assert [runs.value(at_ms) for at_ms in instants] == [1, 2, 1]


def test_room_of_a_domain_that_is_gone_is_none() -> None:
    life = planned_life()
    life.do(Apply((node("a0000", 8, "B"),)))
    assert profile_of(life).room(PLACE).value(NOW_MS) == 0


def test_profile_of_a_trial_is_not_taken_for_the_state_outside_it() -> None:
    life = planned_life()
    life.do(Submit(of("a", 4)))
    trial, payer = life.state.overlay(), EnvelopeId("b-one/e")
    trial.lift_lease("a/0")
    gone = ExpectedReturns(trial, NOW_MS)
    assert (gone.payer_ends(payer), gone.island_ends(PLACE)) == ([], [])
    here, end = ExpectedReturns(life.state, NOW_MS), (START_MS, 4, "a/0")
    assert (here.payer_ends(payer), here.island_ends(PLACE)) == ([end], [end])


# --- Payers ---


def test_payers_whose_width_or_cap_is_taken_for_the_while_are_left_out() -> None:
    cap = Cap(name="c", flavor="H100", envelopes=("a-full", "b-capped"), concurrency_max=4)
    lines = [alone(envelope(name, 4)) for name in ("a-full", "b-capped", "c-open")]
    life = planned_life(budgets=[budget("b-two", "two", *lines, caps=[cap])])
    payers = tuple(
        (EnvelopeId(f"b-two/{name}"), Tier.OWNED) for name in ("a-full", "b-capped", "c-open")
    )
    before = ExpectedAccounts(profile_of(life), NOW_MS, START_MS)
    assert before.with_width(payers) == payers
    life.do(Submit(of("a", 4, "two")))
    during = ExpectedAccounts(profile_of(life), NOW_MS, START_MS)
    assert during.with_width(payers) == payers[2:]
    after = ExpectedAccounts(profile_of(life), START_MS, START_MS + HOUR_MS)
    assert after.with_width(payers) == payers


def test_a_start_where_money_is_left_now_wins_over_a_site_that_has_to_wait_for_money() -> None:
    """Each domain has separate payers; the payers of the first domain are used."""
    lines = [alone(envelope(name, 4, selector=((DOMAIN, name),))) for name in ("A", "B", "C")]
    life = planned_life(
        nodes=fleet({"A": 8, "B": 8, "C": 8}), budgets=[budget("b-two", "two", *lines)]
    )
    searched = []
    for _ in range(4):
        entry = Searcher(profile_of(life), has_executor=False).find(of("x", 4, "two"), life.now_ms)
        assert entry is not None
        searched.append((entry.start_ms, entry.slice.domains))
        life.do(Submit(of(f"run-{len(searched)}", 4, "two")))
    assert [at_ms for at_ms, _ in searched] == [NOW_MS] * 3 + [START_MS]
    assert sorted(domain for _, ((domain, _),) in searched[:3]) == ["r/c/A", "r/c/B", "r/c/C"]
    assert searched[3][1] == (("r/c/A", 4),)
