"""The Philly trace in rounds of ten minutes through the production engine, by max-min fairness.

``philly-rounds`` plays all 82,247 jobs on 1,280 GPUs, which takes a quarter of an hour or more, so
it runs only if ``--only`` names it. ``philly`` plays 1,500 jobs of half a day. Every virtual
cluster may use all GPUs, so only the rounds divide them. The benchmark needs the published trace
beside the repository, in ``../shared``. Without the trace, the benchmark prints a message and
measures nothing.
"""

from __future__ import annotations

import resource
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from time import process_time
from typing import Final

from benchmarks.figure import Effort, Figure, additions_ms
from quorate.adapters.stores.store_memory import MemoryStore
from quorate.ledger.chain import open_blocks
from quorate.model.amounts import DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS
from quorate.model.events import RoundShared
from quorate.model.specs import Discipline, Pool
from quorate.policy.files.cluster_file import Cluster
from quorate.sim.fleet_simulation import FleetPlay, plain_fleet
from quorate.sim.traces.trace_formats import read_trace
from quorate.sim.traces.trace_job import TraceJob

TRACE: Final = Path(__file__).parents[2] / "shared" / "data" / "traces" / "philly.csv"
GPUS: Final = 1_280
PART: Final = slice(24_000, 25_500)
PART_H: Final = 11
RUN_AND_ROUND_MS_MAX: Final = 0.2
CPU_S_MAX: Final = 15 * 60.0
QUICK_JOBS: Final = 1_000
PART_MS: Final = 5 * DAY_MS
"""The simulated time after which the progress is printed."""


def measure(effort: Effort) -> list[Figure]:
    """Return the CPU time of the trace, the CPU time per run and round, and the memory."""
    if not TRACE.is_file():
        print(f"philly-rounds: not measured: there is no {TRACE}", file=sys.stderr)
        return []
    jobs = read_trace(TRACE.read_text(encoding="utf-8"), "philly").jobs
    played = _played(jobs[: effort.of(len(jobs), QUICK_JOBS)], None)
    memory_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1_024
    return [
        Figure(
            name="philly: every job, rounds by max-min",
            unit="s",
            value=played.took_s,
            better="less",
            target=CPU_S_MAX,
            details={
                "jobs": played.jobs,
                "completed": played.completed,
                "mean completion time, h": round(played.jct_mean_h, 2),
                "memory of the process, MB": round(memory_mb),
                **played.details(),
            },
        ),
        _run_and_round(played, "every job"),
    ]


def part_in_rounds(jobs: Sequence[TraceJob], effort: Effort) -> Figure:
    """Return the CPU time per run and round of a part of ``jobs``."""
    return _run_and_round(_played(jobs[PART], effort.of(PART_H, 1)), "a part")


def _run_and_round(played: _Played, what: str) -> Figure:
    return Figure(
        name=f"philly: a run and round of {what}, max-min",
        unit="ms",
        value=SECOND_MS * played.took_s / max(1, played.runs_and_rounds),
        better="less",
        target=RUN_AND_ROUND_MS_MAX,
        details=played.details(),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Played:
    """The costs of a play, and its numbers of runs and rounds."""

    took_s: float
    rounds: int
    runs_and_rounds: int
    jobs: int
    completed: int = 0
    jct_mean_h: float = 0.0

    def details(self) -> dict[str, float | int | str]:
        return {
            "rounds": self.rounds,
            "runs in a round": round(self.runs_and_rounds / max(1, self.rounds)),
            "a million additions, ms": round(additions_ms()),
        }


def _played(jobs: Sequence[TraceJob], hours: int | None) -> _Played:
    """Play ``jobs`` from the first arrival on, for ``hours`` or, if None, until all have ended."""
    began_s = jobs[0].arrives_s
    part = [replace(job, arrives_s=job.arrives_s - began_s) for job in jobs]
    owners = dict.fromkeys(sorted({job.owner for job in part}), GPUS)
    pool = Pool(
        name="rounds",
        discipline=Discipline.ROUNDS,
        policy="max_min_fairness_perf",
        round_ms=10 * MINUTE_MS,
    )
    store = MemoryStore()
    fleet = plain_fleet(Cluster(flavors=("gpu",), gpus=(GPUS,)), owners, pool)
    play = FleetPlay(fleet, part, store=store)
    cpu_began_s = process_time()
    if hours is not None:
        play.go_on(hours * HOUR_MS)
    else:
        while play.go_on(PART_MS):
            took_s = process_time() - cpu_began_s
            told = f"{play.came:,} of {len(part):,} jobs arrived, {took_s:.0f} s of CPU"
            print(f"philly-rounds: {told}", file=sys.stderr, flush=True)
    took_s = process_time() - cpu_began_s
    events = (event for _, block in open_blocks(store.blocks()) for event in block)
    sizes = [len(event.shares) for event in events if isinstance(event, RoundShared)]
    found = _Played(took_s=took_s, rounds=len(sizes), runs_and_rounds=sum(sizes), jobs=play.came)
    if hours is not None:
        return found
    ends = [run for run in play.outcome("rounds").runs if run.ended_ms is not None]
    times_ms = [run.ended_ms - run.submitted_ms for run in ends if run.ended_ms is not None]
    mean_h = sum(times_ms) / max(1, len(times_ms)) / HOUR_MS
    return replace(found, completed=len(ends), jct_mean_h=mean_h)
