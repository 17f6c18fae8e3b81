"""Watches the workloads of one cluster, of every kind that its API server has.

Workloads that name no owner are left out. The caller calls ``discover`` periodically, to find kinds
that are installed later.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from threading import Lock
from typing import Any

from quorate.adapters.kubernetes.job_kinds import KINDS, JobKind, Workload
from quorate.adapters.kubernetes.kube_api import NOT_FOUND, Change, KubeApi
from quorate.adapters.kubernetes.object_watch import ObjectWatch
from quorate.adapters.kubernetes.pod_gangs import KILLED_S
from quorate.adapters.kubernetes.seen_jobs import SeenJob, seen_job
from quorate.ports.errors import ClusterRefusedError


@dataclass(frozen=True, slots=True)
class SeenJobs:
    """Workloads by the names that runs use for them, and the kinds that were fully listed."""

    jobs: dict[str, SeenJob]
    watched: frozenset[str]


class _OneKind:
    """The workloads of one kind."""

    def __init__(self, api: KubeApi, cluster: str, kind: JobKind, tell: Callable[[], None]) -> None:
        self._kind = kind
        self._tell = tell
        self._lock = Lock()
        self._jobs: dict[str, SeenJob] | None = None
        what = f"the {kind.plural} of cluster {cluster}"
        self.watch = ObjectWatch(api, kind.list_path, self, what=what, lists_after_loss=True)

    def jobs(self) -> dict[str, SeenJob] | None:
        """Return the workloads by name; None while they are not known."""
        with self._lock:
            return None if self._jobs is None else dict(self._jobs)

    def listed(self, list_now: Callable[[], list[dict[str, Any]]]) -> None:
        """Replace all workloads."""
        seen = [job for tree in list_now() if (job := seen_job(tree, self._kind)) is not None]
        with self._lock:
            self._jobs = {str(job.workload): job for job in seen}
        self._tell()

    def took(self, change: Change, tree: dict[str, Any]) -> None:
        """Apply one change of a workload."""
        job = None if change is Change.DELETED else seen_job(tree, self._kind)
        metadata = tree["metadata"]
        key = str(Workload(self._kind, metadata["namespace"], metadata["name"], metadata["uid"]))
        with self._lock:
            if self._jobs is None:
                return
            before = self._jobs.pop(key, None)
            if job is not None:
                self._jobs[key] = job
        if job != before:
            self._tell()

    def lost(self) -> None:
        """Forget the workloads until they are listed again."""
        with self._lock:
            self._jobs = None


class JobWatch:
    """The workloads of ``cluster``; a watch's thread calls ``tell`` when a workload has changed."""

    def __init__(self, api: KubeApi, cluster: str, tell: Callable[[], None]) -> None:
        self._api = api
        self._cluster = cluster
        self._tell = tell
        self._kinds: dict[str, _OneKind] = {}

    def discover(self) -> None:
        """Start watching every kind that the API server has; raises ``ClusterError``."""
        for kind in KINDS:
            if kind.plural not in self._kinds and self._has(kind):
                one = _OneKind(self._api, self._cluster, kind, self._tell)
                self._kinds[kind.plural] = one
                one.watch.start()

    def _has(self, kind: JobKind) -> bool:
        try:
            found = self._api.get(f"/apis/{kind.group}/{kind.version}")
        except ClusterRefusedError as error:
            if error.status == NOT_FOUND:
                return False
            raise
        return any(each.get("name") == kind.plural for each in found.get("resources") or [])

    def seen(self) -> SeenJobs:
        """Return the known workloads of all kinds."""
        known = {name: each.jobs() for name, each in dict(self._kinds).items()}
        jobs: dict[str, SeenJob] = {}
        for found in known.values():
            jobs |= found or {}
        return SeenJobs(jobs, frozenset(n for n, found in known.items() if found is not None))

    def close(self) -> None:
        """Stop watching, and wait until every watch has ended."""
        for each in self._kinds.values():
            each.watch.close()
        self._api.close()
        for each in self._kinds.values():
            each.watch.join()


def without_pods(
    api: KubeApi, workloads: Iterable[Workload], failed_nodes: Collection[str]
) -> tuple[frozenset[str], list[str]]:
    """Return the names of workloads without pods, and a text for each workload with unknown pods.

    Pods are unknown if the API server refused to list them. The text has the name of the workload,
    and the reason. Raises ``ClusterError`` if the cluster does not answer.
    """
    gone: set[str] = set()
    unknown: list[str] = []
    for each in workloads:
        try:
            if not has_pods(api, each, failed_nodes):
                gone.add(str(each))
        except ClusterRefusedError as error:
            unknown.append(f"{each}: {error}")
    return frozenset(gone), unknown


def has_pods(api: KubeApi, workload: Workload, failed_nodes: Collection[str]) -> bool:
    """Return whether a pod of ``workload`` may still work; pods on failed nodes do not count.

    Raises ``ClusterError``.
    """
    return any(each["spec"].get("nodeName") not in failed_nodes for each in _pods(api, workload))


def kill_pods(api: KubeApi, workload: Workload) -> None:
    """Delete the pods of ``workload`` that may still work, without a grace period.

    Raises ``ClusterError``.
    """
    for each in _pods(api, workload):
        metadata = each["metadata"]
        grace_s = metadata.get("deletionGracePeriodSeconds")
        if grace_s is None or grace_s > KILLED_S:
            path = f"/api/v1/namespaces/{workload.namespace}/pods/{metadata['name']}"
            api.delete(path, grace_s=KILLED_S, uid=metadata["uid"])


def _pods(api: KubeApi, workload: Workload) -> list[dict[str, Any]]:
    """Return the pods of ``workload`` that may still work."""
    path = f"/api/v1/namespaces/{workload.namespace}/pods"
    trees, _ = api.list_all(path, workload.pod_selector)
    return [
        each
        for each in trees
        if workload.kind.has_pod(workload, each["metadata"].get("labels") or {})
        and (each.get("status") or {}).get("phase") not in ("Succeeded", "Failed")
    ]
