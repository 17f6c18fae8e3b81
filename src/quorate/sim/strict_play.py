"""The published experiments: simulations of a trace in rounds, by a policy and a table of rates.

The mechanism is as published, including its defects and random generators; it has no budgets and no
payers. To play a trace in the production engine, see ``fleet_simulation.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from math import inf
from time import process_time
from typing import Final

from quorate.model.job_types import JobType
from quorate.policy.files.cluster_file import PUBLISHED_ORDER, Cluster
from quorate.policy.files.throughputs_file import ThroughputTable
from quorate.policy.plugin_policies import known_policies
from quorate.policy.policies.max_min_fairness import as_solved
from quorate.policy.rounds.round_book import ROUND_S, STRICT, Shares
from quorate.policy.rounds.round_places import Server
from quorate.sim.outcome import CapacityStep, Outcome, RunInterval, SimulatedRun, WaitCause
from quorate.sim.policy_shares import COST_UNIT, COSTS, Allocate, PolicyShares
from quorate.sim.published import has_pairs, strict_orders, strict_rules
from quorate.sim.published_makespan import PublishedMakespan
from quorate.sim.published_policies import (
    PublishedFifo,
    PublishedGandiva,
    PublishedIsolated,
    RowRate,
)
from quorate.sim.round_simulation import Moment, NeverRunError, Play, RoundJob, Setting, Tally
from quorate.sim.table_rates import row_rates
from quorate.sim.traces.trace_job import TraceError, TraceJob

_SECOND_MS: Final = 1_000
_HOUR_S: Final = 3_600.0
_TOGETHER: Final = False
_AS_SOLVED: Final = ("max_min_fairness_perf", "max_min_fairness_packed")
"""Policies for which strict mode takes the first optimal allocation of the solver, as published."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Experiment:
    """The parameters of an experiment.

    ``measured`` is (first, last + 1) of the measured jobs; None means all jobs.
    """

    policy: str
    cluster: Cluster
    table: ThroughputTable
    seed: int = 0
    measured: tuple[int, int] | None = None
    round_s: float = ROUND_S
    reset_gap_s: float = STRICT.reset_gap_s
    costs: Mapping[str, float] = field(default_factory=lambda: dict(COSTS))


