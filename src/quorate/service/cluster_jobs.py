"""Admits plain Jobs of clusters through their suspend field, while the service runs.

Ledger and cluster are compared whenever one of them has changed (``job_admission``), so a lost
watch or a restart loses no change. Commands have the actor ``kubernetes/CLUSTER``.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from time import monotonic
from typing import Any, Final

from quorate.adapters.kubernetes.job_kinds import Workload
from quorate.adapters.kubernetes.job_patches import message_patch
from quorate.adapters.kubernetes.job_watch import JobWatch, SeenJobs, kill_pods, without_pods
from quorate.adapters.kubernetes.kube_api import CONFLICT, NOT_FOUND, KubeApi
from quorate.adapters.kubernetes.object_names import Namespaces
from quorate.adapters.kubernetes.seen_jobs import SeenJob
from quorate.core.commands import Command, Fail, Submit
from quorate.loop.engine import Engine
from quorate.model.events import NodeStatus
from quorate.model.refusal import sentence
from quorate.ports.errors import ClusterError, ClusterRefusedError, QuorateError
from quorate.service.auth.authenticator import Authenticator
from quorate.service.config import Configuration
from quorate.service.config_values import Clusters
from quorate.service.executor_choice import cluster_apis
from quorate.service.job_admission import JobChanges, job_changes
from quorate.service.job_runs import JobRules, run_name
from quorate.service.ledger_thread import LedgerThread
from quorate.views.exits import CommandError

_LOG = logging.getLogger(__name__)

LOOK_S: Final = 30.0
"""How often all workloads are compared with the ledger even if nothing has changed.

After the same time the service looks again for kinds of workloads that a cluster lacked.
"""
UNSURE_S: Final = 0.5
"""How long the service waits before it checks again whether pods have ended."""
TROUBLE_S: Final = 5.0
"""How long to wait after a failed commit, or a failed change of the cluster."""
PAUSE_S: Final = 0.05
"""The pause after each comparison, so that a busy ledger is not compared all the time."""
PART: Final = 20
"""Comparisons take at most 1/PART of the ledger thread's time."""
ROUNDS_MAX: Final = 4
"""The most times in a row that commands are executed and ledger and cluster compared again.

Several passes are needed because one change may lead to other changes.
"""
INVALID: Final = 422

Patch = tuple[SeenJob, dict[str, Any]]


@dataclass(slots=True)
class Compared:
    """The changes to make in a cluster, after the ledger has recorded the new state of its runs.

    ``seq`` is the sequence number of the last event in the compared state. ``refused`` has the
    refused commands with their reasons, and ``broken`` has the workloads that wait because of a
    bug. ``spent_s`` is the time that the ledger thread spent.
    """

    seq: int
    patches: list[Patch] = field(default_factory=list)
    unsure: list[Workload] = field(default_factory=list)
    overdue: list[Workload] = field(default_factory=list)
    failed_nodes: frozenset[str] = frozenset()
    refused: tuple[str, ...] = ()
    broken: Mapping[str, Exception] = field(default_factory=dict)
    spent_s: float = 0.0


def record_jobs(
    engine: Engine, rules: JobRules, seen: SeenJobs, gone: Collection[str] = ()
) -> Compared:
    """Record the workloads of a cluster in the ledger; called on the ledger thread.

    The reason of a refusal is written to the workload that it concerns.
    """
    refused: dict[str, str] = {}
    began_s = monotonic()

    def compare() -> tuple[int, JobChanges]:
        found = job_changes(engine.view, rules, seen, gone=gone, now_ms=engine.now_ms())
        return engine.head.seq, found

    seq, found = compare()
    for _ in range(ROUNDS_MAX):
        fresh = [each for each in found.commands if _key(each) not in refused]
        if not fresh:
            break
        refused |= _execute(engine, rules, fresh)
        seq, found = compare()
    for run, job in found.submitted.items():
        why = refused.pop(run, "")
        if why not in ("", job.message):
            found.patches.append((job, message_patch(job, why)))
    status = engine.view.node_status
    return Compared(
        seq=seq,
        patches=found.patches,
        unsure=found.unsure,
        overdue=found.overdue,
        failed_nodes=frozenset(n for n, each in status.items() if each is NodeStatus.FAILED),
        refused=tuple(f"{command}: {why}" for command, why in refused.items()),
        broken=found.broken,
        spent_s=monotonic() - began_s,
    )


