"""Compares the ledger with the suspended workloads of a cluster (pure functions).

A workload with an owner becomes a run. When the run starts, the workload is pinned to the nodes of
the run's leases and resumed. When the run must stop, the workload is suspended, and the leases end
when no pod of the workload is left. This module stores nothing: after a restart it finds each
difference again.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any, Final

from quorate.adapters.kubernetes.job_kinds import Workload, workload_of
from quorate.adapters.kubernetes.job_patches import (
    is_pinned_to,
    message_patch,
    misfit,
    start_patch,
    suspend_patch,
)
from quorate.adapters.kubernetes.job_watch import SeenJobs
from quorate.adapters.kubernetes.seen_jobs import SeenJob
from quorate.core.commands import Cancel, Command, Complete, Confirm, Fail, Submit
from quorate.model.amounts import SECOND_MS
from quorate.model.state.records import TERMINAL, Phase, RunRecord
from quorate.model.state.state_view import StateView
from quorate.service.job_runs import JobRules, pools_of, run_name, run_of

LATE_MS: Final = 10 * SECOND_MS
"""Pods are killed if they still run ``LATE_MS`` after the deadline of their stop.

Pods may run beyond the deadline, because the grace period of a pod begins later than the stop.
"""


@dataclass(slots=True)
class JobChanges:
    """The commands to record, and the changes to the cluster.

    ``unsure`` has the workloads whose pods must be looked up. ``submitted`` has the workloads of
    the ``Submit`` commands, by run. ``gone`` has the workloads for which a look-up found no pod.
    ``overdue`` has the workloads whose pods have outlived the deadline of their stop. ``broken``
    has the workloads that could not be compared because of a bug; the other workloads do not wait
    for these workloads.
    """

    now_ms: int
    gone: Collection[str] = ()

    commands: list[Command] = field(default_factory=list)
    patches: list[tuple[SeenJob, dict[str, Any]]] = field(default_factory=list)
    unsure: list[Workload] = field(default_factory=list)
    overdue: list[Workload] = field(default_factory=list)
    submitted: dict[str, SeenJob] = field(default_factory=dict)
    broken: dict[str, Exception] = field(default_factory=dict)

    def add(self, other: JobChanges) -> None:
        """Add the changes for one workload."""
        self.commands += other.commands
        self.patches += other.patches
        self.unsure += other.unsure
        self.overdue += other.overdue
        self.submitted |= other.submitted


def job_changes(
    view: StateView, rules: JobRules, seen: SeenJobs, *, gone: Collection[str], now_ms: int
) -> JobChanges:
    """Return the changes that make ledger and cluster agree.

    ``seen`` has the workloads with an owner, and ``gone`` has the workloads without pods.
    """
    found = JobChanges(now_ms, gone)
    for key, job in seen.jobs.items():
        one = JobChanges(now_ms, gone)
        try:
            _see_to(view, rules, job, one)
        except Exception as error:  # noqa: BLE001 - one workload must not keep all others waiting
            found.broken[key] = error
        else:
            found.add(one)
    for name in _live_runs(view, rules):
        record = view.runs[name]
        text = record.spec.workload
        workload = None if text is None else workload_of(text)
        if workload is None or workload.kind.plural not in seen.watched:
            continue
        if run_name(workload) != name:
            _end_foreign(view, record, workload, found)
        elif not _is_home(rules, record, workload):
            _end_stray(view, record, workload, found)
        elif text not in seen.jobs:
            _end_without(view, record, workload, found)
    return found


def _see_to(view: StateView, rules: JobRules, job: SeenJob, found: JobChanges) -> None:
    """Find the changes that make the ledger and one workload agree."""
    name = run_name(job.workload)
    record = view.runs.get(name)
    if record is None:
        _admit(view, rules, job, found)
    elif record.spec.workload != str(job.workload) or not _is_home(rules, record, job.workload):
        _tell(job, f"the name of its run, {name}, is used by another run", found)
    else:
        _agree(view, job, record, found)


def _is_home(rules: JobRules, record: RunRecord, workload: Workload) -> bool:
    """Return whether a workload is in the namespace of the owner of a run."""
    return rules.namespace_of(record.spec.owner) == workload.namespace


def _live_runs(view: StateView, rules: JobRules) -> list[str]:
    """Return the runs of this cluster's workloads that wait or have leases."""
    names = dict.fromkeys([*view.pending, *(lease.fact.run for lease in view.leases.values())])
    pools = pools_of(view, rules)
    found = [(name, view.runs[name].spec) for name in names]
    return [name for name, spec in found if spec.workload is not None and spec.pool in pools]


# --- A workload without a run ---


