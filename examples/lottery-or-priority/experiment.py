"""The costs and benefits of ending work by lottery instead of by priority.

    python examples/lottery-or-priority/experiment.py --out FOLDER
    python examples/lottery-or-priority/experiment.py --out FOLDER --trace philly.csv

The first line draws a small trace; the second takes a part of a trace (``--part``, ``--gpus``).
FOLDER gets ``results.json`` and ``report.html``. The same jobs are played three times: by the
production engine with the lottery, by the production engine without conflicts, and by a greedy
scheduler with priorities, which stops jobs of lower priority. Each play is then repeated with one
owner that makes the false declarations that help it most.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from random import Random
from statistics import mean, pvariance
from typing import Final

from quorate.model.amounts import HOUR_MS, MINUTE_MS, SECOND_MS
from quorate.model.specs import Pool
from quorate.policy.files.cluster_file import Cluster
from quorate.sim.baselines.baseline_orders import BASELINES
from quorate.sim.baselines.baseline_simulation import BaselineJob, StopCost, simulate_baseline
from quorate.sim.fleet_simulation import Costs, FleetPlay, plain_fleet
from quorate.sim.outcome import Outcome, SimulatedRun
from quorate.sim.report.metrics import metrics_of, percentile, runs_by_owner
from quorate.sim.report.timelines import Cumulated, busy
from quorate.sim.traces.trace_formats import read_trace
from quorate.sim.traces.trace_job import TraceJob, by_arrival
from quorate.views.reports.html_report import html_report, html_table

LOTTERY: Final = "lottery"
NO_CONFLICTS: Final = "no conflicts"
PRIORITY: Final = "priority"
URGENT: Final = 2
CLASSES: Final = (0,) * 6 + (1,) * 3 + (URGENT,)
"""The true urgency of jobs: of ten jobs, one is very urgent and three are slightly urgent."""
CHECKPOINT_MS: Final = 10 * MINUTE_MS
STOP_MS: Final = MINUTE_MS
"""How long work keeps its GPUs after it was told to stop."""
RESTART_MS: Final = CHECKPOINT_MS // 2
"""The work that a stop loses under priorities: on average, half of the time between checkpoints."""
ENDS_MS: Final = 366 * 24 * HOUR_MS
"""The time limit of a play, because runs that are always stopped before a checkpoint never end."""
WINDOW_MS: Final = 6 * HOUR_MS
PART: Final = (16_000, 16_500)
GPUS: Final = 128


@dataclass(frozen=True, slots=True, kw_only=True)
class Arm:
    """The results of one way of scheduling, in hours, GPU-hours, and parts of 1."""

    name: str
    jct_mean_h: float
    jct_p90_h: float
    jct_p99_h: float
    jct_urgent_h: float
    share_variance: float
    preemptions: int
    lost_gpu_hours: float
    utilisation: float
    gain_of_liar: float
    loss_of_others: float
    lie: str


Play = Callable[[Sequence[TraceJob]], tuple[Outcome, float]]
"""Plays jobs, whose weight is their declared urgency; returns the outcome and lost GPU-hours."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Play the experiment, and write its results."""
    asked = _asked(arguments)
    if asked.trace is None:
        jobs, gpus = drawn_jobs(asked.seed), 8
    else:
        first, last = (int(each) for each in asked.part.split(":"))
        every = read_trace(asked.trace.read_text("utf-8")).jobs[first:last]
        jobs, gpus = _from_start(every, asked.seed), asked.gpus
    arms, outcomes = experiment(jobs, gpus)
    asked.out.mkdir(parents=True, exist_ok=True)
    found = {"jobs": len(jobs), "gpus": gpus, "arms": [asdict(each) for each in arms]}
    (asked.out / "results.json").write_text(json.dumps(found, indent=1), "utf-8")
    (asked.out / "report.html").write_text(page(arms, outcomes, len(jobs), gpus), "utf-8")
    print(f"3 ways to schedule {len(jobs)} jobs on {gpus} GPUs: {asked.out}/report.html")  # noqa: T201


