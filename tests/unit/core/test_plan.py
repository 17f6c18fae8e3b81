"""``foretell``: when a run starts, the conditions of its start, and which runs it could end."""

from __future__ import annotations

from fractions import Fraction

import pytest
from msgspec.structs import replace

from quorate.core.commands import Apply, Cancel, Draw, Submit, Tick
from quorate.core.explain.start_grounds import Confidence
from quorate.core.explain.start_plan import Forecast, foretell, foretell_new
from quorate.core.planning.foresight import PlanState
from quorate.core.preemption.conflict_preview import Contest, foresee, ordeals_of
from quorate.core.preemption.conflict_scope import Question, for_limit
from quorate.core.preemption.lottery import chain_link
from quorate.core.preemption.money_limits import Limit
from quorate.model.amounts import HOUR_MS, MINUTE_MS
from quorate.model.events import (
    ConflictCause,
    ConflictResolved,
    CutStep,
    LotteryCommitted,
    MoveCause,
    MoveCode,
    ReservationStatus,
    Scope,
)
from quorate.model.refusal import Refusal, RefusalCode
from quorate.model.specs import Follow, Malleable, OnQuota, Owner, Pool, Quota, Run, envelope_id
from quorate.model.state.apply_event import apply_all
from quorate.model.state.records import Phase
from quorate.testing.builders import NOW_MS, budget, envelope, fleet, run
from quorate.testing.memory_engines import LOTTERY_LENGTH, LOTTERY_SECRET
from quorate.testing.states import same
from quorate.views.runs.forecast_view import forecast_lines
from tests.oracles.lives import Life

NOTICE_MS = 15 * MINUTE_MS
TEAMS = ("one", "two", "three")
LONG_MS, SHORT_MS = 8 * HOUR_MS, 4 * HOUR_MS


def new_life(*, gpus: int = 16, rate_ppm: int = 1_000_000, **pool: int) -> Life:
    """Return all teams on one domain, with a stated cost that conflicts may have."""
    known = Pool(
        name="default",
        disruption_rate_ppm=rate_ppm,
        firm_horizon_ms=1_000 * HOUR_MS,
    )
    spec = replace(known, **pool)
    life = Life(
        nodes=fleet({"A": gpus}),
        budgets=[budget(f"b-{team}", team, envelope("e", gpus)) for team in TEAMS],
        pools=[spec],
    )
    commit(life)
    return life


def commit(life: Life) -> None:
    """Commit the ledger of ``life`` to a lottery."""
    committed = LotteryCommitted(
        at_ms=NOW_MS,
        actor="test",
        commitment=chain_link(LOTTERY_SECRET, 0, length=LOTTERY_LENGTH).hex(),
        length=LOTTERY_LENGTH,
    )
    apply_all(life.state, [committed])
    life.events.append(committed)


def work(name: str, gpus: int, owner: str = "one", ms: int = LONG_MS, **more: object) -> Run:
    return run(name, gpus, owner, expected_duration_ms=ms, nonce=f"nonce-{name}", **more)


def told(life: Life, spec: Run, at_ms: int | None = None) -> Forecast:
    found = foretell(life.state, spec, life.now_ms if at_ms is None else at_ms)
    assert isinstance(found, Forecast), found
    return found


def known(life: Life, name: str, at_ms: int | None = None) -> Forecast:
    return told(life, life.state.runs[name].spec, at_ms)


# --- When ---


def test_a_new_run_that_fits_starts_now_and_nothing_is_written() -> None:
    life = new_life()
    before = life.state.seq
    found = told(life, work("a", 8))
    assert (found.starts_now, found.phase, found.recorded_phase) == (True, Phase.RUNNING, None)
    assert [(share.payer, share.gpus) for share in found.payers] == [("b-one/e", 8)]
    assert found.expected_end_ms == NOW_MS + LONG_MS
    assert found.place is not None
    assert found.place.domains == (("r/c/A", 8),)
    assert (life.state.seq, "a" in life.state.runs) == (before, False)


