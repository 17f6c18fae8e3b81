"""Shortcuts of planning never change a plan: bounds, caches, and submissions without a chance."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from quorate.core.admission.domain_offer import DomainOffers
from quorate.core.admission.layout import pack_request
from quorate.core.admission.search_budget import SearchBudget
from quorate.core.admission.target_slices import best_slice, is_enough, no_placement
from quorate.core.commands import Apply, Complete, Submit, Tick
from quorate.core.decide import decide
from quorate.core.planning.foresight import Foresight
from quorate.core.planning.start_ask import Ask
from quorate.core.planning.start_search import Searcher
from quorate.core.profile.firm_places import firm_profile
from quorate.core.profile.lease_ends import lease_end_ms
from quorate.core.profile.profile import Profile
from quorate.core.profile.quota_ends import is_quota_outlasted, quota_ends
from quorate.core.tenancy.owner_scores import Scores
from quorate.core.tenancy.queue_order import place_in_queue, queue_order
from quorate.core.tenancy.queue_position import _ahead_by_line, _ahead_one_by_one, standing_of
from quorate.model.amounts import HOUR_MS, MINUTE_MS
from quorate.model.events import RunRefused, RunSubmitted
from quorate.model.specs import DEFAULT_POOL, Cap, OnQuota, Owner, Quota, Run
from quorate.model.state.meters import Meter
from quorate.model.state.records import Phase
from quorate.testing.builders import NOW_MS, budget, envelope, fleet
from tests.oracles.effort import examples, few_of
from tests.oracles.lives import Life
from tests.oracles.plans import OWNERS, funds, of, quiet_pool

DOMAINS = {"A": 6, "B": 8, "C": 4}


def a_run(chance: Random, name: str) -> Run:
    """Return a run of any kind: in one domain, in groups, divisible, with spares, malleable not."""
    gpus = chance.choice((1, 1, 2, 3, 4, 6, 8, 12))
    more: dict[str, object] = {"group_gpus": chance.choice((None, 1, 2, 4))}
    if chance.random() < 0.2:
        more["cross_group_spread"] = False
    if chance.random() < 0.1:
        more["spares_per_group"] = 1
    if chance.random() < 0.3:
        more["checkpoint_ms"] = 5 * MINUTE_MS
    return of(name, gpus, chance.choice(OWNERS), chance.choice((7, 30, 60, 95, 240)), **more)


def a_life(chance: Random, owners: Sequence[Owner] = ()) -> Life:
    """Return a ledger of three domains, in which some owners are short of money."""
    capped = Cap(name="c", flavor="H100", envelopes=("e", "f"), concurrency_max=9)
    lines = (envelope("e", 6), envelope("f", chance.choice((4, 8))))
    caps = [capped] if chance.random() < 0.3 else []
    return Life(
        nodes=fleet(DOMAINS),
        budgets=[budget("b-one", "one", *lines, caps=caps), funds("two", 10), funds("three")],
        owners=owners,
        pools=[quiet_pool(horizon_ms=40 * MINUTE_MS, reservation_depth=chance.choice((2, 4, 20)))],
        audits=False,
    )


def go_on(life: Life, chance: Random, number: int, on_quota: OnQuota = OnQuota.REFUSE) -> None:
    """Submit a run, or end a running one, a while later."""
    life.now_ms += chance.choice((0, MINUTE_MS, 11 * MINUTE_MS))
    running = [name for name, record in life.state.runs.items() if record.phase is Phase.RUNNING]
    if running and chance.random() < 0.4:
        life.do(Complete(chance.choice(running)))
    else:
        life.do(Submit(replace(a_run(chance, f"r{number}"), on_quota=on_quota)))


def first_by_trying(search: Searcher, ask: Ask, from_ms: int) -> int | None:
    """Return the first instant at which counting allows a start, by trying each one."""
    instants = {from_ms}
    for resource in search.counted.resources(ask):
        for at_ms in (*resource.ends_ms, *resource.steps_ms):
            instants |= {at_ms, at_ms - ask.duration_ms + 1}
    instants.update(search.payers.windows(ask, from_ms))
    for at_ms in sorted(at_ms for at_ms in instants if at_ms >= from_ms):
        if search.counted.fits(ask, at_ms, SearchBudget()) is not None:
            return at_ms
    return None


@pytest.mark.parametrize("seed", few_of(range(12), 2))
def test_the_start_found_is_the_first_that_counting_allows(seed: int) -> None:
    chance = Random(seed)
    life = a_life(chance)
    for number in range(14):
        go_on(life, chance, number)
        search = Searcher(firm_profile(life.state, life.now_ms), has_executor=False)
        for probe in range(6):
            run = a_run(chance, f"p{number}-{probe}")
            ask = search.asks.of(run, "H100", run.gpus)
            found = search.find(run, life.now_ms, SearchBudget())
            assert (None if found is None else found.start_ms) == first_by_trying(
                search, ask, life.now_ms
            )
            if found is not None:
                fitting = search.counted.fits(ask, found.start_ms, SearchBudget())
                assert fitting is not None
                assert search.entry_of(ask, found.start_ms, *fitting) == found
                search.profile.put(found)  # The next search goes around it.


@pytest.mark.heavy
@pytest.mark.parametrize("seed", few_of(range(12), 2))
def test_decisions_are_those_of_a_state_that_keeps_nothing(seed: int) -> None:
    chance = Random(seed)
    life = a_life(chance)
    for number in range(16):
        go_on(life, chance, number)
        asked = Submit(a_run(chance, f"x{number}"))
        later_ms = life.now_ms + chance.choice((0, MINUTE_MS))
        known = decide(life.state, asked, now_ms=later_ms, actor="t").events
        life.state.ends_changed()
        life.state.forget_waiting()
        assert decide(life.state, asked, now_ms=later_ms, actor="t").events == known
        queue = queue_order(life.state, later_ms)
        for place, name in enumerate(queue, start=1):
            assert place_in_queue(life.state, name, later_ms) == (place, len(queue))


@pytest.mark.heavy
@pytest.mark.parametrize("seed", few_of(range(6), 1))
@pytest.mark.parametrize("has_quotas", [False, True])
def test_a_standing_counted_by_lines_is_that_counted_run_by_run(
    seed: int, *, has_quotas: bool
) -> None:
    chance, parked = Random(seed), 0
    org = Owner(name="org", quota=Quota(concurrent_runs_max=1))
    under_it = [Owner(name=name, parents=("org",)) for name in ("one", "two")]
    life = a_life(chance, [org, *under_it] if has_quotas else ())
    for number in range(24):
        go_on(life, chance, number, OnQuota.WAIT)
        parked += len(life.state.parked)
        queue = queue_order(life.state, life.now_ms)
        scores = Scores(life.state, life.now_ms)
        for place, name in enumerate(queue, start=1):
            record = life.state.runs[name]
            by_line = _ahead_by_line(life.state, scores, record)
            one_by_one = _ahead_one_by_one(life.state, scores, record, queue)
            assert list(by_line.items()) == list(one_by_one.items())
            found = standing_of(life.state, name, life.now_ms)
            assert (found.position, found.length) == (place, len(queue))
            assert place_in_queue(life.state, name, life.now_ms) == (place, len(queue))
    assert bool(parked) is has_quotas


@pytest.mark.heavy
@pytest.mark.parametrize("seed", few_of(range(12), 2))
def test_expected_ends_that_are_kept_are_those_found_anew(seed: int) -> None:
    chance, late = Random(seed), 0
    life = a_life(chance)
    for number in range(24):
        go_on(life, chance, number)
        fresh = life.state.overlay()
        fresh.ends_changed()
        # The same instant twice, and later ones: overdue work is expected to end later and later.
        for later_ms in (0, 0, 9 * MINUTE_MS, 100 * MINUTE_MS):
            now_ms = life.now_ms + later_ms
            known, anew = Profile(life.state, now_ms), Profile(fresh, now_ms)
            for key in life.state.domains(DEFAULT_POOL, "H100").keys:
                late += bool(known.returns.late_leases(key))
                assert known.returns.island_ends(key) == anew.returns.island_ends(key)
                one, other = known.room(key), anew.room(key)
                assert (one.free_now, one.ends_ms, one.gained) == (
                    other.free_now,
                    other.ends_ms,
                    other.gained,
                )
            for payer in life.state.envelopes:
                assert known.returns.payer_ends(payer) == anew.returns.payer_ends(payer)
    assert late


def under_quotas(chance: Random) -> list[Owner]:
    """Return owners, two of which share a parent with a quota that few runs use up."""
    parents = ("org",) if chance.random() < 0.7 else ()
    tight = Quota(concurrent_runs_max=chance.choice((3, 6)))
    return [
        Owner(name="org", quota=Quota(nodes_max=chance.choice((12, 18)))),
        Owner(name="one", parents=("org",), quota=chance.choice((Quota(), tight))),
        Owner(name="two", parents=parents),
    ]


@pytest.mark.heavy
@pytest.mark.parametrize("seed", few_of(range(12), 2))
def test_ends_under_quotas_that_are_kept_are_those_of_the_leases(seed: int) -> None:
    chance, outlasted = Random(seed), 0
    life = a_life(chance, under_quotas(chance))
    for number in range(24):
        go_on(life, chance, number)
        if chance.random() < 0.15:  # Families and quotas change.
            life.do(Apply(tuple(under_quotas(chance))))
        state = life.state
        for bound in ("org", "one"):
            leases = [
                lease
                for lease in state.leases.values()
                if bound in state.holdings.bounds_of(state.runs[lease.fact.run].spec.owner)
            ]
            for now_ms in (life.now_ms + later * MINUTE_MS for later in (0, 9, 100)):
                if bound in state.holdings.bounds_of(bound):
                    ends = sorted((lease_end_ms(state, each, now_ms), each.gpus) for each in leases)
                    assert [end[:2] for end in quota_ends(state, bound, now_ms)] == ends
                    since_ms = now_ms - chance.choice((0, 1, 20, 90)) * MINUTE_MS
                    anew = any(
                        lease_end_ms(state, each, since_ms) < lease_end_ms(state, each, now_ms)
                        for each in leases
                    )
                    assert is_quota_outlasted(state, bound, since_ms, now_ms) == anew
                    outlasted += anew
    assert outlasted


def test_ends_under_a_quota_are_found_once_until_a_lease_changes() -> None:
    org = Owner(name="org", quota=Quota(concurrent_runs_max=8))
    life = a_life(Random(1), [org, Owner(name="two", parents=("org",))])
    for number in range(4):
        life.do(Submit(of(f"r{number}", 2, "two", 60 + number)))
    known = quota_ends(life.state, "org", life.now_ms)
    assert [name for _, _, name in known] == ["r0/0", "r1/0", "r2/0", "r3/0"]
    life.do(Tick(), NOW_MS + MINUTE_MS)
    assert quota_ends(life.state.overlay(), "org", life.now_ms) is known
    life.do(Complete("r0"))
    assert quota_ends(life.state, "org", life.now_ms) == known[1:]


@pytest.mark.heavy
@pytest.mark.parametrize("has_quotas", [False, True])
@pytest.mark.parametrize("seed", few_of(range(12), 2))
def test_what_is_turned_away_could_not_start_and_nothing_else_could(
    seed: int, *, has_quotas: bool
) -> None:
    chance, away = Random(seed), 0
    life = a_life(chance, under_quotas(chance)) if has_quotas else a_life(chance)
    for number in range(20):
        go_on(life, chance, number)
        decision = life.do(Submit(a_run(chance, f"x{number}")))
        if [type(event) for event in decision.events] == [RunSubmitted, RunRefused]:
            away += 1
            foresight = Foresight.of(life.state, life.now_ms, has_executor=False)
            assert foresight.starts_now() == set()
    assert away


@pytest.mark.parametrize("seed", few_of(range(12), 2))
def test_the_freest_domains_say_what_is_short_as_all_do(seed: int) -> None:
    chance, fewer = Random(seed), 0
    life = a_life(chance)
    for number in range(14):
        go_on(life, chance, number)
        for probe in range(8):
            run = a_run(chance, f"p{number}-{probe}")
            request = pack_request(run, life.state.pools[run.pool], "H100", run.gpus)
            domain_offers = list(DomainOffers(life.state, request).most_free())
            first = next(
                (n for n in range(1, len(domain_offers)) if is_enough(request, domain_offers[:n])),
                None,
            )
            if first is not None:
                fewer += 1
                assert best_slice(request, domain_offers[:first]) == best_slice(
                    request, domain_offers
                )
                assert no_placement(request, domain_offers[:first]) == no_placement(
                    request, domain_offers
                )
    assert fewer


@pytest.mark.heavy
@examples(4)
@given(
    changes=st.lists(
        st.tuples(st.integers(-8, 16), st.integers(0, 5 * HOUR_MS)), min_size=1, max_size=12
    ),
    half_life_ms=st.sampled_from((HOUR_MS, 24 * HOUR_MS, 168 * HOUR_MS)),
    span_ms=st.integers(1, HOUR_MS),
    parts=st.lists(st.integers(0, 999), min_size=1, max_size=8),
)
def test_recent_use_stays_within_its_bounds(
    changes: list[tuple[int, int]], half_life_ms: int, span_ms: int, parts: list[int]
) -> None:
    meter, now_ms = Meter(HOUR_MS), HOUR_MS
    for amount, later_ms in changes:
        meter.add(max(amount, -meter.amount), now_ms)
        now_ms += later_ms
    until_ms = min(now_ms + span_ms, (now_ms // HOUR_MS + 1) * HOUR_MS)
    bounds = meter.recent_between(now_ms, until_ms, half_life_ms)
    assert bounds is not None
    for part in parts:
        at_ms = now_ms + (until_ms - 1 - now_ms) * part // 999
        assert bounds[0] <= meter.recent(at_ms, half_life_ms) <= bounds[1]
