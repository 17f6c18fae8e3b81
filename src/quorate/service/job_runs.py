"""Makes a run from a cluster's workload, or returns why that is not possible (pure functions)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from quorate.adapters.kubernetes.job_kinds import Workload
from quorate.adapters.kubernetes.seen_jobs import SeenJob
from quorate.documents.times import duration_text
from quorate.model.amounts import SECOND_MS
from quorate.model.specs import OnQuota, Pool, PoolExecutor, Run
from quorate.model.state.state_view import StateView

NAME_CHARS_MAX: Final = 100
"""How many characters of a workload's name are in the name of its run."""
UID_CHARS: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRules:
    """The cluster of the workloads, and the namespace of each owner there."""

    cluster: str
    namespace_of: Callable[[str], str]

    @property
    def actor(self) -> str:
        """The actor of the recorded events: the name that pools use for the cluster's executor."""
        return f"{PoolExecutor.KUBERNETES}/{self.cluster}"


def run_name(workload: Workload) -> str:
    """Return the name of a workload's run; workloads of the same name get different run names."""
    return f"{workload.name[:NAME_CHARS_MAX].rstrip('.-')}-{workload.uid[:UID_CHARS]}"


def pools_of(view: StateView, rules: JobRules) -> list[str]:
    """Return the names of a cluster's pools, sorted."""
    return sorted(name for name, pool in view.pools.items() if pool.executor_name == rules.actor)


def run_of(view: StateView, rules: JobRules, job: SeenJob) -> Run | str:
    """Return the run of a workload, or the fault of the workload with its remedy."""
    wrong = _fault_of(view, rules, job)
    pool = _one_of(pools_of(view, rules), job.pool, "pool of this cluster", "quorate.dev/pool")
    nodes = (each for each in view.nodes.values() if each.island.pool == pool.name)
    flavors = sorted({each.spec.flavor for each in nodes})
    flavor = _one_of(flavors, job.flavor, f"flavor in pool {pool.name}", "quorate.dev/flavor")
    wrong = wrong or pool.fault or flavor.fault or _too_slow(view.pools[pool.name], job)
    if wrong:
        return wrong
    return Run(
        name=run_name(job.workload),
        owner=job.owner,
        flavors=(flavor.name,),
        gpus=job.gpus,
        pool=pool.name,
        expected_duration_ms=None if not job.deadline_s else job.deadline_s * SECOND_MS,
        checkpoint_ms=job.grace_s * SECOND_MS,
        on_quota=OnQuota.WAIT,
        nonce=job.workload.uid,
        workload=str(job.workload),
    )


def _fault_of(view: StateView, rules: JobRules, job: SeenJob) -> str:
    """Return why a workload cannot become a run of its owner; empty if it can."""
    if not job.is_suspended:
        return (
            "the workload is not suspended, so it runs without Quorate; create it with suspend: "
            "true"
        )
    if job.fault:
        return job.fault
    if job.owner not in view.owners:
        return f"there is no owner {job.owner!r}; correct the label"
    home = rules.namespace_of(job.owner)
    if job.workload.namespace != home:
        return f"the work of {job.owner} must be in the namespace {home}; create it there"
    return ""


def _too_slow(pool: Pool, job: SeenJob) -> str:
    """Return the fault if the grace period of pods is longer than the pool allows; else empty."""
    if job.grace_s * SECOND_MS <= pool.grace_max_ms:
        return ""
    return (
        f"terminationGracePeriodSeconds: {job.grace_s} is more than maxGrace of pool {pool.name}, "
        f"{duration_text(pool.grace_max_ms)}; lower the grace period"
    )


@dataclass(frozen=True, slots=True)
class _Chosen:
    name: str = ""
    fault: str = ""


def _one_of(there: list[str], said: str, what: str, label: str) -> _Chosen:
    """Return the chosen name, or the fault if no name can be chosen.

    The chosen name is ``said``. If ``said`` is empty, the chosen name is the only name in
    ``there``.
    """
    if said and said not in there:
        return _Chosen(
            fault=f"there is no {what} {said!r}; choose one of: {', '.join(there) or '-'}"
        )
    if not said and len(there) != 1:
        listed = ", ".join(there) or "-"
        return _Chosen(fault=f"the {what} is ambiguous; set the label {label} to one of: {listed}")
    return _Chosen(name=said or there[0])