class StrictPlay:
    """A running experiment: ``go_on`` plays a part of it, and returns whether more is left.

    ``never_ran`` has the jobs that could never run.
    """

    def __init__(self, asked: Experiment, jobs: Iterable[TraceJob]) -> None:
        self.asked = asked
        self.cluster = _ordered(asked.cluster)
        self.jobs: dict[str, TraceJob] = {}
        self._types: dict[str, JobType] = {}
        self.never_ran: tuple[str, ...] = ()
        self._cpu_s = 0.0
        has_prices = asked.costs.keys() >= set(self.cluster.flavors)
        self._prices = asked.costs if has_prices else {}
        self._known = frozenset(asked.table.types)
        self._rates = rates = row_rates(asked.table, self._types)
        setting = Setting(
            jobs=self._coming(jobs),
            servers=_servers(self.cluster),
            rules=strict_rules(asked.policy, asked.round_s, asked.reset_gap_s),
            has_pairs=has_pairs(asked.policy),
            measured=_measured(asked),
        )
        self.play = Play(
            setting,
            rates,
            self._allocate(lambda row, flavor: rates(row, flavor, _TOGETHER)),
            strict_orders(asked.policy, setting.flavors, asked.seed),
        )
        self._rounds = self.play.rounds()

    @property
    def tally(self) -> Tally:
        """The result so far."""
        return self.play.tally

    def go_on(self, rounds: int) -> bool:
        """Play up to ``rounds`` more rounds; return whether there is more to play."""
        began_s = process_time()
        try:
            for _ in range(rounds):
                if next(self._rounds, None) is None:
                    return False
        except NeverRunError as error:
            # As published: the simulation ends when nothing can run any more.
            self.never_ran = error.jobs
            return False
        finally:
            self._cpu_s += process_time() - began_s
        return True

    def _coming(self, jobs: Iterable[TraceJob]) -> Iterator[RoundJob]:
        """Yield the jobs in the form that rounds need.

        Raise ``TraceError`` for a job of no known type.
        """
        for job in jobs:
            kind = JobType(job.job_type or "", job.gpus)
            if kind not in self._known:
                what = f"is {kind.key}" if job.job_type else "is empty"
                raise TraceError(
                    0,
                    "job_type",
                    f"of job {job.name} {what}, which the table of rates does not have",
                    "add it to the table, or choose other jobs",
                )
            if job.steps is None:
                raise TraceError(
                    0, "steps", f"of job {job.name} are not known", "rounds need steps; add them"
                )
            self.jobs[job.name], self._types[job.name] = job, kind
            deadline_s = inf
            if job.slo is not None and job.duration_s is not None:
                deadline_s = job.arrives_s + job.slo * job.duration_s
            yield RoundJob(
                name=job.name,
                gpus=job.gpus,
                steps=job.steps,
                arrives_s=job.arrives_s,
                deadline_s=deadline_s,
            )

    def _allocate(self, rate: RowRate) -> Allocate:
        """Return the policy's allocation function.

        If the published version of the policy differs from ``policy/table.py``, the result is the
        published version.
        """
        asked, gpus = self.asked, dict(zip(self.cluster.flavors, self.cluster.gpus, strict=True))
        if asked.policy == "min_total_duration":
            return PublishedMakespan(gpus, self._types, rate)
        published: Callable[[Mapping[str, int]], Shares] | None = None
        if asked.policy == "isolated":
            published = PublishedIsolated(gpus)
        elif asked.policy == "fifo":
            published = PublishedFifo(gpus, asked.seed, rate)
        elif asked.policy == "gandiva":
            published = PublishedGandiva(gpus, asked.seed, rate)
        if published is None:
            policy = known_policies().by_name[asked.policy]
            if asked.policy in _AS_SOLVED:
                policy = replace(policy, solve=as_solved)
            return PolicyShares(policy, asked.table, self.cluster, self.jobs, asked.costs)
        given = published

        def allocate(moment: Moment) -> Shares:
            return given({job: self.jobs[job].gpus for job in moment.steps_left})

        return allocate

    # --- Results ---

    def measured(self) -> list[TraceJob]:
        """Return the jobs that are measured and have arrived."""
        begin, end = self.asked.measured or (0, len(self.jobs))
        return [job for place, job in enumerate(self.jobs.values()) if begin <= place < end]

    def figures(self) -> dict[str, float | int | None]:
        """Return the figures of the published experiments, for the measured jobs.

        The mean completion time includes only jobs that are done.
        """
        tally, names = self.tally, [job.name for job in self.measured()]
        return {
            "jct_mean_s": tally.mean_of(names),
            "makespan_s": tally.ended_s,
            "utilisation": tally.utilisation,
            "cost": sum(self._cost(name) for name in self.jobs) if self._prices else None,
            "jobs": len(names),
            "jobs_done": sum(tally.completion_s.get(name) is not None for name in names),
            "jobs_never_ran": len(self.never_ran),
            "rounds": tally.rounds,
            "slo_violations_published": len(set(self.play.missed()) & set(names)),
        }

    def _cost(self, job: str) -> float:
        charged, prices = self.tally.charged_gpu_s, self._prices
        return sum(
            charged.get((job, flavor), 0.0) * prices.get(flavor, 0.0) / _HOUR_S
            for flavor in self.cluster.flavors
        )

    def outcome(self) -> Outcome:
        """Return the outcome so far, with a run for each job that has arrived.

        All waits of a job have the cause ``ROUNDS``.
        """
        capacity = tuple(
            CapacityStep(at_ms=0, flavor=flavor, gpus=gpus)
            for flavor, gpus in zip(self.cluster.flavors, self.cluster.gpus, strict=True)
        )
        return Outcome(
            name=self.asked.policy,
            seed=self.asked.seed,
            started_ms=0,
            ended_ms=_ms(self.tally.ended_s),
            capacity=capacity,
            runs=tuple(self._run(job) for job in self.jobs.values()),
            cpu_s=self._cpu_s,
            cost_unit=COST_UNIT if self._prices == COSTS else "",
            measured=None
            if self.asked.measured is None
            else frozenset(job.name for job in self.measured()),
        )

    def _run(self, job: TraceJob) -> SimulatedRun:
        tally, came_ms = self.tally, _ms(job.arrives_s)
        spans = tally.spans.get(job.name, [])
        took_s = tally.completion_s.get(job.name)
        ended_ms = None if took_s is None else _ms(job.arrives_s + took_s)
        intervals = tuple(
            RunInterval(
                start_ms=_ms(span.start_s),
                end_ms=_ms(span.end_s),
                flavor=span.place.flavor,
                gpus=0 if span.is_second else job.gpus,
                domain=span.place.flavor,
            )
            for span in spans
        )
        until_ms = _ms(tally.ended_s) if ended_ms is None else ended_ms
        had_ms = sum(each.end_ms - each.start_ms for each in intervals)
        best = max(self._alone(job, flavor) for flavor in self.cluster.flavors)
        steps = job.steps or 0.0
        return SimulatedRun(
            name=job.name,
            owner=job.owner,
            gpus=job.gpus,
            submitted_ms=came_ms,
            started_ms=intervals[0].start_ms if intervals else None,
            ended_ms=ended_ms,
            intervals=intervals,
            ideal_ms=_ms(steps / best) if best else 0,
            deadline_ms=None
            if job.slo is None or job.duration_s is None
            else _ms(job.arrives_s + job.slo * job.duration_s),
            waits_ms={WaitCause.ROUNDS: until_ms - came_ms - had_ms},
            preemptions=tally.stops[job.name],
            steps_asked=steps,
            steps_done=steps - self.play.steps_left(job.name),
            cost=self._cost(job.name),
        )

    def _alone(self, job: TraceJob, flavor: str) -> float:
        return self._rates((job.name,), flavor, _TOGETHER)[0]


def _ms(seconds: float) -> int:
    return round(seconds * _SECOND_MS)


def _ordered(cluster: Cluster) -> Cluster:
    """Return ``cluster`` without flavors that have no GPU; the published flavors come first."""
    gpus = {f: n for f, n in zip(cluster.flavors, cluster.gpus, strict=True) if n}
    order: list[str] = [flavor for flavor in PUBLISHED_ORDER if flavor in gpus]
    order += [flavor for flavor in gpus if flavor not in PUBLISHED_ORDER]
    return Cluster(flavors=tuple(order), gpus=tuple(gpus[flavor] for flavor in order))


def _servers(cluster: Cluster) -> tuple[Server, ...]:
    """Return a server for each GPU, ordered by flavor, as in the published experiments."""
    gpus = dict(zip(cluster.flavors, cluster.gpus, strict=True))
    flavors = [flavor for flavor in sorted(gpus) for _ in range(gpus[flavor])]
    return tuple(Server(flavor=flavor, gpus=(gpu,)) for gpu, flavor in enumerate(flavors))


def _measured(asked: Experiment) -> frozenset[str] | None:
    if asked.measured is None:
        return None
    return frozenset(str(place) for place in range(*asked.measured))