def test_a_new_run_and_a_submitted_one_are_told_the_same() -> None:
    life = new_life(rate_ppm=0)
    life.do(Submit(work("a", 12)))
    new = told(life, work("b", 8, "two"))
    life.do(Submit(work("b", 8, "two")))
    there = known(life, "b")
    for field in ("planned_start_ms", "natural_start_ms", "place", "payers", "confidence"):
        assert getattr(new, field) == getattr(there, field), field
    assert new.planned_start_ms == new.natural_start_ms == NOW_MS + LONG_MS
    assert (new.deficit, new.confidence, new.by_conflict) == (4, Confidence.EXPECTED, False)
    assert new.scope is not None
    assert (new.scope.flavor, new.scope.domains) == ("H100", (("r/c/A", 8),))
    assert new.refusal is not None
    assert new.refusal.code is RefusalCode.INSUFFICIENT_CAPACITY
    assert (there.reservation, there.status) == ("b@1", ReservationStatus.PLANNED)
    assert (there.queue_position, there.queue_length) == (1, 1)


def test_the_forecast_is_kept_when_nothing_else_happens() -> None:
    life = new_life(rate_ppm=0)
    life.do(Submit(work("a", 12)))
    life.do(Submit(work("b", 8, "two")))
    found = known(life, "b")
    assert found.planned_start_ms is not None
    life.do(Tick(), found.planned_start_ms - 1)
    assert life.phase("b") is Phase.PENDING
    life.do(Cancel("a"), found.planned_start_ms)
    assert life.phase("b") is Phase.RUNNING


def test_a_start_that_waits_for_a_window_only_is_certain() -> None:
    opens_ms = NOW_MS + HOUR_MS
    line = envelope("e", 8, start_ms=opens_ms, end_ms=opens_ms + 100 * HOUR_MS)
    early = replace(line, allow_reservations=True)
    life = Life(nodes=fleet({"A": 8}), budgets=[budget("b", "one", early)])
    found = told(life, work("a", 8))
    assert (found.planned_start_ms, found.confidence) == (opens_ms, Confidence.CERTAIN)
    assert found.overdue == ()


def test_a_start_behind_an_overdue_run_is_rough_and_names_it() -> None:
    life = new_life(rate_ppm=0)
    life.do(Submit(work("a", 12, ms=HOUR_MS)))
    life.do(Submit(work("b", 8, "two")))
    assert known(life, "b").confidence is Confidence.EXPECTED
    found = known(life, "b", NOW_MS + 2 * HOUR_MS)
    assert (found.confidence, found.overdue) == (Confidence.ROUGH, ("a",))
    assert found.status is ReservationStatus.DEFERRED
    assert found.cause == MoveCause(MoveCode.LEASE_OVERRAN, (("lease", "a/0"),))
    assert found.planned_start_ms is not None
    assert found.planned_start_ms > NOW_MS + 2 * HOUR_MS


def test_a_start_behind_a_stop_that_is_late_is_rough_and_names_it() -> None:
    life = new_life(rate_ppm=0)
    life.has_executor = True
    life.do(Submit(work("a", 12)))
    life.do(Cancel("a"), NOW_MS + HOUR_MS)
    deadline_ms = max(
        lease.ending.deadline_ms for lease in life.state.leases.values() if lease.ending is not None
    )
    for at_ms, confidence, overdue in (
        (deadline_ms, Confidence.CERTAIN, ()),
        (deadline_ms + 1, Confidence.ROUGH, ("a",)),
    ):
        found = foretell(life.state, work("b", 8, "two"), at_ms, has_executor=True)
        assert isinstance(found, Forecast)
        assert (found.confidence, found.overdue) == (confidence, overdue)


