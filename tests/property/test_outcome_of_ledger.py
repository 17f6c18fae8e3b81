"""The outcome of whole simulated ledgers: waits add up, no GPU is busy twice, time is charged."""

from __future__ import annotations

from collections import Counter
from functools import partial

import pytest

from quorate.ledger.chain import open_blocks
from quorate.model.events import (
    Event,
    LeaseEnded,
    LeaseStarted,
    NodeMarked,
    NodeStatus,
    Role,
    RunRequeued,
    RunSubmitted,
)
from quorate.sim.demand import Size
from quorate.sim.report.metrics import metrics_of
from quorate.sim.report.outcome_of_ledger import outcome_of_ledger
from quorate.sim.report.timelines import busy, capacity
from quorate.sim.round_world import draw_round_world
from quorate.sim.seed_trial import Trial
from tests.oracles.effort import few_of, sized
from tests.oracles.rounds import POLICIES

_SIZE = Size(hours=sized(5, 10), runs=sized(20, 60), wishes=sized(12, 30))


def _events(trial: Trial) -> list[Event]:
    trial.run()
    return [event for _, block in open_blocks(list(trial.store.blocks())) for event in block]


def _check(events: list[Event]) -> None:
    for count in (len(events) // 2, len(events)):
        _check_one(events[:count])
    stops = Counter(each.run for each in events if isinstance(each, RunRequeued))
    sharing = {
        each.run.name for each in events if isinstance(each, RunSubmitted) and each.run.rounds
    }
    for run in outcome_of_ledger(events, name="ledger").runs:
        # Only a run that shares in rounds may lose its GPUs without being put back in the queue.
        assert run.preemptions == stops[run.name] or run.name in sharing, run.name


def _check_one(events: list[Event]) -> None:
    outcome = outcome_of_ledger(events, name="ledger")
    assert outcome.runs
    for run in outcome.runs:
        over_ms = outcome.ended_ms if run.ended_ms is None else run.ended_ms
        has_ms = _union_ms([(each.start_ms, each.end_ms) for each in run.intervals])
        # A run whose node has failed keeps its lease for a while, and does not wait then.
        assert has_ms + sum(run.waits_ms.values()) <= over_ms - run.submitted_ms, run.name
        assert run.steps_done <= run.steps_asked
    for flavor in {step.flavor for step in outcome.capacity}:
        _never_above(busy(outcome.runs, flavor), capacity(outcome, flavor))
    found = metrics_of(outcome)
    assert 0 < found.utilisation <= 1
    assert found.completed


def _never_above(used: tuple[tuple[int, int], ...], there: tuple[tuple[int, int], ...]) -> None:
    steps = sorted({at_ms for at_ms, _ in (*used, *there)})
    for at_ms in steps:
        in_use = max(used, key=lambda each: (each[0] <= at_ms, each[0]), default=(at_ms, 0))
        of = max(there, key=lambda each: (each[0] <= at_ms, each[0]))
        if in_use[0] <= at_ms:
            assert of[0] <= at_ms
            assert 0 <= in_use[1] <= of[1], at_ms


def _union_ms(spans: list[tuple[int, int]]) -> int:
    total, reached = 0, 0
    for start_ms, end_ms in sorted(spans):
        total += max(0, end_ms - max(start_ms, reached))
        reached = max(reached, end_ms)
    return total


@pytest.mark.slow
@pytest.mark.parametrize("seed", few_of(range(12), 1))
def test_the_outcome_of_a_ledger_of_pools_that_bind(seed: int) -> None:
    _check(_events(Trial(seed, size=_SIZE)))


@pytest.mark.slow
@pytest.mark.parametrize("seed", few_of(range(8), 1))
def test_the_outcome_of_a_ledger_with_rounds(seed: int) -> None:
    draw = partial(draw_round_world, policies=tuple(POLICIES), with_pairs=bool(seed % 2))
    trial = Trial(seed, size=_SIZE, draw=draw)
    trial.simulation.share_by(POLICIES)
    _check(_events(trial))


@pytest.mark.slow
@pytest.mark.parametrize("seed", few_of(range(12, 18), 1))
def test_busy_time_is_what_usage_counts_where_no_node_fails_and_no_gpu_is_spare(seed: int) -> None:
    events = _events(Trial(seed, size=_SIZE))
    failed = {e.node for e in events if isinstance(e, NodeMarked) and e.status is NodeStatus.FAILED}
    left_out = {
        e.lease
        for e in events
        if isinstance(e, LeaseStarted)
        and (e.role is Role.SPARE or any(node in failed for node, _ in e.slots))
    }
    kept: list[Event] = [
        e
        for e in events
        if not (isinstance(e, LeaseStarted | LeaseEnded) and e.lease in left_out)
        and not isinstance(e, NodeMarked)
    ]
    outcome = outcome_of_ledger(kept, name="ledger")
    used = sum(
        each.gpus * (each.end_ms - each.start_ms) for run in outcome.runs for each in run.intervals
    )
    assert used == sum(
        mask.bit_count() * (end_ms - start.start_ms)
        for start, end_ms in _leases(kept)
        for _, mask in start.slots
    )


def _leases(events: list[Event]) -> list[tuple[LeaseStarted, int]]:
    ends = {e.lease: e.end_ms for e in events if isinstance(e, LeaseEnded)}
    now_ms = events[-1].at_ms
    return [(e, ends.get(e.lease, now_ms)) for e in events if isinstance(e, LeaseStarted)]