def _execute(engine: Engine, rules: JobRules, commands: Sequence[Command]) -> dict[str, str]:
    """Execute ``commands`` on the ledger; return the reason for each refused command.

    If a bug makes one command raise, each command is executed by itself, so that only the faulty
    command fails.
    """
    try:
        receipts = engine.execute_all(commands, actor=rules.actor)
    except QuorateError:
        raise
    except Exception as error:  # noqa: BLE001 - logged below, as the fault of one Job
        if len(commands) > 1:
            return {k: v for each in commands for k, v in _execute(engine, rules, [each]).items()}
        _LOG.exception("cluster %s: a bug keeps a Job waiting", rules.cluster)
        why = f"a bug keeps the Job waiting ({type(error).__name__}); see the log of the service"
        return {_key(commands[0]): why}
    return {
        _key(command): sentence(refusal)
        for command, receipt in zip(commands, receipts, strict=True)
        for refusal in receipt.decision.refusals
    }


def _key(command: Command) -> str:
    return command.run.name if isinstance(command, Submit) else str(command)


def jobs_surface(
    made: Configuration,
) -> Callable[[LedgerThread, Authenticator], AsyncIterator[str]]:
    """Return a context manager that admits the Jobs of clusters while the service runs."""
    assert isinstance(made.clusters, Clusters), "only called if there are clusters"
    wanted = made.job_clusters.split(",")
    namespaces = Namespaces(template=made.kubernetes_namespace, home=made.kubernetes_home)
    clusters = Clusters({name: made.clusters.kubeconfigs[name] for name in wanted})

    async def surface(
        ledger_thread: LedgerThread, authenticator: Authenticator
    ) -> AsyncIterator[str]:
        del authenticator
        keepers = []
        for name, api in cluster_apis(clusters).items():
            keeper = JobKeeper(
                ledger_thread, JobRules(cluster=name, namespace_of=namespaces.of_owner), api
            )
            keeper.start()
            keepers.append(keeper)
        try:
            yield f"the Jobs of {', '.join(wanted)} are admitted"
        finally:
            await asyncio.gather(*(keeper.stop() for keeper in keepers))

    return surface


