"""Burst: the runs without which an owner keeps its share, and who may call for such a cut."""

from __future__ import annotations

from quorate.core.commands import Apply, Cancel, Command, Submit
from quorate.core.decide import decide
from quorate.core.preemption.cut_trial import Trial
from quorate.core.preemption.soft_quota import is_burst, why_no_conflict
from quorate.model.amounts import HOUR_MS
from quorate.model.events import LotteryCommitted
from quorate.model.specs import Owner, Pool, Quota
from quorate.model.state.apply_event import apply_all
from quorate.model.state.records import Phase
from quorate.model.state.state import State
from quorate.testing.builders import NOW_MS, budget, envelope, fleet, run

HALF = Quota(fair_share_target_ppm=500_000)


def _world() -> State:
    """Return two domains of eight GPUs, two owners with half of them each, and an executor."""
    owners = (Owner(name="team", quota=HALF), Owner(name="other", quota=HALF))
    money = (budget(o.name, o.name, envelope("all", 16)) for o in owners)
    pool = Pool(name="default", disruption_rate_ppm=1_000_000, firm_horizon_ms=1_000 * HOUR_MS)
    state = State()
    apply_all(state, [LotteryCommitted(NOW_MS, "test", "00" * 32, 10)])
    return _do(state, Apply((pool, *fleet({"A": 8, "B": 8}), *owners, *money)))


def _do(state: State, command: Command, *, after_ms: int = 0) -> State:
    decision = decide(state, command, now_ms=NOW_MS + after_ms, actor="test", has_executor=True)
    assert decision.refusals == ()
    apply_all(state, decision.events)
    return state


def _start(state: State, name: str, gpus: int, owner: str = "team", *, spares: int = 0) -> None:
    hours = 48 * HOUR_MS
    spec = run(name, gpus, owner, expected_duration_ms=hours, spares_per_group=spares)
    _do(state, Submit(spec))
    assert state.runs[name].phase is Phase.RUNNING


def test_a_run_is_burst_while_the_others_keep_the_share() -> None:
    state = _world()
    _start(state, "a", 8)
    assert not is_burst(state, state.runs["a"])
    _start(state, "b", 8)
    assert is_burst(state, state.runs["a"])


def test_what_is_still_stopping_is_not_kept() -> None:
    state = _world()
    _start(state, "a", 8)
    _start(state, "b", 8)
    _do(state, Cancel("a"))
    assert state.leases["a/0"].ending is not None
    assert not is_burst(state, state.runs["b"])


def test_a_run_whose_first_lease_was_cut_before_is_looked_at_as_it_is() -> None:
    state = _world()
    _start(state, "a", 8)
    _start(state, "b", 4, spares=4)
    first, *_ = state.runs["b"].leases
    trial = Trial(state, whole=True).without((first,))
    assert is_burst(trial, state.runs["b"])


def test_what_an_owner_was_promised_by_conflict_counts_before_it_has_it() -> None:
    state = _world()
    for number in range(4):
        _start(state, f"a{number}", 4)
    for name in ("c", "d", "e"):
        hours = 8 * HOUR_MS
        _do(state, Submit(run(name, 4, "other", expected_duration_ms=hours)), after_ms=2 * HOUR_MS)
    asks = {name: state.reservations[f"{name}@1"].by_conflict for name in ("c", "d", "e")}
    assert asks == {"c": True, "d": True, "e": False}
    why = why_no_conflict(state, state.runs["e"], NOW_MS + 2 * HOUR_MS)
    assert why == "it would take other beyond its target share of H100"
