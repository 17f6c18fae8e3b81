"""The fleet in summary, and the output of a run.

Every caller may see how much of the fleet is in use, but only the names of its own tenants. The
output of a run can be shown if an executor keeps the output.
"""

from __future__ import annotations

from typing import Any, Final

from quorate.adapters.kubernetes.job_kinds import workload_of
from quorate.adapters.kubernetes.object_names import object_name
from quorate.adapters.kubernetes.pod_manifest import RUN_LABEL
from quorate.documents.times import time_text
from quorate.model.specs import PoolExecutor
from quorate.model.state.records import TERMINAL, RunRecord
from quorate.operations.answer_types import Answer
from quorate.operations.fleet.observe_operations import FleetTop, RunLogs, ShowMap
from quorate.operations.operation import Operation
from quorate.operations.request_context import RequestContext
from quorate.operations.unknown_names import check_run
from quorate.operations.visibility import tenants_of
from quorate.ports.log_port import Logs, Output
from quorate.views.exits import UNKNOWN_NAME, CommandError, Exit
from quorate.views.runs.fleet_map import map_of
from quorate.views.runs.fleet_view import top_of


def fleet_top(context: RequestContext, asked: FleetTop, operation: Operation) -> Answer:
    """Return used and free GPUs by flavor and domain, and the owners that use them."""
    del operation
    moment, caller = context.moment, context.caller
    _check_pool(context, asked.pool)
    seen = None if caller.oversees else tenants_of(moment.view, caller)
    top = top_of(moment, asked.pool, seen)
    empty = () if top.flavors else ("there are no nodes",)
    return Answer(
        tree=top.tree,
        lines=lambda wide: top.lines(show_wide=wide) if top.flavors else (),
        notes=(*context.notes, *empty),
    )


def fleet_map(context: RequestContext, asked: ShowMap, operation: Operation) -> Answer:
    """Return every node, and for each of its GPUs the lease that has the GPU."""
    del operation
    _check_pool(context, asked.pool)
    found = map_of(context.moment, asked.pool)
    is_empty = not found.nodes["name"]
    return Answer(
        tree=found.tree,
        lines=lambda wide: () if is_empty else found.lines(show_wide=wide),
        notes=(*context.notes, *(("there are no nodes",) if is_empty else ())),
    )


def _check_pool(context: RequestContext, pool: str | None) -> None:
    """Raise ``CommandError`` if there is no such pool."""
    if pool is not None and pool not in context.moment.view.pools:
        raise CommandError(
            Exit.REFUSED,
            f"there is no pool {pool!r}; list them: quorate get pools",
            fault=UNKNOWN_NAME,
        )


NO_LOGS: Final = "no-logs"
"""The fault code of a request for output that no executor keeps."""


def run_logs(context: RequestContext, asked: RunLogs, operation: Operation) -> Answer:
    """Return lines of a run's output; refused if no executor keeps the output."""
    del operation
    name = asked.run.removeprefix("run/")
    logs = kept_logs(context, name)
    first, limit = asked.from_, asked.limit
    if asked.tail is not None:
        first, limit = max(first, logs.end(name) - asked.tail), min(limit, asked.tail)
    found = logs.read(name, first=first, limit=limit)
    notes: tuple[str, ...] = ()
    if found is None:
        # A follower will get the first lines as soon as these are written.
        found = Output(lines=(), first=asked.from_, is_last=True)
        notes = (f"note: run {name!r} has written nothing yet; why: quorate explain {name}",)
    # A run that is over writes nothing more: its leases have ended, and no process is left.
    ended = found.is_last and context.recorded.runs[name].phase in TERMINAL
    # Lines that were written during the read are not in this answer.
    more = not found.is_last and (asked.tail is None or len(found.lines) < limit)
    return Answer(
        tree=lambda: logs_tree(name, found, ended=ended, more=more),
        lines=lambda _: [line.text for line in found.lines],
        notes=notes,
    )


def kept_logs(context: RequestContext, name: str) -> Logs:
    """Return the object from which the output of a run can be read, now or later.

    Raises ``CommandError`` if no executor keeps the output.
    """
    check_run(context, name)
    record = context.recorded.runs[name]
    if context.logs is None:
        _check_not_in_pods(context, record)
        raise CommandError(
            Exit.REFUSED,
            f"no logs for run {name!r}: no executor starts processes here; "
            "look where its work was started",
            fault=NO_LOGS,
        )
    if context.logs.read(name, first=0, limit=1) is None:
        _check_not_in_pods(context, record)
        if record.phase in TERMINAL:
            raise CommandError(
                Exit.REFUSED, f"run {name!r} has written nothing that was kept", fault=NO_LOGS
            )
    return context.logs


def _check_not_in_pods(context: RequestContext, record: RunRecord) -> None:
    """Raise an error if the pool's cluster keeps the output; it names the command to use."""
    name, owner = record.spec.name, record.spec.owner
    pool = context.moment.view.pools[record.spec.pool]
    if pool.executor is not PoolExecutor.KUBERNETES:
        return
    workload = None if record.spec.workload is None else workload_of(record.spec.workload)
    if workload is not None:
        raise CommandError(
            Exit.REFUSED,
            f"no logs for run {name!r} here: its work is the {workload.kind.kind} "
            f"{workload.name!r} of the cluster {pool.cluster!r}, whose output is there; with the "
            f"cluster's kubeconfig: quorate logs {name} --pods, or kubectl logs -n "
            f"{workload.namespace} -l {workload.pod_selector} --prefix --tail=-1",
            fault=NO_LOGS,
        )
    chosen = f"-l {RUN_LABEL}={object_name(name)}"
    raise CommandError(
        Exit.REFUSED,
        f"no logs for run {name!r} here: its work runs in pods of the cluster {pool.cluster!r}, "
        f"called run-{object_name(name)}-START-RANK, and only the cluster has their output; with "
        f"the cluster's kubeconfig: quorate logs {name} --pods, or kubectl logs -n "
        f"quorate-{object_name(owner)} {chosen} --prefix --tail=-1",
        "if the service's kubernetes.namespace names another namespace, this finds it: "
        f"kubectl get pods --all-namespaces {chosen}",
        fault=NO_LOGS,
    )


def logs_tree(run: str, found: Output, *, ended: bool, more: bool) -> dict[str, Any]:
    """Return lines of a run's output for programs."""
    lines = [
        {
            "number": number,
            "at": time_text(line.at_ms),
            "node": line.node,
            "rank": line.rank,
            "stream": line.stream.value,
            "text": line.text,
        }
        for number, line in enumerate(found.lines, start=found.first)
    ]
    return {
        "run": run,
        "lines": lines,
        "next": found.first + len(lines),
        "ended": ended,
        "more": more,
    }