class JobKeeper:
    """Keeps the workloads of one cluster and the ledger in agreement; runs on the event loop."""

    def __init__(self, ledger_thread: LedgerThread, rules: JobRules, api: KubeApi) -> None:
        self._ledger_thread = ledger_thread
        self._rules = rules
        self._api = api
        self._loop = asyncio.get_running_loop()
        self._changed = asyncio.Event()
        self._watch = JobWatch(api, rules.cluster, self._tell)
        self._task: asyncio.Task[None] | None = None
        self._seq = -1
        self._rest_s = PAUSE_S
        self._trouble = ""
        self._broken: frozenset[str] = frozenset()

    def _tell(self) -> None:
        """Request a comparison of ledger and cluster; may be called from any thread."""
        with suppress(RuntimeError):  # The event loop has ended, so there is no ledger to change.
            self._loop.call_soon_threadsafe(self._changed.set)

    def start(self) -> None:
        """Start watching."""
        self._task = asyncio.create_task(self._keep())

    async def stop(self) -> None:
        """Stop; wait until watching, recording and changing have ended."""
        assert self._task is not None, "started first"
        self._task.cancel()
        with suppress(asyncio.CancelledError):
            await self._task
        await asyncio.to_thread(self._watch.close)

    async def _keep(self) -> None:
        wait_s, looked_s = 0.0, -LOOK_S
        while True:
            await asyncio.sleep(self._rest_s)
            await self._news(wait_s)
            try:
                if self._loop.time() - looked_s >= LOOK_S:
                    await asyncio.to_thread(self._watch.discover)
                    looked_s = self._loop.time()
                wait_s = await self._compare()
                if wait_s != TROUBLE_S:
                    self._trouble = ""
            except (ClusterError, CommandError, QuorateError) as error:
                wait_s = TROUBLE_S
                self._complain(str(error))
            except Exception:  # noqa: BLE001 - the top frame of this task
                wait_s = LOOK_S
                _LOG.exception("cluster %s: a bug keeps its Jobs waiting", self._rules.cluster)

    def _complain(self, trouble: str) -> None:
        if self._trouble != trouble:
            self._trouble = trouble
            _LOG.warning("cluster %s: its Jobs cannot be handled: %s", self._rules.cluster, trouble)

    async def _news(self, wait_s: float) -> None:
        """Wait until the cluster or the ledger has changed, but at most ``wait_s`` seconds."""
        if self._changed.is_set():
            self._changed.clear()
            return
        waiting = [
            asyncio.create_task(self._changed.wait()),
            asyncio.create_task(self._ledger_thread.moved(self._seq, wait_s)),
        ]
        try:
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in waiting:
                each.cancel()
        self._changed.clear()

    async def _compare(self) -> float:
        """Compare once; return how long until the next comparison if nothing changes."""
        rules, seen = self._rules, self._watch.seen()
        done = await self._ledger_thread.run(lambda engine: record_jobs(engine, rules, seen))
        spent_s = done.spent_s
        unknown: list[str] = []
        if done.unsure:
            gone, unknown = await asyncio.to_thread(
                without_pods, self._api, done.unsure, done.failed_nodes
            )
            if gone:
                done = await self._ledger_thread.run(
                    lambda engine: record_jobs(engine, rules, seen, gone)
                )
                spent_s += done.spent_s
        self._rest_s = max(PAUSE_S, PART * spent_s)
        self._seq = done.seq
        is_done = not (done.refused or done.broken or unknown)
        for each in (*done.refused, *unknown):
            self._complain(each)
        for key, error in done.broken.items():
            if key not in self._broken:
                where = f"cluster {self._rules.cluster}: {key}"
                _LOG.error("%s: a bug keeps the workload waiting", where, exc_info=error)
        self._broken = frozenset(done.broken)
        for workload in done.overdue:
            is_done &= await self._kill(workload)
        for job, patch in done.patches:
            is_done &= await self._change(job, patch)
        if not is_done:
            return TROUBLE_S
        return UNSURE_S if done.unsure else LOOK_S

    async def _kill(self, workload: Workload) -> bool:
        """Kill the pods of a workload; return False if the kill must be tried again."""
        try:
            await asyncio.to_thread(kill_pods, self._api, workload)
        except ClusterRefusedError as error:
            self._complain(f"{workload}: its pods cannot be killed: {error}")
            return False
        return True

    async def _change(self, job: SeenJob, patch: dict[str, Any]) -> bool:
        """Change a workload; return False if the change must be tried again.

        If the workload was changed or deleted meanwhile, this change is dropped, because the watch
        reports the new state. If the API server refuses a start as invalid, the run fails.
        """
        try:
            await asyncio.to_thread(self._api.merge, job.workload.path, patch)
        except ClusterRefusedError as error:
            if error.status in (CONFLICT, NOT_FOUND):
                return True
            if error.status != INVALID or "spec" not in patch or not job.is_suspended:
                self._complain(str(error))
                return False
            note = f"the API server rejects the change that starts the workload: {error}"
            command = Fail(run_name(job.workload), note, has_gone=True)
            await self._ledger_thread.run(
                lambda engine: engine.execute_all([command], actor=self._rules.actor)
            )
        return True
