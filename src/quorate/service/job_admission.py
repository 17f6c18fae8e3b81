"""What the ledger and a cluster have to say to each other about workloads that are suspended. Pure.

A workload with an owner becomes a run. When the run starts, the workload is pinned to the nodes of
its leases and set going; when the run has to stop, it is suspended, and the leases end when none of
its pods is left. Nothing is remembered: whatever differs is seen again after a restart.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from quorate.adapters.kubernetes.job_kinds import SeenJob, Workload, workload_of
from quorate.adapters.kubernetes.job_patches import (
    message_patch,
    misfit,
    start_patch,
    suspend_patch,
)
from quorate.core.commands import Cancel, Command, Complete, Confirm, Fail, Submit
from quorate.model.amounts import SECOND_MS
from quorate.model.specs import OnQuota, PoolExecutor, Run
from quorate.model.state.records import TERMINAL, Phase, RunRecord
from quorate.model.state.state_view import StateView

NAME_CHARS_MAX: Final = 100
"""How much of a workload's name is in the name of its run."""
UID_CHARS: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRules:
    """Which cluster the workloads are in, and which namespace each owner has there."""

    cluster: str
    namespace_of: Callable[[str], str]

    @property
    def actor(self) -> str:
        """The actor of what is recorded: the name that pools have for the executor there."""
        return f"{PoolExecutor.KUBERNETES}/{self.cluster}"


@dataclass(slots=True)
class JobChanges:
    """What has to be recorded, what has to be changed in the cluster, and whose pods to look for.

    ``submitted`` are the workloads of the ``Submit`` commands, by run. ``gone`` are the workloads
    of which no pod is left, as far as that was looked for.
    """

    gone: Collection[str] = ()

    commands: list[Command] = field(default_factory=list)
    patches: list[tuple[SeenJob, dict[str, Any]]] = field(default_factory=list)
    unsure: list[Workload] = field(default_factory=list)
    submitted: dict[str, SeenJob] = field(default_factory=dict)


def run_name(workload: Workload) -> str:
    """Return the name of the run of a workload; another one of the same name has another run."""
    return f"{workload.name[:NAME_CHARS_MAX].rstrip('.-')}-{workload.uid[:UID_CHARS]}"


def job_changes(
    view: StateView,
    rules: JobRules,
    jobs: Mapping[str, SeenJob],
    *,
    watched: Collection[str],
    gone: Collection[str],
) -> JobChanges:
    """Return what makes ledger and cluster agree.

    ``jobs`` are the workloads with an owner, by how runs name them; ``watched`` the kinds of which
    all are known, and ``gone`` the workloads of which no pod is left.
    """
    found = JobChanges(gone)
    for job in jobs.values():
        name = run_name(job.workload)
        record = view.runs.get(name)
        if record is None:
            _admit(view, rules, job, found)
        elif record.spec.workload != str(job.workload) or not _is_home(rules, record, job.workload):
            _tell(job, f"the name of its run, {name}, is taken by another run", found)
        else:
            _agree(view, job, record, found)
    for name in _live_runs(view, rules):
        record = view.runs[name]
        text = record.spec.workload
        workload = None if text is None else workload_of(text)
        if workload is None or workload.kind.plural not in watched:
            continue
        if run_name(workload) != name:
            _end_foreign(view, record, workload, found)
        elif not _is_home(rules, record, workload):
            _end_stray(view, record, workload, found)
        elif text not in jobs:
            _end_without(view, record, workload, found)
    return found


def _is_home(rules: JobRules, record: RunRecord, workload: Workload) -> bool:
    """Return whether a workload is in the namespace of the owner of a run."""
    return rules.namespace_of(record.spec.owner) == workload.namespace


def _live_runs(view: StateView, rules: JobRules) -> list[str]:
    """Return the runs of workloads of this cluster that wait or have leases."""
    names = dict.fromkeys([*view.pending, *(lease.fact.run for lease in view.leases.values())])
    pools = _pools(view, rules)
    found = [(name, view.runs[name].spec) for name in names]
    return [name for name, spec in found if spec.workload is not None and spec.pool in pools]


def _pools(view: StateView, rules: JobRules) -> list[str]:
    return sorted(name for name, pool in view.pools.items() if pool.executor_name == rules.actor)


# --- A workload without a run ---


def _admit(view: StateView, rules: JobRules, job: SeenJob, found: JobChanges) -> None:
    """Submit a run for a workload that waits, or say in it what keeps that from happening."""
    if job.ended is not None:
        return
    made = _run_of(view, rules, job)
    if isinstance(made, str):
        _tell(job, made, found)
        return
    found.commands.append(Submit(made))
    found.submitted[made.name] = job


def _run_of(view: StateView, rules: JobRules, job: SeenJob) -> Run | str:
    """Return the run of a workload, or what is wrong with the workload and how to mend it."""
    wrong = _fault_of(view, rules, job)
    pool = _one_of(_pools(view, rules), job.pool, "pool of this cluster", "quorate.dev/pool")
    nodes = (each for each in view.nodes.values() if each.island.pool == pool.name)
    flavors = sorted({each.spec.flavor for each in nodes})
    flavor = _one_of(flavors, job.flavor, f"flavor in pool {pool.name}", "quorate.dev/flavor")
    if wrong or pool.fault or flavor.fault:
        return wrong or pool.fault or flavor.fault
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
    """Return what keeps a workload from being the work of its owner; empty if nothing does."""
    if not job.is_suspended:
        return "it is not suspended, so it runs without Quorate; create it with suspend: true"
    if job.fault:
        return job.fault
    if job.owner not in view.owners:
        return f"there is no owner {job.owner!r}; correct the label"
    home = rules.namespace_of(job.owner)
    if job.workload.namespace != home:
        return f"the work of {job.owner} is in the namespace {home}; create it there"
    return ""