def _asked(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--out", type=Path, required=True, help="the folder for the results")
    parser.add_argument("--trace", type=Path, help="a trace; without one jobs are drawn")
    parser.add_argument("--part", default=f"{PART[0]}:{PART[1]}", help="which jobs of the trace")
    parser.add_argument("--gpus", type=int, default=GPUS, help="how many GPUs there are")
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args(arguments)


def experiment(jobs: Sequence[TraceJob], gpus: int) -> tuple[list[Arm], list[Outcome]]:
    """Return the three arms, and the outcome of each without false declarations.

    The liar is the owner with the second most work. Under priorities, it declares that all of its
    jobs are very urgent. In the other arms, declarations do not rank jobs, so it declares half of
    each duration, and in another play twice each duration; the better result counts.
    """
    owners = sorted({job.owner for job in jobs})
    liar = sorted(owners, key=lambda owner: _work_s(jobs, owner))[-2]
    declaring = {
        "declares half of each duration": [_declared(job, liar, 0.5) for job in jobs],
        "declares twice each duration": [_declared(job, liar, 2.0) for job in jobs],
    }
    urgent = [replace(job, weight=URGENT) if job.owner == liar else job for job in jobs]
    ways: list[tuple[str, Play, dict[str, list[TraceJob]]]] = [
        (LOTTERY, _production(gpus, owners, has_conflicts=True), declaring),
        (NO_CONFLICTS, _production(gpus, owners, has_conflicts=False), declaring),
        (PRIORITY, _priorities(gpus), {"says that all of its jobs are urgent": urgent}),
    ]
    arms, outcomes = [], []
    names = {job.name for job in jobs if job.weight == URGENT}
    for name, play, lies in ways:
        honest, lost = play(jobs)
        honest = replace(honest, name=name)
        best = min(
            ((lie, play(told)[0]) for lie, told in lies.items()),
            key=lambda each: _jct_h(each[1].runs, liar),
        )
        arms.append(_arm(honest, lost, best, names, liar))
        outcomes.append(honest)
    return arms, outcomes


def _arm(
    honest: Outcome, lost: float, best: tuple[str, Outcome], urgent: set[str], liar: str
) -> Arm:
    """Return the results of an arm without lies, and the changes by the best lie."""
    lie, lied = best
    found = metrics_of(honest)
    ranked = sorted(_took_h(run) for run in honest.runs)
    others = [run.owner for run in honest.runs if run.owner != liar]
    return Arm(
        name=honest.name,
        jct_mean_h=mean(ranked),
        jct_p90_h=percentile(ranked, 90),
        jct_p99_h=percentile(ranked, 99),
        jct_urgent_h=mean(_took_h(run) for run in honest.runs if run.name in urgent),
        share_variance=share_variance(honest),
        preemptions=found.preemptions,
        lost_gpu_hours=lost,
        utilisation=found.utilisation,
        gain_of_liar=1 - _jct_h(lied.runs, liar) / _jct_h(honest.runs, liar),
        loss_of_others=_jct_h(lied.runs, *others) / _jct_h(honest.runs, *others) - 1,
        lie=lie,
    )


def share_variance(outcome: Outcome) -> float:
    """Return how unequally the used GPU time was divided among the owners who wanted GPUs.

    For each window of six hours, compute the ratio of each such owner's GPU time to an equal part
    of the used GPU time, and the variance of these ratios. The result is the mean over all windows
    in which two or more owners wanted GPUs; 0 means equal.
    """
    lines = {owner: Cumulated.of(busy(runs)) for owner, runs in runs_by_owner(outcome).items()}
    spans = [
        (run.owner, run.submitted_ms, run.ended_ms or outcome.ended_ms) for run in outcome.runs
    ]
    found = []
    for from_ms in range(outcome.started_ms, outcome.ended_ms, WINDOW_MS):
        to_ms = from_ms + WINDOW_MS
        active = {owner for owner, came, gone in spans if came < to_ms and gone > from_ms}
        used = [lines[owner].between(from_ms, to_ms) for owner in sorted(active)]
        if len(active) > 1 and sum(used):
            found.append(pvariance([each * len(used) / sum(used) for each in used]))
    return mean(found) if found else 0.0


# --- The three ways ---


def _production(gpus: int, owners: Sequence[str], *, has_conflicts: bool) -> Play:
    """Return a function that plays jobs by the production engine.

    Every owner may use all GPUs, so only GPUs are short.
    """
    usual = Pool(name="simulated")
    rate = usual.disruption_rate_ppm if has_conflicts else 0
    pool = Pool(name=usual.name, disruption_rate_ppm=rate)
    cluster = Cluster(flavors=("gpu",), gpus=(gpus,))
    costs = Costs(checkpoint_every_ms=CHECKPOINT_MS, saves_at_stop=False, stop_ms=STOP_MS)
    fleet = replace(plain_fleet(cluster, dict.fromkeys(owners, gpus), pool), costs=costs)

    def play(jobs: Sequence[TraceJob]) -> tuple[Outcome, float]:
        found = FleetPlay(fleet, jobs)
        while found.go_on(24 * HOUR_MS):
            assert found.now_ms < found.start_ms + ENDS_MS, f"{found.waiting} runs never end"
        assert not found.refused, found.refused[:3]
        return found.outcome("production"), found.lost_gpu_ms / HOUR_MS

    return play


def _priorities(gpus: int) -> Play:
    def play(jobs: Sequence[TraceJob]) -> tuple[Outcome, float]:
        asked = [
            BaselineJob(
                name=job.name,
                owner=job.owner,
                gpus=job.gpus,
                submitted_ms=round(job.arrives_s * SECOND_MS),
                duration_ms=max(1, round((job.duration_s or 0.0) * SECOND_MS)),
                estimate_ms=max(1, round((job.duration_s or 0.0) * SECOND_MS)),
                priority=round(job.weight),
            )
            for job in jobs
        ]
        cost = StopCost(lost_ms=lambda done_ms: min(done_ms, RESTART_MS))
        found = simulate_baseline(PRIORITY, asked, gpus, BASELINES["priority"], cost=cost)
        return found, sum(run.lost_gpu_ms for run in found.runs) / HOUR_MS

    return play


# --- Jobs ---


def drawn_jobs(seed: int) -> list[TraceJob]:
    """Return 40 jobs of four owners, which together ask for more than 8 GPUs."""
    chance = Random(f"{seed}/jobs")
    found = []
    for number in range(40):
        gpus = chance.choice((1, 1, 2, 4))
        minutes = chance.choice((20, 60, 60, 180, 480))
        found.append(
            TraceJob(
                name=f"job-{number:02d}",
                arrives_s=float(chance.randrange(20 * 3_600)),
                gpus=gpus,
                owner=chance.choice(("ant", "ant", "bee", "cat", "dog")),
                duration_s=minutes * MINUTE_MS / SECOND_MS,
                order=number,
            )
        )
    return _from_start(by_arrival(found), seed)


def _from_start(jobs: Sequence[TraceJob], seed: int) -> list[TraceJob]:
    """Return ``jobs``, timed from the first arrival, with their urgency as the weight."""
    chance = Random(f"{seed}/urgent")
    begin_s = jobs[0].arrives_s
    return [
        replace(job, arrives_s=job.arrives_s - begin_s, weight=float(chance.choice(CLASSES)))
        for job in jobs
    ]


def _declared(job: TraceJob, liar: str, factor: float) -> TraceJob:
    least_s = CHECKPOINT_MS / SECOND_MS
    if job.owner != liar or job.duration_s is None or job.duration_s * factor < least_s:
        return job  # Else it would be stopped before its first checkpoint, and never end.
    return replace(job, declared_s=job.duration_s * factor)


def _work_s(jobs: Sequence[TraceJob], owner: str) -> float:
    return sum(job.gpus * (job.duration_s or 0.0) for job in jobs if job.owner == owner)


def _took_h(run: SimulatedRun) -> float:
    assert run.ended_ms is not None, run.name
    return (run.ended_ms - run.submitted_ms) / HOUR_MS


def _jct_h(runs: Sequence[SimulatedRun], *owners: str) -> float:
    wanted = set(owners)
    return mean(_took_h(run) for run in runs if run.owner in wanted)


# --- The page ---


def page(arms: Sequence[Arm], outcomes: Sequence[Outcome], jobs: int, gpus: int) -> str:
    """Return the page with the costs and benefits of each arm, and the plots of reports."""
    rows: list[tuple[str, Callable[[Arm], str]]] = [
        ("completion time, mean", lambda arm: f"{arm.jct_mean_h:.2f} h"),
        ("completion time, P90", lambda arm: f"{arm.jct_p90_h:.1f} h"),
        ("completion time, P99", lambda arm: f"{arm.jct_p99_h:.1f} h"),
        ("completion time of urgent jobs, mean", lambda arm: f"{arm.jct_urgent_h:.2f} h"),
        ("variance of shares", lambda arm: f"{arm.share_variance:.3f}"),
        ("runs ended before their time", lambda arm: str(arm.preemptions)),
        ("work lost", lambda arm: f"{arm.lost_gpu_hours:.0f} GPU-hours"),
        ("utilisation", lambda arm: f"{arm.utilisation:.1%}"),
        ("a liar's jobs take less time by", lambda arm: f"{arm.gain_of_liar:.1%}"),
        ("others' jobs take more time by", lambda arm: f"{arm.loss_of_others:.1%}"),
        ("the best lie that was tried", lambda arm: arm.lie),
    ]
    table = html_table(
        "What it costs and gives",
        ["", *(arm.name for arm in arms)],
        [[name, *map(told, arms)] for name, told in rows],
    )
    about = (
        f"{jobs} jobs on {gpus} GPUs, all of which each owner may use. Work checkpoints every "
        "ten minutes, and loses the work since its last checkpoint when it is ended. Shares are "
        "compared with equal parts among the owners who want GPUs, in windows of six hours. Lost "
        "work is that of the simulation; under Figures it is an estimate from the ledger."
    )
    more = [f"<h2>Costs and benefits</h2><p>{about}</p>{table}"]
    return html_report(outcomes, title="Lottery or priority", more=more)


if __name__ == "__main__":
    main()
