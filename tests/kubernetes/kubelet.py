"""A simulated kubelet: it patches the status of pods like a real one, and runs no containers.

The command of a pod says what it does: ``[ends, MS]``, ``[fails, MS, CODE]``, ``[stays]``,
``[defies]``, ``[counts]`` and ``[unpulled]``, whose image is missing. A deleted pod ends at once,
unless its command is ``defies``: then it uses its whole grace, as a real kubelet counts it. Pods
that are not bound are ignored.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from math import inf
from threading import Event, Lock, Thread
from typing import Any

import msgspec

from quorate.adapters.kubernetes.kube_api import Change, KubeApi
from quorate.adapters.kubernetes.pod_manifest import RECORD, STEP, PodRecord
from quorate.ports.errors import ClusterError, ClusterRefusedError
from tests.kubernetes.work_book import Slot, Worked

EVERY_S = 0.02
LOOK_S = 0.05


@dataclass(slots=True)
class _Kept:
    namespace: str
    name: str
    uid: str
    command: list[str]
    run: str
    node: str
    slots: tuple[Slot, ...] = ()
    began_s: float = 0.0
    stop_s: float | None = None
    is_over: bool = False
    is_told: bool = False
    """Whether the API server knows of the end, or of the reason why the pod does not start."""
    began_ms: float = 0.0
    ended_ms: float = inf

    @property
    def path(self) -> str:
        return f"/api/v1/namespaces/{self.namespace}/pods/{self.name}"

    def end(self) -> None:
        """End the containers, before the API server knows it."""
        self.is_over = True
        self.ended_ms = min(self.ended_ms, time.time() * 1_000)


@dataclass(slots=True)
class Kubelet:
    """The kubelets of all nodes, for the pods of one namespace, until ``close``.

    ``started`` has the run of each started pod. Nothing is confirmed on ``failed_nodes``.
    """

    api: KubeApi
    namespace: str
    started: list[str] = field(default_factory=list)
    failed_nodes: set[str] = field(default_factory=set)
    _pods: dict[str, _Kept] = field(default_factory=dict)
    _began: list[_Kept] = field(default_factory=list)
    _lock: Lock = field(default_factory=Lock)
    _is_closing: Event = field(default_factory=Event)
    _threads: list[Thread] = field(default_factory=list)

    def start(self) -> None:
        for target in (self._watch, self._work):
            thread = Thread(target=target, daemon=True)
            thread.start()
            self._threads.append(thread)

    def close(self) -> None:
        self._is_closing.set()
        self.api.close()
        for thread in self._threads:
            thread.join()

    def at_work(self, run: str) -> list[str]:
        """Return the pods of a run that work now."""
        with self._lock:
            return [
                pod.name
                for pod in self._pods.values()
                if pod.run == run and pod.began_s and not pod.is_over
            ]

    def busy_nodes(self) -> list[str]:
        """Return the nodes on which pods of Quorate work now, once for each pod."""
        with self._lock:
            pods = [pod for pod in self._pods.values() if pod.slots]
            return [pod.node for pod in pods if pod.began_s and not pod.is_over]

    def worked(self) -> list[Worked]:
        """Return the work of all pods that Quorate has created, up to now."""
        with self._lock:
            return [
                Worked(
                    uid=pod.uid,
                    run=pod.run,
                    node=pod.node,
                    slots=pod.slots,
                    began_ms=pod.began_ms,
                    ended_ms=pod.ended_ms,
                )
                for pod in self._began
                if pod.slots
            ]

    def _watch(self) -> None:
        version = ""
        path = f"/api/v1/namespaces/{self.namespace}/pods"
        while not self._is_closing.is_set():
            try:
                if not version:
                    trees, version = self.api.list_all(path)
                    there = {tree["metadata"]["uid"] for tree in trees}
                    with self._lock:
                        for uid in self._pods.keys() - there:
                            self._pods.pop(uid).end()
                    for tree in trees:
                        self._see(Change.ADDED, tree)
                for event in self.api.watch(path, version):
                    version = event.object["metadata"]["resourceVersion"]
                    self._see(event.change, event.object)
            except ClusterError:
                version = ""
                self._is_closing.wait(LOOK_S)

    def _see(self, change: Change, tree: dict[str, Any]) -> None:
        if change is Change.BOOKMARK:
            return
        metadata, spec = tree["metadata"], tree["spec"]
        with self._lock:
            if change is Change.DELETED:
                gone = self._pods.pop(metadata["uid"], None)
                if gone is not None:
                    gone.end()
                return
            node = spec.get("nodeName")
            if not node:
                return
            container = spec["containers"][0]
            env = {each["name"]: each.get("value") for each in container.get("env") or []}
            pod = self._pods.setdefault(
                metadata["uid"],
                _Kept(
                    namespace=metadata["namespace"],
                    name=metadata["name"],
                    uid=metadata["uid"],
                    command=container.get("command") or ["stays"],
                    run=env.get("QUORATE_RUN") or "",
                    node=node,
                    slots=_slots_of(metadata),
                ),
            )
            if "deletionTimestamp" in metadata:
                grace_s = metadata.get("deletionGracePeriodSeconds") or 0
                by_s = time.monotonic() + (grace_s if pod.command[0] == "defies" else 0)
                pod.stop_s = by_s if pod.stop_s is None else min(pod.stop_s, by_s)

    def _work(self) -> None:
        while not self._is_closing.wait(EVERY_S):
            with self._lock:
                pods = list(self._pods.values())
            for pod in pods:
                try:
                    self._keep(pod)
                except ClusterRefusedError:
                    continue  # The pod was deleted, or another pod has its name.
                except ClusterError:
                    break

    def _keep(self, pod: _Kept) -> None:
        if pod.node in self.failed_nodes:
            return
        if pod.stop_s is not None:
            if time.monotonic() >= pod.stop_s:
                pod.end()
                self.api.delete(pod.path, grace_s=0, uid=pod.uid)
            return
        if pod.command[0] == "unpulled":
            if not pod.is_told:
                why = {"reason": "ImagePullBackOff", "message": "Back-off pulling image"}
                self._say(pod, {"containerStatuses": [_container("waiting", why)]})
                pod.is_told = True
            return
        if not pod.began_s:
            self._say(pod, {"phase": "Running", "containerStatuses": [_container("running", {})]})
            with self._lock:
                pod.began_s, pod.began_ms = time.monotonic(), time.time() * 1_000
                self.started.append(pod.run)
                self._began.append(pod)
            if pod.command[0] == "counts":
                self.api.merge(pod.path, {"metadata": {"annotations": {STEP: "7"}}})
            return
        what, *rest = pod.command
        if pod.is_told or what not in ("ends", "fails"):
            return
        if time.monotonic() >= pod.began_s + int(rest[0]) / 1_000:
            code = int(rest[1]) if what == "fails" else 0
            now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
            ended = {
                "exitCode": code,
                "finishedAt": now,
                "reason": "Error" if code else "Completed",
            }
            phase = "Failed" if code else "Succeeded"
            pod.end()
            self._say(pod, {"phase": phase, "containerStatuses": [_container("terminated", ended)]})
            pod.is_told = True

    def _say(self, pod: _Kept, status: dict[str, Any]) -> None:
        self.api.merge(f"{pod.path}/status", {"metadata": {"uid": pod.uid}, "status": status})


def _slots_of(metadata: dict[str, Any]) -> tuple[Slot, ...]:
    """Return the slots of a pod that Quorate has created."""
    text = (metadata.get("annotations") or {}).get(RECORD)
    return () if text is None else msgspec.json.decode(text, type=PodRecord).slots


def _container(state: str, details: dict[str, Any]) -> dict[str, Any]:
    return {
        "name": "work",
        "image": "played",
        "imageID": "",
        "ready": state == "running",
        "restartCount": 0,
        "state": {state: details},
    }