def test_a_run_that_can_never_be_paid_is_parked_with_its_reason() -> None:
    life = new_life()
    found = told(life, work("a", 8, flavors=("A100",)))
    assert (found.start_ms, found.reservation, found.confidence) == (None, "", None)
    assert "waiting alone will not help" in found.parked
    assert found.refusal is not None
    assert found.refusal.code is RefusalCode.NO_NODES
    assert (found.scope, found.deficit) == (None, 0)


def test_a_follower_is_not_planned_before_its_upstream_completed() -> None:
    life = new_life()
    life.do(Submit(work("a", 8)))
    found = told(life, work("b", 4, follow=Follow(after=("a",))))
    assert (found.planned_start_ms, found.natural_start_ms) == (None, None)
    assert "waiting for run a" in found.parked
    assert found.refusal is not None
    assert found.refusal.code is RefusalCode.WAITING_FOR_UPSTREAM


def test_beyond_the_depth_a_start_is_told_and_not_promised() -> None:
    life = new_life(rate_ppm=0, reservation_depth=1)
    life.do(Submit(work("a", 16)))
    life.do(Submit(work("b", 16, "two")))
    found = told(life, work("c", 16, "two"))
    assert (found.reservation, found.planned_start_ms) == ("", None)
    assert found.natural_start_ms == found.start_ms == NOW_MS + 2 * LONG_MS
    assert "the first 1 waiting runs" in found.parked


def test_a_start_beyond_the_horizon_is_tentative_and_not_promised() -> None:
    life = new_life(rate_ppm=0, firm_horizon_ms=HOUR_MS)
    life.do(Submit(work("a", 16)))
    found = told(life, work("b", 16, "two"))
    assert (found.reservation, found.planned_start_ms) == ("", None)
    assert (found.plan_state, found.natural_start_ms) == (PlanState.TENTATIVE, NOW_MS + LONG_MS)
    assert found.parked


def test_what_is_kept_for_a_tentative_start_is_kept_for_its_run() -> None:
    life = new_life(rate_ppm=0, firm_horizon_ms=HOUR_MS)
    life.do(Submit(work("a", 12)))
    life.do(Submit(work("b", 16, "two")))
    found = told(life, work("c", 4, "three", 2 * LONG_MS))
    assert found.refusal is not None
    assert (found.refusal.code, found.refusal.subject) == (RefusalCode.RESERVED, "b")


def test_what_is_kept_for_another_is_the_reason_and_no_deficit() -> None:
    life = new_life(rate_ppm=0)
    life.do(Submit(work("a", 12)))
    life.do(Submit(work("b", 16, "two")))
    found = told(life, work("c", 4, "three", 2 * LONG_MS))
    assert found.refusal is not None
    assert (found.refusal.code, found.refusal.subject) == (RefusalCode.RESERVED, "b@1")
    assert found.deficit == 0
    assert found.planned_start_ms == NOW_MS + 2 * LONG_MS


def test_new_runs_are_planned_one_after_the_other() -> None:
    life = new_life(rate_ppm=0)
    found = foretell_new(life.state, [work("a", 16), work("b", 16, "two")], NOW_MS)
    assert isinstance(found, list)
    assert [each.starts_now for each in found] == [True, False]
    assert found[1].planned_start_ms == NOW_MS + LONG_MS
    assert life.state.runs == {}


@pytest.mark.heavy
def test_each_new_run_is_told_what_it_would_be_told_after_those_before_it() -> None:
    life = new_life(rate_ppm=0)
    runs = [work("a", 16), work("b", 16, "two"), work("c", 4, "three", 2 * LONG_MS)]
    planned = foretell_new(life.state, runs, NOW_MS)
    one_by_one = []
    for each in runs:
        one_by_one.append(foretell(life.state, each, NOW_MS))
        life.do(Submit(each))
    assert planned == one_by_one
    refused = foretell_new(life.state, [work("d", 4), work("e", 4, "nobody")], NOW_MS)
    assert isinstance(refused, tuple)
    assert "there is no owner 'nobody'" in refused[0].subject


