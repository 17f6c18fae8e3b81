"""Contention in simulated traces: GPUs from a conflict or an overstayer go to its firm start."""

from __future__ import annotations

from dataclasses import replace

import pytest
from msgspec import structs

from quorate.adapters.stores.store_memory import MemoryStore
from quorate.ledger.chain import open_blocks
from quorate.model.amounts import HOUR_MS, MINUTE_MS
from quorate.model.events import ConflictDeclared, EndReason, Event, RunRequeued
from quorate.model.specs import Pool
from quorate.policy.files.cluster_file import Cluster
from quorate.sim.fleet_simulation import Costs, FleetPlay, plain_fleet
from quorate.sim.outcome import SimulatedRun
from quorate.sim.traces.trace_job import TraceJob, by_arrival

POOL = Pool(name="pool", runtime_min_ms=MINUTE_MS)
NO_GRACE = Costs(checkpoint_every_ms=MINUTE_MS, saves_at_stop=False, stop_ms=0)
DAY_MS = 24 * HOUR_MS


def job(
    name: str,
    at_min: float,
    gpus: int,
    takes_min: float,
    *,
    declared_min: float | None = None,
    owner: str = "ant",
) -> TraceJob:
    return TraceJob(
        name=name,
        arrives_s=at_min * 60,
        gpus=gpus,
        duration_s=takes_min * 60,
        declared_s=None if declared_min is None else declared_min * 60,
        owner=owner,
    )


def played(
    gpus: int, jobs: list[TraceJob], pool: Pool = POOL, costs: Costs = NO_GRACE
) -> tuple[dict[str, SimulatedRun], list[Event]]:
    """Return the runs by name and the events of a simulation, which ends within ten days."""
    owners = dict.fromkeys(sorted({each.owner for each in jobs}), gpus)
    fleet = plain_fleet(Cluster(flavors=("gpu",), gpus=(gpus,)), owners, pool)
    store = MemoryStore()
    play = FleetPlay(replace(fleet, costs=costs), by_arrival(jobs), store=store)
    for _ in range(10):
        if not play.go_on(DAY_MS):
            break
    else:
        raise AssertionError(f"{play.waiting} runs wait for ever")
    assert not play.refused
    events = [event for _, block in open_blocks(store.blocks()) for event in block]
    return {run.name: run for run in play.outcome("play").runs}, events


def replace_rate(pool: Pool, ppm: int) -> Pool:
    """Return ``pool`` with another disruption rate; 0 forbids conflicts."""
    return structs.replace(pool, disruption_rate_ppm=ppm)


def requeued(events: list[Event], reason: EndReason) -> list[str]:
    return [e.run for e in events if isinstance(e, RunRequeued) and e.reason is reason]


@pytest.mark.heavy
def test_room_that_a_lottery_freed_goes_to_its_caller_and_not_back_to_its_victims() -> None:
    # When the conflict is called, one of the two short runs has to end. The other ends before the
    # firm start, so that by counting alone the victim could start again at once.
    jobs = [
        job("wide", 0, 9, 600, owner="cat"),
        job("slow", 0, 4, 2, declared_min=200),
        job("brief-1", 0.5, 1, 15),
        job("brief-2", 0.5, 1, 15),
        job("wanted", 1, 3, 60),
    ]
    runs, events = played(13, jobs)
    assert len(requeued(events, EndReason.RANDOM_PREEMPT)) == 1
    assert sum(isinstance(event, ConflictDeclared) for event in events) == 1
    assert runs["wanted"].started_ms == runs["slow"].submitted_ms + 16 * MINUTE_MS


def test_overstayers_that_never_checkpoint_do_not_stop_each_other_for_ever() -> None:
    jobs = [
        job("first", 0, 1, 30),
        *(job(name, 1, 2, 60, declared_min=20) for name in ("a", "b", "c")),
    ]
    costs = Costs(checkpoint_every_ms=DAY_MS, saves_at_stop=False, stop_ms=MINUTE_MS)
    runs, events = played(2, jobs, replace_rate(POOL, 0), costs)
    assert all(run.ended_ms is not None for run in runs.values())
    stopped = requeued(events, EndReason.OVERSTAYED)
    assert stopped, "nothing overstayed: the test tries nothing"
    assert len(stopped) <= len(jobs)
