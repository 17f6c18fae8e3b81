"""Waits by cause add up exactly, over whole simulated histories with all kinds of faults."""

from __future__ import annotations

from collections import Counter
from functools import partial

import pytest

from quorate.core.accounting.wait_causes import _OF_REFUSAL, WaitBook, WaitCause
from quorate.ledger.chain import open_blocks
from quorate.model.events import Event
from quorate.model.refusal import RefusalCode
from quorate.sim.demand import Size
from quorate.sim.round_world import draw_round_world
from quorate.sim.seed_trial import Trial
from quorate.views.runs.wait_view import wait_of
from tests.oracles.effort import IS_SOAK, few_of, sized
from tests.oracles.rounds import POLICIES
from tests.oracles.waiting import leases_of, span_of, wait_parts

_OF_REQUESTS = {
    RefusalCode.INVALID,
    RefusalCode.UNKNOWN_NAME,
    RefusalCode.ALREADY_EXISTS,
    RefusalCode.CONFLICT,
    RefusalCode.STALE_VERSION,
    RefusalCode.KEY_REUSED,
    RefusalCode.NOT_RUNNING,
}
_SIZE = Size(hours=sized(5, 10), runs=sized(16, 40), wishes=sized(12, 30))
_SMALL = Size(hours=4, runs=16, wishes=10)


def _events(trial: Trial) -> list[Event]:
    trial.run()
    blocks = list(trial.store.blocks())
    return [event for _, block in open_blocks(blocks) for event in block]


def _check(events: list[Event]) -> Counter[WaitCause]:
    """Check every run of a history at its end and half-way; return the time of each cause."""
    total: Counter[WaitCause] = Counter()
    for count in (len(events) // 2, len(events)):
        part = events[:count]
        book, now_ms = WaitBook(), part[-1].at_ms
        book.enter(part)
        for run in book.runs():
            wait = book.wait_of(run, now_ms)
            assert dict(wait.parts_ms) == wait_parts(part, run, now_ms), run
            assert wait.total_ms == sum(wait.parts_ms.values())
            assert wait.total_ms == _without_gpus_ms(part, run, now_ms)
            total.update(wait.parts_ms)
            alone = WaitBook([run])
            alone.enter(part)
            assert alone.wait_of(run, now_ms) == wait
    return total


def _check_read_back(trial: Trial, events: list[Event]) -> None:
    """Check that reading only the blocks that name a run gives the same wait."""
    engine = trial.simulation.engine
    assert engine is not None, "it is open at the end"
    checked = 0
    for count in (len(events) // 2, len(events)):
        book, now_ms = WaitBook(), events[count - 1].at_ms
        book.enter(events[:count])
        for run in book.runs():
            record = engine.view.runs.get(run)
            if record is not None:
                found = wait_of(trial.store, record, upto_seq=count, now_ms=now_ms)
                assert found == book.wait_of(run, now_ms), run
                checked += 1
    assert checked


def _without_gpus_ms(events: list[Event], run: str, now_ms: int) -> int:
    """Return for how long ``run`` had no open lease, from the union of its leases."""
    began_ms, over_ms = span_of(events, run, now_ms)
    free_ms, reached_ms = 0, began_ms
    for start_ms, end_ms in sorted(
        (start_ms, over_ms if end_ms is None else end_ms)
        for start_ms, end_ms in leases_of(events, run).values()
    ):
        free_ms += max(0, start_ms - reached_ms)
        reached_ms = max(reached_ms, end_ms)
    return free_ms + max(0, over_ms - reached_ms)


@pytest.mark.slow
@pytest.mark.parametrize("seed", few_of(range(12), 1))
def test_the_parts_of_every_wait_add_up_in_pools_that_bind(seed: int) -> None:
    trial = Trial(seed, size=_SIZE)
    events = _events(trial)
    total = _check(events)
    assert len(total) >= 2, total
    _check_read_back(trial, events)


@pytest.mark.slow
@pytest.mark.parametrize("seed", few_of(range(8), 1))
def test_the_parts_of_every_wait_add_up_in_pools_of_rounds(seed: int) -> None:
    draw = partial(draw_round_world, policies=tuple(POLICIES), with_pairs=bool(seed % 2))
    trial = Trial(seed, size=_SIZE if IS_SOAK else _SMALL, draw=draw)
    trial.simulation.share_by(POLICIES)
    events = _events(trial)
    total = _check(events)
    assert WaitCause.ROUNDS in total, total
    _check_read_back(trial, events)


def test_every_refusal_that_holds_a_run_has_a_cause() -> None:
    assert set(RefusalCode) - set(_OF_REFUSAL) == _OF_REQUESTS