@dataclass(frozen=True, slots=True)
class _Chosen:
    name: str = ""
    fault: str = ""


def _one_of(there: list[str], said: str, what: str, label: str) -> _Chosen:
    """Return the one that is ``said``, or the only one; else what is wrong."""
    if said and said not in there:
        return _Chosen(fault=f"there is no {what} {said!r}; there are: {', '.join(there) or '-'}")
    if not said and len(there) != 1:
        listed = ", ".join(there) or "-"
        return _Chosen(fault=f"which {what}? say it with the label {label}; there are: {listed}")
    return _Chosen(name=said or there[0])


def _tell(job: SeenJob, message: str, found: JobChanges, run: str = "") -> None:
    if job.message != message:
        found.patches.append((job, message_patch(job, message, run)))


# --- A workload and its run ---


def _agree(view: StateView, job: SeenJob, record: RunRecord, found: JobChanges) -> None:
    name = record.spec.name
    if record.phase in TERMINAL:
        _suspend(job, f"run {name} is {record.phase.value}", found)
    elif record.phase is Phase.PENDING:
        if job.ended is not None:
            found.commands.append(Cancel(name, "its workload has ended without it"))
        elif not job.is_suspended:
            _suspend(job, f"run {name} waits; why: quorate explain {name}", found)
        else:
            _tell(job, f"run {name} waits; why: quorate explain {name}", found, name)
    else:
        _keep_going(view, job, record, found)


def _suspend(job: SeenJob, message: str, found: JobChanges) -> None:
    if not job.is_suspended and job.ended is None:
        found.patches.append((job, suspend_patch(job, message)))
    elif job.ended is None:
        _tell(job, message, found)


def _keep_going(view: StateView, job: SeenJob, record: RunRecord, found: JobChanges) -> None:
    """Have a workload work where its run has leases, or stop, or report how it has ended."""
    name = record.spec.name
    if _ends_leases(view, record):
        _suspend(job, f"run {name} has to stop", found)
        if job.is_suspended or job.ended is not None:
            _confirm(view, record, job.workload, found)
    elif job.ended is not None:
        if _is_gone(job.workload, found):
            kind = Complete if job.ended.is_done else Fail
            found.commands.append(kind(name, job.ended.note, has_gone=True))
    elif job.is_suspended:
        _start(view, job, record, found)
    elif job.placed_on != tuple(_nodes_of(view, record)):
        _suspend(job, f"run {name} goes on elsewhere", found)


def _start(view: StateView, job: SeenJob, record: RunRecord, found: JobChanges) -> None:
    """Start a suspended workload on the nodes of its run, or fail the run where it cannot work."""
    name, gpus_of = record.spec.name, _nodes_of(view, record)
    wrong = misfit(job, gpus_of, is_alone=view.pools[record.spec.pool].whole_nodes)
    if wrong:
        found.commands.append(Fail(name, wrong, has_gone=True))
        return
    nodes = tuple(gpus_of)
    # Its controller must have seen that it was suspended, or it goes on with the pods of before.
    if job.is_idle and (job.placed_on in (None, nodes) or _is_gone(job.workload, found)):
        found.patches.append((job, start_patch(job, name, nodes)))


def _is_gone(workload: Workload, found: JobChanges) -> bool:
    """Return whether no pod of a workload is left; where that is not known, it is looked for."""
    if str(workload) in found.gone:
        return True
    found.unsure.append(workload)
    return False


def _ends_leases(view: StateView, record: RunRecord) -> bool:
    return any(view.leases[lease].ending is not None for lease in record.leases)


def _confirm(view: StateView, record: RunRecord, workload: Workload, found: JobChanges) -> None:
    """Confirm the end of leases that have to end, when no pod is left."""
    if _is_gone(workload, found):
        ending = [lease for lease in record.leases if view.leases[lease].ending is not None]
        found.commands += [Confirm(lease) for lease in ending]


def _nodes_of(view: StateView, record: RunRecord) -> dict[str, int]:
    """Return the nodes of a run by name, and how many GPUs it has of each; of whole nodes, all."""
    is_alone = view.pools[record.spec.pool].whole_nodes
    found: dict[str, int] = {}
    for lease in record.leases:
        for node, mask in view.leases[lease].fact.slots:
            found[node] = found.get(node, 0) + mask.bit_count()
    whole = {node: view.nodes[node].spec.gpus if is_alone else gpus for node, gpus in found.items()}
    return dict(sorted(whole.items()))


def _end_without(view: StateView, record: RunRecord, workload: Workload, found: JobChanges) -> None:
    """Cancel the run of a workload that is not there any more; confirm its end."""
    if _ends_leases(view, record):
        _confirm(view, record, workload, found)
    else:
        note = f"its {workload.kind.kind} was deleted"
        found.commands.append(Cancel(record.spec.name, note))


def _end_stray(view: StateView, record: RunRecord, workload: Workload, found: JobChanges) -> None:
    """Cancel a run whose workload is not its owner's to start and stop; that one is left alone."""
    if _ends_leases(view, record):
        _confirm(view, record, workload, found)
    else:
        note = f"its workload is in the namespace {workload.namespace}, which is not its owner's"
        found.commands.append(Cancel(record.spec.name, note))


def _end_foreign(view: StateView, record: RunRecord, workload: Workload, found: JobChanges) -> None:
    """Cancel a run that names the workload of another run: it has no pods of its own."""
    if _ends_leases(view, record):
        found.commands += [Confirm(lease) for lease in record.leases]
    else:
        note = f"its workload is the work of run {run_name(workload)}"
        found.commands.append(Cancel(record.spec.name, note))
