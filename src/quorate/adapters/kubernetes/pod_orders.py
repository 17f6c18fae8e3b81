"""Creates, binds and deletes the pods of runs, as the steps of ``next_step`` require.

Every operation may be repeated: an existing pod is not created again, a bound pod stays where it
is, and deleting a missing pod is not an error.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from quorate.adapters.kubernetes.kube_api import CONFLICT, KubeApi
from quorate.adapters.kubernetes.pod_gangs import KILLED_S, Pod
from quorate.adapters.kubernetes.pod_manifest import (
    LEDGER_LABEL,
    RECORD,
    SERVICE_RECORD,
    Placement,
    Tree,
    binding,
    pod_manifests,
    service_manifest,
)
from quorate.adapters.kubernetes.pod_watch import PodWatch, RunService
from quorate.keeper.wanted import Wanted
from quorate.model.specs import Run
from quorate.ports.errors import ClusterRefusedError


@dataclass(frozen=True, slots=True)
class PodOrders:
    """Sends orders to one cluster, and passes each answer directly to ``watch``."""

    api: KubeApi
    watch: PodWatch

    def start(self, place: Placement, run: Run, wanted: Wanted, generation: int) -> None:
        """Create all pods of one start of a run, or no pod at all; then bind the pods.

        If the cluster refuses, delete the pods that were created, and raise ``ClusterError``.
        """
        self._have_service(place, generation)
        path = f"/api/v1/namespaces/{place.namespace}/pods"
        manifests = pod_manifests(place, run, wanted, generation)
        there = {each.name for each in self.watch.crew(run.name).newest}
        try:
            for manifest in manifests:
                if manifest["metadata"]["name"] not in there:
                    self.watch.put(self._have_pod(path, manifest))
        except ClusterRefusedError:
            self.kill(self.watch.crew(run.name).live)
            raise
        for pod in self.watch.crew(run.name).newest:
            if not pod.node:
                self._bind(pod)

    def _have_service(self, place: Placement, generation: int) -> None:
        """Record the number of this start in the run's Service, before any of its pods exists."""
        path = f"/api/v1/namespaces/{place.namespace}/services"
        manifest = service_manifest(place, generation)
        own = f"{path}/{place.service}"
        try:
            self.api.create(path, manifest)
        except ClusterRefusedError as error:
            if error.status != CONFLICT:
                raise
            found = self.api.get(own)["metadata"]
            if (found.get("labels") or {}).get(LEDGER_LABEL) != place.labels[LEDGER_LABEL]:
                raise ClusterRefusedError(
                    f"Service {place.service} in namespace {place.namespace} was not created by "
                    f"Quorate; remove it, or give the run another name",
                    status=CONFLICT,
                ) from None
            annotations = {SERVICE_RECORD: manifest["metadata"]["annotations"][SERVICE_RECORD]}
            self.api.merge(own, {"metadata": {"annotations": annotations}})
        self.watch.put_service(place.run, place.namespace, RunService(own, generation))

    def _have_pod(self, path: str, manifest: Tree) -> Tree:
        try:
            return self.api.create(path, manifest)
        except ClusterRefusedError as error:
            if error.status != CONFLICT:
                raise
            name, namespace = manifest["metadata"]["name"], manifest["metadata"]["namespace"]
            found = self.api.get(f"{path}/{name}")
            record = (found["metadata"].get("annotations") or {}).get(RECORD)
            if record != manifest["metadata"]["annotations"][RECORD]:
                raise ClusterRefusedError(
                    f"pod {name} in namespace {namespace} belongs to another run or start; that "
                    "pod must end first",
                    status=CONFLICT,
                ) from None
            return found

    def _bind(self, pod: Pod) -> None:
        node = pod.record.slots[0][0]
        try:
            self.api.create(f"{pod.path}/binding", binding(pod.name, pod.namespace, node))
        except ClusterRefusedError as error:
            if error.status != CONFLICT:
                raise
            return  # The pod is already bound, or is being deleted; the watch reports which.
        self.watch.bound(pod, node)

    def end(self, pods: Iterable[Pod], grace_s: int) -> None:
        """Order pods to stop within ``grace_s``.

        If ``grace_s`` is 0, the API server drops the pods immediately. Callers pass 0 for pods that
        have ended, and for pods on a failed node.
        """
        for pod in pods:
            found = self.api.delete(pod.path, grace_s=grace_s, uid=pod.uid)
            if grace_s == 0 or found is None or found.get("kind") != "Pod":
                self.watch.remove(pod)
            else:
                self.watch.put(found)

    def kill(self, pods: Iterable[Pod]) -> None:
        """Delete pods with the shortest grace period; the pods' nodes confirm that they ended."""
        for pod in pods:
            if pod.is_over:
                self.end([pod], 0)
            elif not pod.is_killed:
                self.end([pod], KILLED_S)

    def forget(self, run: str) -> None:
        """Delete the Service of a run that has ended."""
        for service in self.watch.services(run):
            self.api.delete(service.path)
        self.watch.remove_services(run)


@dataclass(frozen=True, slots=True)
class LostPods:
    """The pods on failed nodes, which have to be deleted because no kubelet confirms their end.

    A pod is listed here even if its lease has ended. Until the watch has listed the pods, only the
    failed nodes are known.
    """

    _nodes: set[str] = field(default_factory=set)
    _uids: set[str] = field(default_factory=set)

    def fence(self, nodes: Iterable[str]) -> None:
        """Record that ``nodes`` have failed."""
        self._nodes.update(nodes)

    def find(self, watch: PodWatch) -> None:
        """Record the pods that are now on the failed nodes as lost."""
        for node in self._nodes:
            self._uids.update(each.uid for each in watch.on_node(node))
        self._nodes.clear()

    def end(self, orders: PodOrders, run: str) -> None:
        """Delete the lost pods of ``run``; raises ``ClusterError``."""
        lost = [each for each in orders.watch.crew(run).live if each.uid in self._uids]
        orders.end(lost, 0)
        self._uids.difference_update(each.uid for each in lost)