def test_what_would_not_be_accepted_is_refused() -> None:
    life = new_life()
    found = foretell(life.state, work("a", 8, "nobody"), NOW_MS)
    assert isinstance(found, tuple)
    assert "there is no owner 'nobody'" in found[0].subject


def test_a_run_that_is_over_has_nothing_to_tell() -> None:
    life = new_life()
    life.do(Submit(work("a", 8)))
    life.do(Cancel("a"))
    found = known(life, "a")
    assert (found.phase, found.start_ms, found.expected_end_ms) == (Phase.CANCELLED, None, None)


# --- Conflicts ---


def crowded(**pool: int) -> Life:
    """Return a domain of 16 GPUs, 14 used by two teams for two hours, and a waiting third team."""
    life = new_life(**pool)
    for name, gpus, owner in (("a", 4, "one"), ("b", 4, "one"), ("c", 4, "two"), ("d", 2, "two")):
        life.do(Submit(work(name, gpus, owner)))
    life.do(Submit(work("big", 8, "three", SHORT_MS)), NOW_MS + 2 * HOUR_MS)
    return life


@pytest.mark.heavy
def test_a_start_by_a_conflict_says_when_it_would_be_by_itself_and_whom_it_could_cost() -> None:
    life = crowded()
    found = known(life, "big")
    assert found.by_conflict
    assert found.planned_start_ms == life.now_ms + NOTICE_MS
    assert found.natural_start_ms == NOW_MS + LONG_MS
    assert found.confidence is Confidence.EXPECTED
    contest = found.contest
    assert isinstance(contest, Contest)
    assert (contest.deficit, contest.short, contest.cuts) == (6, 6, ())
    assert {each.run: each.odds for each in contest.entrants} == dict.fromkeys(
        "abcd", Fraction(1, 4)
    )
    assert {each.owner: each.owner_odds for each in contest.entrants} == {
        "one": Fraction(1, 2),
        "two": Fraction(1, 2),
    }
    cut = {each.run: each.cut for each in contest.entrants}
    # A drawn owner loses both runs, because neither of them alone is enough.
    assert cut["a"] == cut["b"]
    assert cut["c"] == cut["d"]
    assert cut["a"] + cut["c"] == contest.draws == 1_000
    assert 420 < cut["a"] < 580


@pytest.mark.heavy
def test_a_running_run_is_told_which_conflict_could_end_it() -> None:
    life = crowded()
    (danger,) = known(life, "a").dangers
    assert (danger.reservation, danger.at_ms) == ("big@1", life.now_ms + NOTICE_MS)
    assert (danger.odds, danger.is_certain, danger.draws) == (Fraction(1, 4), False, 1_000)
    contest = known(life, "big").contest
    assert isinstance(contest, Contest)
    assert danger.cut == next(each.cut for each in contest.entrants if each.run == "a")


@pytest.mark.heavy
def test_a_conflict_is_looked_for_where_any_of_the_envelopes_pays() -> None:
    lines = [
        envelope(name, 8, selector=(("region", "r"), ("fabric.domain", name))) for name in "AB"
    ]
    budgets = [budget(f"b-{team}", team, envelope("e", 16)) for team in TEAMS[:2]]
    life = Life(
        nodes=fleet({"A": 8, "B": 8}),
        budgets=[*budgets, budget("b-three", "three", *lines)],
        pools=[Pool(name="default", disruption_rate_ppm=1_000_000)],
    )
    commit(life)
    for name, owner in (("a", "one"), ("b", "one"), ("c", "two"), ("d", "two")):
        life.do(Submit(work(name, 4, owner)))
    life.do(Submit(work("big", 8, "three")), NOW_MS + 2 * HOUR_MS)
    found = known(life, "big")
    assert (found.by_conflict, found.planned_start_ms) == (True, life.now_ms + NOTICE_MS)