def _admit(view: StateView, rules: JobRules, job: SeenJob, found: JobChanges) -> None:
    """Submit a run for a waiting workload, or write to the workload why that is impossible."""
    if job.ended is not None:
        return
    made = run_of(view, rules, job)
    if isinstance(made, str):
        _tell(job, made, found)
        return
    found.commands.append(Submit(made))
    found.submitted[made.name] = job


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
            found.commands.append(Cancel(name, "its workload has ended"))
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
    """Start or suspend the workload of a run with leases, or record that the workload has ended."""
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
    else:
        nodes = tuple(_nodes_of(view, record))
        if job.placed_on != nodes:
            _suspend(job, f"run {name} continues on other nodes", found)
        else:
            wrong = _changed(job, record)
            if not wrong and not is_pinned_to(job, nodes):
                wrong = (
                    f"the pod template must name exactly the nodes of the run: {', '.join(nodes)}"
                )
            if wrong:
                _suspend(job, wrong, found)


def _changed(job: SeenJob, record: RunRecord) -> str:
    """Return how a workload differs from its run; empty if it does not differ."""
    if job.fault:
        return job.fault
    if job.gpus != record.spec.gpus:
        return (
            f"the workload asks for {job.gpus} GPUs, but its run {record.spec.name} is for "
            f"{record.spec.gpus}; create another workload"
        )
    return ""


def _start(view: StateView, job: SeenJob, record: RunRecord, found: JobChanges) -> None:
    """Start a suspended workload on its run's nodes; fail the run if the workload does not fit."""
    name, gpus_of = record.spec.name, _nodes_of(view, record)
    is_alone = view.pools[record.spec.pool].whole_nodes
    wrong = _changed(job, record) or misfit(job, gpus_of, is_alone=is_alone)
    if wrong:
        # The workload may have run before it was changed, and may still have pods.
        if _is_gone(job.workload, found):
            found.commands.append(Fail(name, wrong, has_gone=True))
        return
    nodes = tuple(gpus_of)
    # The controller must have seen the suspension; otherwise it would keep the old pods.
    if job.is_idle and (job.placed_on in (None, nodes) or _is_gone(job.workload, found)):
        found.patches.append((job, start_patch(job, name, nodes)))


def _is_gone(workload: Workload, found: JobChanges) -> bool:
    """Return whether no pod of a workload is left; if this is unknown, request a look-up."""
    if str(workload) in found.gone:
        return True
    found.unsure.append(workload)
    return False


def _ends_leases(view: StateView, record: RunRecord) -> bool:
    return any(view.leases[lease].ending is not None for lease in record.leases)


def _confirm(
    view: StateView,
    record: RunRecord,
    workload: Workload,
    found: JobChanges,
    *,
    is_own: bool = True,
) -> None:
    """Confirm the end of leases that must end, when no pod is left.

    ``is_own`` is true if the workload belongs to the run. In that case, pods that have outlived the
    deadline are killed.
    """
    stops = {each: view.leases[each].ending for each in record.leases}
    ending = {each: stop for each, stop in stops.items() if stop is not None}
    if _is_gone(workload, found):
        found.commands += [Confirm(lease) for lease in ending]
    elif is_own and found.now_ms > max(stop.deadline_ms for stop in ending.values()) + LATE_MS:
        found.overdue.append(workload)


def _nodes_of(view: StateView, record: RunRecord) -> dict[str, int]:
    """Return the number of the run's GPUs by node; in a pool of whole nodes, all GPUs of a node."""
    is_alone = view.pools[record.spec.pool].whole_nodes
    found: dict[str, int] = {}
    for lease in record.leases:
        for node, mask in view.leases[lease].fact.slots:
            found[node] = found.get(node, 0) + mask.bit_count()
    whole = {node: view.nodes[node].spec.gpus if is_alone else gpus for node, gpus in found.items()}
    return dict(sorted(whole.items()))


def _end_without(view: StateView, record: RunRecord, workload: Workload, found: JobChanges) -> None:
    """Cancel the run of a workload that no longer exists, and confirm the end of its leases."""
    if _ends_leases(view, record):
        _confirm(view, record, workload, found)
    else:
        note = f"its {workload.kind.kind} was deleted"
        found.commands.append(Cancel(record.spec.name, note))


def _end_stray(view: StateView, record: RunRecord, workload: Workload, found: JobChanges) -> None:
    """Cancel a run whose workload is not in its owner's namespace; the workload is not changed."""
    if _ends_leases(view, record):
        _confirm(view, record, workload, found, is_own=False)
    else:
        note = (
            f"the workload is in namespace {workload.namespace}, which is not its owner's namespace"
        )
        found.commands.append(Cancel(record.spec.name, note))


def _end_foreign(view: StateView, record: RunRecord, workload: Workload, found: JobChanges) -> None:
    """Cancel a run that names the workload of another run; such a run has no pods itself."""
    if _ends_leases(view, record):
        found.commands += [Confirm(lease) for lease in record.leases]
    else:
        note = f"its workload belongs to run {run_name(workload)}"
        found.commands.append(Cancel(record.spec.name, note))
