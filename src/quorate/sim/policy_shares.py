"""Computes the allocations of simulated rounds with the policies of ``policy/table.py``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Final

import numpy as np

from quorate.policy.allocation import ALONE, Allocation, Unsolved
from quorate.policy.askable import answer
from quorate.policy.files.cluster_file import Cluster
from quorate.policy.files.file_faults import Faulty
from quorate.policy.files.jobs_file import JobState
from quorate.policy.files.table_problem import problem_from_table
from quorate.policy.files.throughputs_file import ThroughputTable
from quorate.policy.policies.finish_time_fairness import isolated_rates
from quorate.policy.policies.min_total_duration import reference_rates
from quorate.policy.policy_type import Policy
from quorate.policy.problem import Floats, Problem
from quorate.policy.rounds.round_book import Row, Shares
from quorate.sim.round_simulation import Moment, RoundsStuckError
from quorate.sim.traces.trace_job import TraceJob

Allocate = Callable[[Moment], Shares]
COSTS: Mapping[str, float] = {"v100": 0.74, "p100": 0.43, "k80": 0.135}
"""The published prices in dollars per GPU and hour, used if the caller gives no other prices."""
COST_UNIT: Final = "dollars at Gavel's prices"
"""The unit and the source of costs that are computed from ``COSTS``."""


def known_prices(flavors: Iterable[str]) -> Mapping[str, float]:
    """Return ``COSTS`` if it has all ``flavors``, else no prices: a partial cost would mislead."""
    return COSTS if set(flavors) <= COSTS.keys() else {}


class PolicyShares:
    """Calls ``policy`` whenever a new allocation is due. ``jobs`` has every job that has arrived.

    Some policies compare each job with the same job alone on an equal part of the cluster. They ask
    how long the job would have taken there for the work that it has done. For these policies, each
    call adds this time for the work since the last call.
    """

    def __init__(
        self,
        policy: Policy,
        table: ThroughputTable,
        cluster: Cluster,
        jobs: Mapping[str, TraceJob],
        costs: Mapping[str, float],
    ) -> None:
        self._policy = policy
        self._table = table
        self._cluster = cluster
        self._jobs = jobs
        self._costs = (
            np.array([costs[flavor] for flavor in cluster.flavors]) if policy.reads_costs else None
        )
        self._steps_before: dict[str, float] = {}
        self._isolated_s: dict[str, float] = {}
        self._isolated_rate: dict[str, float] = {}
        self._is_agnostic = policy.name == "finish_time_fairness"
        self._compares = policy.name.startswith("finish_time_fairness")

    def __call__(self, moment: Moment) -> Shares:
        """Return the shares that the policy gives to the jobs of ``moment``."""
        if not moment.steps_left:
            return {}
        if self._compares:
            self._count_isolated(moment)
        problem = self._problem(moment)
        if self._compares:
            self._note_isolated(problem)
        found = answer(self._policy, problem)
        if isinstance(found, Unsolved):
            raise RoundsStuckError(
                f"{self._policy.name} has no answer at {moment.at_s:.0f} s: {found.message}; "
                f"{found.remedy}"
            )
        return _shares(problem, found)

    def _count_isolated(self, moment: Moment) -> None:
        for job, left in moment.steps_left.items():
            if job in self._isolated_rate:
                done = self._steps_before[job] - left
                self._isolated_s[job] += done / self._isolated_rate[job]
        self._steps_before = dict(moment.steps_left)

    def _note_isolated(self, problem: Problem) -> None:
        if self._is_agnostic:
            problem = replace(problem, rates=reference_rates(problem))
        rates: Floats = isolated_rates(problem, len(problem.jobs))
        self._isolated_rate = dict(zip(problem.jobs, rates.tolist(), strict=True))
        self._isolated_s = {job: self._isolated_s.get(job, 0.0) for job in problem.jobs}

    def _problem(self, moment: Moment) -> Problem:
        states = [self._state(name, moment) for name in moment.steps_left]
        found = problem_from_table(
            self._table, states, self._cluster, with_pairs=self._policy.reads_pairs
        )
        if isinstance(found, Faulty):
            raise RoundsStuckError("; ".join(fault.text() for fault in found.faults))
        return replace(found, costs=self._costs)

    def _state(self, name: str, moment: Moment) -> JobState:
        job = self._jobs[name]
        deadline_s = float("inf")
        if job.slo is not None and job.duration_s is not None:
            deadline_s = job.slo * job.duration_s - moment.ages_s[name]
        return JobState(
            name=name,
            job_type=job.job_type,
            scale=job.gpus,
            weight=job.weight,
            steps_left=moment.steps_left[name],
            age_s=moment.ages_s[name],
            isolated_s=self._isolated_s.get(name, 0.0),
            deadline_s=deadline_s,
        )


def _shares(problem: Problem, found: Allocation) -> Shares:
    """Return an allocation as rows: each job alone, then the pairs with a share."""
    shares: dict[Row, dict[str, float]] = {}
    names, flavors = problem.jobs, problem.flavors
    for first, second, row in zip(
        found.first.tolist(), found.second.tolist(), found.shares.tolist(), strict=True
    ):
        key = (names[first],) if second == ALONE else (names[first], names[second])
        shares[key] = dict(zip(flavors, row, strict=True))
    return shares