def test_a_run_without_a_promise_is_told_when_a_conflict_would_start_it() -> None:
    life = new_life(reservation_depth=1, runtime_min_ms=HOUR_MS)
    for name in "ab":
        life.do(Submit(work(name, 8)))
    life.do(Submit(work("c", 8, "two")), NOW_MS + 2 * HOUR_MS)
    found = told(life, work("d", 8, "two"))
    assert found.reservation == ""
    assert found.recourse is not None
    assert (found.recourse.start_ms, found.recourse.why_not) == (life.now_ms + NOTICE_MS, "")


@pytest.mark.parametrize(
    ("pool", "why"),
    [
        ({"rate_ppm": 0}, "disruptionRate of 0"),
        (
            {"runtime_min_ms": 10 * HOUR_MS},
            "it can start without a conflict before any run may be drawn",
        ),
    ],
    ids=["no conflicts", "too young"],
)
def test_why_no_conflict_makes_room(pool: dict[str, int], why: str) -> None:
    found = known(crowded(**pool), "big")
    assert (found.by_conflict, found.contest) == (False, None)
    assert found.recourse is not None
    assert why in found.recourse.why_not
    assert found.planned_start_ms == found.natural_start_ms == NOW_MS + LONG_MS


def settled(life: Life) -> ConflictResolved:
    """Let the conflict for ``big`` be declared and drawn, and return its outcome."""
    life.do(Tick(), life.now_ms + NOTICE_MS)
    (name,) = life.state.open_conflicts
    link = chain_link(LOTTERY_SECRET, 1, length=LOTTERY_LENGTH)
    life.do(Draw(name, link.hex()))
    resolved = life.state.conflicts[name].resolved
    assert resolved is not None
    return resolved


@pytest.mark.heavy
def test_an_open_conflict_is_foretold_with_those_who_entered() -> None:
    life = crowded()
    life.do(Tick(), life.now_ms + NOTICE_MS)
    life.do(Cancel("d"))
    contest = known(life, "big").contest
    assert isinstance(contest, Contest)
    assert contest.conflict == "1"
    assert [each.run for each in contest.entrants] == ["a", "b", "c", "d"]
    assert {each.run: each.gpus for each in contest.entrants}["d"] == 0
    assert contest.short == 4


def test_a_victim_sees_the_seed_and_the_odds_it_had() -> None:
    life = crowded()
    resolved = settled(life)
    victims = {cut.run for cut in resolved.cuts}
    assert victims in ({"a", "b"}, {"c", "d"})
    for name in "abcd":
        (ordeal,) = ordeals_of(life.state, name)
        assert (ordeal.odds, ordeal.owner_odds) == (Fraction(1, 4), Fraction(1, 2))
        assert ordeal.resolved.seed == resolved.seed
        assert ordeal.was_spared is any(each.spared for each in resolved.draws if each.run == name)
        gpus = 2 if name == "d" else 4
        assert ordeal.steps == (((CutStep.LOTTERY, gpus),) if name in victims else ())
    assert ordeals_of(life.state, "big") == []


@pytest.mark.heavy
def test_a_cut_run_may_not_call_and_says_so() -> None:
    life = crowded()
    victim = min(cut.run for cut in settled(life).cuts)
    found = known(life, victim)
    assert found.recourse is not None
    assert "it was itself cut within the cool-down" in found.recourse.why_not


def test_room_asked_for_by_hand_is_cut_before_anybody_is_drawn() -> None:
    life = new_life()
    grid = Malleable(gpus_min=4, gpus_max=16, gpus_step=4, gpus_desired=16)
    life.do(Submit(work("wide", 16, malleable=grid)))
    question = Question(ConflictCause.BY_HAND, Scope("default", "H100", ()), gpus=8)
    found = foresee(life.state, question, NOW_MS + NOTICE_MS)
    assert isinstance(found, Contest)
    assert (found.short, found.entrants, found.sample) == (0, (), None)
    assert [(cut.step, cut.gpus) for cut in found.cuts] == [(CutStep.SHRINK, 4)] * 2


