"""A simulated controller of PyTorchJobs: like the real one, it creates and deletes pods.

The API server of the tests is older than suspended Jobs (1.21), so Jobs cannot be used. Instead
there is a definition of PyTorchJobs that checks nothing.
"""

from __future__ import annotations

import time
from threading import Event, Thread
from typing import Any

from quorate.adapters.kubernetes.job_kinds import KINDS, at
from quorate.adapters.kubernetes.kube_api import CONFLICT, KubeApi
from quorate.ports.errors import ClusterError, ClusterRefusedError
from tests.bounds import until

PYTORCH = next(each for each in KINDS if each.kind == "pytorchjob")
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
DEFINITION = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": f"{PYTORCH.plural}.{PYTORCH.group}"},
    "spec": {
        "group": PYTORCH.group,
        "scope": "Namespaced",
        "names": {"plural": PYTORCH.plural, "singular": PYTORCH.kind, "kind": "PyTorchJob"},
        "versions": [
            {
                "name": PYTORCH.version,
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "x-kubernetes-preserve-unknown-fields": True,
                    }
                },
            }
        ],
    },
}
EVERY_S = 0.05
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def define(api: KubeApi) -> None:
    """Define PyTorchJobs in the API server."""
    try:
        api.create(DEFINITIONS, DEFINITION)
    except ClusterRefusedError as error:
        if error.status != CONFLICT:
            raise

    def is_served() -> bool:
        try:
            api.list_all(PYTORCH.list_path)
        except ClusterError:
            return False
        return True

    until(is_served, "PyTorchJobs are served")


def manifest(name: str, *command: str, workers: int = 1, owner: str = "rai") -> dict[str, Any]:
    """Return a suspended PyTorchJob whose pods have 8 GPUs each."""
    container = {
        "name": "pytorch",
        "image": "played",
        "command": list(command),
        "resources": {"limits": {"nvidia.com/gpu": "8"}},
    }
    template = {"spec": {"containers": [container], "terminationGracePeriodSeconds": 5}}
    return {
        "apiVersion": f"{PYTORCH.group}/{PYTORCH.version}",
        "kind": "PyTorchJob",
        "metadata": {"name": name, "labels": {"quorate.dev/owner": owner}},
        "spec": {
            "runPolicy": {"suspend": True},
            "pytorchReplicaSpecs": {"Worker": {"replicas": workers, "template": template}},
        },
    }


class PlayedController:
    """Creates the pods of PyTorchJobs of one namespace that may run, and deletes other pods."""

    def __init__(self, api: KubeApi, namespace: str) -> None:
        self._api = api
        self._namespace = namespace
        self._is_closing = Event()
        self._thread = Thread(target=self._work, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        self._is_closing.set()
        self._thread.join()
        self._api.close()

    def _work(self) -> None:
        path = f"/apis/{PYTORCH.group}/{PYTORCH.version}/namespaces/{self._namespace}"
        while not self._is_closing.is_set():
            try:
                jobs, _ = self._api.list_all(f"{path}/{PYTORCH.plural}")
                names = {job["metadata"]["name"] for job in jobs}
                for job in jobs:
                    self._see_to(job)
                for pod in self._pods(""):
                    if pod["metadata"]["labels"][_LABEL] not in names:
                        self._delete(pod)
            except ClusterError:
                pass  # The next comparison corrects it, as in every controller.
            time.sleep(EVERY_S)

    def _pods(self, name: str) -> list[dict[str, Any]]:
        selector = f"{_LABEL}={name}" if name else _LABEL
        return self._api.list_all(f"/api/v1/namespaces/{self._namespace}/pods", selector)[0]

    def _see_to(self, job: dict[str, Any]) -> None:
        name, pods = job["metadata"]["name"], self._pods(job["metadata"]["name"])
        ended = PYTORCH.ended(job) is not None
        if at(job, PYTORCH.suspend):
            for pod in pods:
                self._delete(pod)
        elif not pods and not ended:
            self._make(job)
        elif pods and not ended:
            phases = [(pod.get("status") or {}).get("phase") for pod in pods]
            kind = "Failed" if "Failed" in phases else "Succeeded"
            if kind == "Failed" or set(phases) == {"Succeeded"}:
                status = {"conditions": [{"type": kind, "status": "True", "reason": "Played"}]}
                path = f"{PYTORCH.path(self._namespace, name)}/status"
                self._api.merge(path, {"status": status})

    def _make(self, job: dict[str, Any]) -> None:
        worker = job["spec"]["pytorchReplicaSpecs"]["Worker"]
        template = worker["template"]["spec"]
        terms = template["affinity"]["nodeAffinity"][REQUIRED]["nodeSelectorTerms"]
        nodes = [each["matchFields"][-1]["values"][0] for each in terms]
        name = job["metadata"]["name"]
        for number in range(worker["replicas"]):
            body = {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": f"{name}-worker-{number}", "labels": {_LABEL: name}},
                "spec": {**template, "restartPolicy": "Never", "nodeName": nodes[number]},
            }
            self._api.create(f"/api/v1/namespaces/{self._namespace}/pods", body)

    def _delete(self, pod: dict[str, Any]) -> None:
        if "deletionTimestamp" not in pod["metadata"]:
            self._api.delete(f"/api/v1/namespaces/{self._namespace}/pods/{pod['metadata']['name']}")


_LABEL = PYTORCH.pod_label.partition("=")[0]
