"""The pods of one ledger in one cluster, kept up to date by a watch.

A list replaces all pods in one step, under the lock ``at_work``. The code that creates and deletes
pods holds the same lock, so a list never removes a pod that was created after the list was made.

Annotations name the run of an object, and owners may write such annotations in their own
namespaces. So an object belongs to a run only if it is in the namespace of the run's owner.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from threading import Lock
from typing import Any, Final

import msgspec

from quorate.adapters.kubernetes.kube_api import Change, KubeApi
from quorate.adapters.kubernetes.object_watch import ObjectWatch
from quorate.adapters.kubernetes.pod_gangs import Crew, Pod, pod_of
from quorate.adapters.kubernetes.pod_manifest import SERVICE_RECORD, ServiceRecord
from quorate.prepared_types import prepared

PODS: Final = "/api/v1/pods"
SERVICES: Final = "/api/v1/services"
GONE_MAX: Final = 10_000
"""The number of deleted pods that are remembered, so that no late event restores a pod."""


@dataclass(frozen=True, slots=True)
class RunService:
    """The Service of a run, and how often the run's pods were started."""

    path: str
    generation: int


class PodWatch:
    """The pods with the labels of ``selector``. ``tell`` gets the runs whose pods have changed.

    The function ``before`` is called before each list; it raises if the cluster must not be used.
    ``namespace_of`` returns the namespace of a run's objects; None if the run is unknown.
    """

    def __init__(  # noqa: PLR0913 - where, which, and what to call when
        self,
        api: KubeApi,
        selector: str,
        tell: Callable[[Iterable[str]], None],
        *,
        before: Callable[[], None],
        listed: Callable[[], None],
        namespace_of: Callable[[str], str | None],
    ) -> None:
        self._api = api
        self._selector = selector
        self._tell = tell
        self._after_list = listed
        self._namespace_of = namespace_of
        self._pods: dict[tuple[str, str], Pod] = {}
        self._by_run: dict[str, dict[tuple[str, str], Pod]] = {}
        self._gone: dict[str, None] = {}
        self._lock = Lock()
        self.at_work = Lock()
        self._services: dict[str, dict[str, RunService]] = {}
        self._watch = ObjectWatch(
            api, PODS, self, what="the pods of this ledger", selector=selector, before=before
        )

    @property
    def trouble(self) -> str:
        """Why the pods cannot be watched; empty while they can."""
        return self._watch.trouble

    def start(self) -> None:
        """Start to list and to watch."""
        self._watch.start()

    def close(self) -> None:
        """Stop watching; the caller must also close the connection, which ends the last read."""
        self._watch.close()

    def join(self) -> None:
        """Wait until the watch has ended."""
        self._watch.join()

    def crew(self, run: str) -> Crew:
        """Return the pods of ``run``; if the run is unknown, its pods in all namespaces."""
        own = self._namespace_of(run)
        with self._lock:
            pods = tuple(self._by_run.get(run, {}).values())
        return Crew(tuple(pod for pod in pods if own in (None, pod.namespace)))

    def steps(self, runs: Iterable[str]) -> dict[str, int]:
        """Return for each of ``runs`` the highest step that a pod of its last start reported."""
        found: dict[str, int] = {}
        for run in runs:
            steps = [pod.step for pod in self.crew(run).newest if pod.step is not None]
            if steps:
                found[run] = max(steps)
        return found

    def services(self, run: str) -> list[RunService]:
        """Return the Service of ``run``; if the run is unknown, its Services in all namespaces."""
        own = self._namespace_of(run)
        with self._lock:
            found = tuple(self._services.get(run, {}).items())
        return [service for namespace, service in found if own in (None, namespace)]

    def put_service(self, run: str, namespace: str, service: RunService) -> None:
        """Store the Service of ``run`` after it was created or changed."""
        with self._lock:
            self._services.setdefault(run, {})[namespace] = service

    def remove_services(self, run: str) -> None:
        """Forget the Services of ``run``."""
        with self._lock:
            self._services.pop(run, None)

    def on_node(self, node: str) -> list[Pod]:
        """Return the pods that are bound to ``node``."""
        with self._lock:
            return [pod for pod in self._pods.values() if pod.node == node]

    def put(self, tree: dict[str, Any]) -> None:
        """Store a pod from an answer of the API server, unless a newer version is known."""
        pod = pod_of(tree)
        if pod is not None:
            with self._lock:
                self._put(pod)

    def bound(self, pod: Pod, node: str) -> None:
        """Record that ``pod`` is bound to ``node``.

        The API server's answer to a binding does not have the pod. Without this record, a pod that
        is deleted before the watch reports the binding would look like a pod that was never
        created.
        """
        with self._lock:
            key = (pod.namespace, pod.name)
            known = self._pods.get(key)
            if known is not None and known.uid == pod.uid and not known.node:
                self._pods[key] = self._by_run[pod.record.run][key] = replace(known, node=node)

    def remove(self, pod: Pod) -> None:
        """Forget a pod that the API server no longer has."""
        with self._lock:
            self._gone[pod.uid] = None
            if len(self._gone) > GONE_MAX:
                del self._gone[next(iter(self._gone))]
            known = self._pods.get((pod.namespace, pod.name))
            if known is not None and known.uid == pod.uid:
                self._drop(known)

    def _put(self, pod: Pod) -> None:
        key = (pod.namespace, pod.name)
        known = self._pods.get(key)
        if pod.uid in self._gone:
            return  # The event is older than the deletion.
        if known is not None and known.version >= pod.version:
            return
        self._pods[key] = pod
        self._by_run.setdefault(pod.record.run, {})[key] = pod

    def _drop(self, pod: Pod) -> None:
        key = (pod.namespace, pod.name)
        del self._pods[key]
        own = self._by_run[pod.record.run]
        del own[key]
        if not own:
            del self._by_run[pod.record.run]

    # --- On the thread of the watch ---

    def listed(self, list_now: Callable[[], list[dict[str, Any]]]) -> None:
        """Replace all pods and Services."""
        with self.at_work:
            trees = list_now()
            services, _ = self._api.list_all(SERVICES, self._selector)
            pods = [pod for tree in trees if (pod := pod_of(tree)) is not None]
            with self._lock:
                before = set(self._by_run)
                self._pods, self._by_run = {}, {}
                for pod in pods:
                    self._put(pod)
                self._services = {}
                for run, namespace, service in filter(None, map(_service_of, services)):
                    self._services.setdefault(run, {})[namespace] = service
                names = before | set(self._by_run) | set(self._services)
            self._after_list()
        self._tell(names)

    def took(self, change: Change, tree: dict[str, Any]) -> None:
        """Apply one change of a pod."""
        pod = pod_of(tree)
        if pod is None:
            return
        if change is Change.DELETED:
            self.remove(pod)
        else:
            with self._lock:
                self._put(pod)
        self._tell([pod.record.run])

    def lost(self) -> None:
        """Keep the known pods: the next list replaces them."""


def _service_of(tree: dict[str, Any]) -> tuple[str, str, RunService] | None:
    """Return a Service with its run and namespace; None if Quorate did not create it."""
    metadata = tree["metadata"]
    try:
        text = (metadata.get("annotations") or {})[SERVICE_RECORD]
        record = msgspec.json.decode(text, type=prepared(ServiceRecord))
    except (KeyError, TypeError, msgspec.MsgspecError):
        return None
    namespace = metadata["namespace"]
    path = f"/api/v1/namespaces/{namespace}/services/{metadata['name']}"
    return record.run, namespace, RunService(path, record.generation)