def test_where_nothing_is_short_there_is_no_conflict_to_foresee() -> None:
    life = new_life()
    life.do(Submit(work("a", 8)))
    question = for_limit(life.state, Limit.of("envelope b-one/e"))
    assert foresee(life.state, question, NOW_MS + NOTICE_MS) is None


def test_room_that_cannot_be_made_is_refused() -> None:
    life = new_life()
    life.do(Submit(work("a", 16)))
    question = Question(ConflictCause.BY_HAND, Scope("default", "H100", ()), gpus=8)
    found = foresee(life.state, question, NOW_MS + NOTICE_MS)
    assert isinstance(found, Refusal)
    assert (found.code, found.short) == (RefusalCode.NOT_RESOLVABLE, 8)


@pytest.mark.heavy
def test_a_forecast_leaves_the_state_as_it_was() -> None:
    life, again = crowded(), crowded()
    for name in ("a", "big"):
        known(life, name)
    told(life, work("new", 16, "two"))
    assert same(life.state, again.state) == []


def limited(**quota: int) -> Life:
    """Return a ledger in which the first team is at its limit, with free room."""
    life = new_life()
    life.do(Apply((Owner(name="one", quota=Quota(**quota)),)))
    life.do(Submit(work("a", 8)))
    life.do(Submit(work("waits", 4, on_quota=OnQuota.WAIT)))
    return life


@pytest.mark.parametrize("quota", [{"nodes_max": 1}, {"concurrent_runs_max": 1}])
def test_a_run_that_waits_for_a_quota_counts_on_those_who_hold_it(quota: dict[str, int]) -> None:
    life = limited(**quota)
    found = known(life, "waits")
    assert (found.reservation, found.parked) == ("waits@1", "")
    assert (found.planned_start_ms, found.natural_start_ms) == (NOW_MS + LONG_MS,) * 2
    assert (found.confidence, found.overdue) == (Confidence.EXPECTED, ())
    late = known(life, "waits", NOW_MS + LONG_MS + HOUR_MS)
    assert (late.confidence, late.overdue) == (Confidence.ROUGH, ("a",))


def test_a_plan_names_the_payers_whose_window_closes_before_the_run_ends() -> None:
    closes_ms = NOW_MS + 6 * HOUR_MS
    early = envelope("early", 8, end_ms=closes_ms)
    life = Life(nodes=fleet({"A": 16}), budgets=[budget("b", "one", early, envelope("e", 4))])
    life.do(Submit(work("inside", 4, ms=SHORT_MS)))
    life.do(Submit(work("outside", 4, ms=LONG_MS)))
    assert told(life, work("inside", 4, ms=SHORT_MS)).closing == ()
    running = told(life, work("outside", 4, ms=LONG_MS))
    assert running.phase is Phase.RUNNING
    assert running.closing == ((envelope_id("b", "early"), closes_ms),)
    waiting = told(life, work("next", 8, ms=LONG_MS))
    assert waiting.plan_start_ms == NOW_MS + SHORT_MS
    assert waiting.closing == ((envelope_id("b", "early"), closes_ms),)
    [line] = [each for each in forecast_lines(waiting, ()) if "its window closes" in each]
    assert "6h before the expected end" in line


def test_a_run_that_waits_for_a_quota_of_nothing_has_no_start_and_no_confidence_in_one() -> None:
    life = new_life()
    life.do(Apply((Owner(name="one", quota=Quota(nodes_max=0)),)))
    life.do(Submit(work("waits", 4, on_quota=OnQuota.WAIT)))
    found = known(life, "waits")
    assert (found.start_ms, found.confidence) == (None, None)
