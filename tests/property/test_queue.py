"""The queue in small random worlds: used-up budgets come last, and prevent no start."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from quorate.core.admission.admit import Admitted
from quorate.core.audit.invariants import sweep
from quorate.core.commands import Apply, Command, Complete, Submit, Tick
from quorate.core.decide import decide
from quorate.core.profile.reserved_refusal import admit_beside
from quorate.core.tenancy.owner_scores import Scores, budget_used
from quorate.core.tenancy.queue_order import queue_order, ranked_lines
from quorate.core.tenancy.share_score import ONE
from quorate.model.amounts import HOUR_MS, MINUTE_MS
from quorate.model.events import Event, LeaseStarted
from quorate.model.specs import Owner, Pool, Quota, Run
from quorate.model.state.apply_event import apply, apply_all
from quorate.model.state.records import Phase
from quorate.model.state.state import State
from quorate.model.state.upstreams import eligible_since_ms
from quorate.testing.builders import NOW_MS, budget, envelope, fleet, run
from tests.oracles.effort import examples

TEAMS = ("ant", "bee", "cat")
BUSY = "busy"
"""An owner without limits that uses the whole fleet until it releases it."""


@dataclass(frozen=True)
class Past:
    """An ended or running run: its owner, its width, and its minutes."""

    owner: str
    gpus: int
    minutes: int
    ends: bool


quotas = st.builds(
    Quota,
    gpu_ms_budget=st.none() | st.sampled_from((0, 1, 4, 40)).map(lambda hours: hours * HOUR_MS),
    node_ms_budget=st.none() | st.sampled_from((1, 8)).map(lambda hours: hours * HOUR_MS),
    fair_share_target_ppm=st.none() | st.sampled_from((0, 100_000, 500_000)),
    burst_allowance_ppm=st.none() | st.just(1_500_000),
)
pasts = st.lists(
    st.builds(
        Past,
        owner=st.sampled_from(TEAMS),
        gpus=st.integers(1, 4),
        minutes=st.integers(0, 300),
        ends=st.booleans(),
    ),
    max_size=5,
)
asked = st.lists(
    st.tuples(
        st.sampled_from(TEAMS),
        st.sampled_from((1, 1, 2, 4, 12)),
        st.sampled_from((0, 1, 30)),
        st.booleans(),
    ),
    min_size=1,
    max_size=8,
)


class World:
    """Two domains of two nodes of four GPUs; every owner has money for all of them."""

    def __init__(self, teams: list[Quota], *, depth: int) -> None:
        self.state, self.now_ms, self.count = State(), NOW_MS, 0
        owners = [Owner(name=n, quota=q) for n, q in zip(TEAMS, teams, strict=True)]
        owners.append(Owner(name=BUSY))
        pool = Pool(name="default", reservation_depth=depth, disruption_rate_ppm=0)
        money = [budget(o.name, o.name, envelope("all", 100)) for o in owners]
        self.do(Apply((pool, *fleet({"A": 8, "B": 8}, gpus=4), *owners, *money)))

    def do(self, command: Command) -> tuple[Event, ...]:
        decision = decide(self.state, command, now_ms=self.now_ms, actor="test")
        assert decision.refusals == ()
        apply_all(self.state, decision.events)
        assert sweep(self.state) == []
        return decision.events

    def submit(self, owner: str, gpus: int, *, in_one: bool = False) -> Run:
        self.count += 1
        spec = run(
            f"r{self.count}",
            gpus,
            owner,
            expected_duration_ms=HOUR_MS,
            cross_group_spread=not in_one,
        )
        self.do(Submit(spec))
        return spec

    def live(self, history: list[Past]) -> None:
        """Play these runs, one after the other."""
        for past in history:
            spec = self.submit(past.owner, past.gpus)
            self.now_ms += past.minutes * MINUTE_MS
            self.do(Tick())
            if past.ends and self.state.runs[spec.name].phase is Phase.RUNNING:
                self.do(Complete(spec.name))

    def fill(self) -> list[str]:
        """Return the runs that now use every GPU that was free."""
        _, free = self.state.flavor_gpus("H100")
        return [self.submit(BUSY, 1).name for _ in range(free)]

    def is_over(self, owner: str) -> bool:
        used = budget_used(self.state, self.state.owners[owner], self.now_ms)
        return used is not None and used >= ONE


@pytest.mark.heavy
@examples(1.5)
@given(st.lists(quotas, min_size=3, max_size=3), pasts, st.sampled_from(TEAMS), st.integers(1, 16))
def test_with_room_whoever_asks_runs_whatever_was_used(
    teams: list[Quota], history: list[Past], owner: str, gpus: int
) -> None:
    world = World(teams, depth=100)
    world.live(history)
    _, free = world.state.flavor_gpus("H100")
    spec = world.submit(owner, min(gpus, max(1, free)))
    event("over its budget" if world.is_over(owner) else "within its budget")
    promised = bool(world.state.reservations)
    if free and not promised:
        assert world.state.runs[spec.name].phase is Phase.RUNNING


@pytest.mark.heavy
@examples(2)
@given(
    teams=st.lists(quotas, min_size=3, max_size=3),
    history=pasts,
    asking=asked,
    gone=st.integers(1, 12),
    depth=st.sampled_from((0, 0, 100)),
)
def test_when_room_comes_those_within_their_budgets_come_before_those_beyond(
    teams: list[Quota],
    history: list[Past],
    asking: list[tuple[str, int, int, bool]],
    *,
    gone: int,
    depth: int,
) -> None:
    world = World(teams, depth=depth)
    world.live(history)
    busy = world.fill()
    for owner, gpus, minutes, in_one in asking:
        world.now_ms += minutes * MINUTE_MS
        world.submit(owner, gpus, in_one=in_one)
    for name in busy[:gone]:
        promised = {r.made.run for r in world.state.reservations.values()}
        events = decide(world.state, Complete(name), now_ms=world.now_ms, actor="test").events
        trial, seen = world.state.overlay(), set[str]()
        for each in events:
            if isinstance(each, LeaseStarted) and each.run not in promised | seen:
                seen.add(each.run)
                if _is_over_in(trial, trial.runs[each.run].spec.owner, world.now_ms):
                    event("one beyond its budget starts")
                    _nobody_is_passed(trial, world.now_ms)
            apply(trial, each)
        world.do(Complete(name))


def _is_over_in(state: State, owner: str, now_ms: int) -> bool:
    used = budget_used(state, state.owners[owner], now_ms)
    return used is not None and used >= ONE


def _nobody_is_passed(state: State, now_ms: int) -> None:
    """Check that no owner within its budget could start a run instead."""
    for name in state.queued:
        record = state.runs[name]
        if record.reservation is None and not _is_over_in(state, record.spec.owner, now_ms):
            assert not isinstance(admit_beside(state, record.spec, now_ms), Admitted), name


@pytest.mark.heavy
@examples(2)
@given(st.lists(quotas, min_size=3, max_size=3), pasts, asked)
def test_the_queue_is_in_order_of_its_key(
    teams: list[Quota], history: list[Past], asking: list[tuple[str, int, int, bool]]
) -> None:
    world = World(teams, depth=0)
    world.live(history)
    world.fill()
    for owner, gpus, minutes, in_one in asking:
        world.now_ms += minutes * MINUTE_MS
        world.submit(owner, gpus, in_one=in_one)
    state, scores = world.state, Scores(world.state, world.now_ms)

    def key(name: str) -> tuple[bool, int, int, int]:
        record = state.runs[name]
        terms = scores.of(record.spec.owner, "H100")
        since_ms = eligible_since_ms(state, record)
        assert since_ms is not None
        return world.is_over(record.spec.owner), -terms.step, since_ms, record.seq

    order = queue_order(state, world.now_ms)
    assert order == sorted(state.pending, key=key)
    over = [world.is_over(state.runs[name].spec.owner) for name in order]
    assert over == sorted(over)


@pytest.mark.heavy
@examples(2)
@given(
    teams=st.lists(quotas, min_size=3, max_size=3),
    history=pasts,
    asking=asked,
    minutes=st.sampled_from((0, 0, 1, 9, 61)),
    ends=st.booleans(),
)
def test_lines_that_are_surely_before_one_are_before_it(
    teams: list[Quota],
    history: list[Past],
    asking: list[tuple[str, int, int, bool]],
    *,
    minutes: int,
    ends: bool,
) -> None:
    world = World(teams, depth=0)
    world.live(history)
    busy = world.fill()
    for owner, gpus, later, in_one in asking:
        world.now_ms += later * MINUTE_MS
        world.submit(owner, gpus, in_one=in_one)
    view, now_ms = world.state, world.now_ms + minutes * MINUTE_MS
    ranked_lines(view, world.now_ms)
    if ends and busy:
        decision = decide(view, Complete(busy[0]), now_ms=world.now_ms, actor="test")
        view = view.overlay()
        apply_all(view, decision.events)
    fresh = view.overlay()
    fresh.ranks_changed()
    for place, mine in enumerate(ranked_lines(fresh, now_ms)):
        surely = view.line_ranks.surely_before(mine, now_ms, len(TEAMS) + 1)
        assert surely <= place
        event("some are surely before it" if surely else "none is surely before it")


@pytest.mark.heavy
@examples(2)
@given(
    teams=st.lists(quotas, min_size=3, max_size=3),
    history=pasts,
    planned=st.lists(st.tuples(st.sampled_from(TEAMS), st.integers(1, 8)), min_size=1, max_size=4),
    minutes=st.lists(st.sampled_from((-1, 0, 1, 9, 61)), min_size=1, max_size=3),
    ends=st.booleans(),
)
def test_a_kept_rank_with_planned_gpus_is_the_rank_found_anew(
    teams: list[Quota],
    history: list[Past],
    planned: list[tuple[str, int]],
    minutes: list[int],
    *,
    ends: bool,
) -> None:
    world = World(teams, depth=0)
    world.live(history)
    busy, view, now_ms = world.fill(), world.state, world.now_ms
    for later in (0, *minutes):
        now_ms += later * MINUTE_MS
        if ends and busy:
            decision = decide(world.state, Complete(busy.pop()), now_ms=now_ms, actor="test")
            if len(minutes) % 2:
                apply_all(world.state, decision.events)
            else:
                view = world.state.overlay()
                apply_all(view, decision.events)
        fresh = view.overlay()
        fresh.ranks_changed()
        kept, anew = Scores(view, now_ms), Scores(fresh, now_ms)
        for owner, gpus in planned:
            for scores in (kept, anew):
                scores.plan(owner, "H100", gpus)
            assert kept.rank((owner, ("H100",))) == anew.rank((owner, ("H100",)))
