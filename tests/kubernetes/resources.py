"""Custom resources of one test: created, read and deleted as by kubectl."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from quorate.adapters.kubernetes.kube_api import CONFLICT, NOT_FOUND, KubeApi
from quorate.adapters.kubernetes.resource_objects import FINALIZER, KINDS, ResourceKind
from quorate.model.api_version import API_VERSION
from quorate.ports.errors import ClusterError, ClusterRefusedError
from tests.bounds import until
from tests.kubernetes.engines import Server
from tools import crds

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
KIND_OF = {kind.name: kind for kind in KINDS}


def installed(server: Server) -> KubeApi:
    """Return a client of ``server``, which serves every custom resource."""
    api = server.api()
    for each in crds.KINDS:
        try:
            api.create(DEFINITIONS, crds.definition(each))
        except ClusterRefusedError as error:
            if error.status != CONFLICT:
                raise

    def is_served(kind: ResourceKind) -> bool:
        try:
            api.list_all(kind.all_path)
        except ClusterError:
            return False
        return True

    for kind in KINDS:
        until(lambda kind=kind: is_served(kind), f"{kind.name} is served")  # type: ignore[misc]
    return api


class Resources:
    """The custom resources of a cluster; runs and their objects are in ``namespace``."""

    def __init__(self, api: KubeApi, namespace: str) -> None:
        self.api = api
        self.namespace = namespace

    def path(self, kind: str, name: str = "") -> str:
        folder = KIND_OF[kind].folder(self.namespace)
        return f"{folder}/{name}" if name else folder

    def create(self, kind: str, name: str, spec: Mapping[str, Any], **annotations: str) -> None:
        metadata: dict[str, Any] = {"name": name}
        if annotations:
            metadata["annotations"] = {f"quorate.dev/{k}": v for k, v in annotations.items()}
        body = {"apiVersion": API_VERSION, "kind": kind, "metadata": metadata, "spec": spec}
        self.api.create(self.path(kind), body)

    def get(self, kind: str, name: str) -> dict[str, Any] | None:
        try:
            return self.api.get(self.path(kind, name))
        except ClusterRefusedError as error:
            if error.status != NOT_FOUND:
                raise
            return None

    def status(self, kind: str, name: str) -> dict[str, Any]:
        found = self.get(kind, name)
        status: dict[str, Any] = {} if found is None else found.get("status") or {}
        return status

    def condition(self, kind: str, name: str, what: str) -> tuple[str, str]:
        """Return the status and the reason of a condition; empty while the condition is missing."""
        for each in self.status(kind, name).get("conditions") or ():
            if each["type"] == what:
                return each["status"], each["reason"]
        return "", ""

    def until_condition(self, kind: str, name: str, what: str, *wanted: str) -> None:
        until(
            lambda: self.condition(kind, name, what) == wanted,
            f"{what} of {kind} {name} is {wanted}",
            tell=lambda: self.get(kind, name),
        )

    def until_phase(self, name: str, phase: str) -> None:
        until(
            lambda: self.status("Run", name).get("phase") == phase,
            f"run {name} is {phase}",
            tell=lambda: self.get("Run", name),
        )

    def until_gone(self, kind: str, name: str) -> None:
        until(
            lambda: self.get(kind, name) is None,
            f"{kind} {name} is gone",
            tell=lambda: self.get(kind, name),
        )

    def told(self, name: str) -> dict[str, dict[str, Any]]:
        """Return the Events of the run with this name, by their reasons."""
        run = self.get("Run", name)
        uid = "" if run is None else run["metadata"]["uid"]
        trees, _ = self.api.list_all(f"/api/v1/namespaces/{self.namespace}/events")
        return {each["reason"]: each for each in trees if each["involvedObject"]["uid"] == uid}

    def until_told(self, name: str, reason: str) -> dict[str, Any]:
        """Return the Event of a run with ``reason``, as soon as it exists."""
        return until(
            lambda: self.told(name).get(reason),
            f"an Event of {name} says {reason}",
            tell=lambda: self.told(name),
        )

    def delete(self, kind: str, name: str) -> None:
        self.api.delete(self.path(kind, name))

    def all(self, kind: str) -> list[dict[str, Any]]:
        return self.api.list_all(KIND_OF[kind].all_path)[0]

    def clear(self) -> None:
        """Remove every custom resource of the cluster, like an administrator."""
        for kind in KINDS:
            for tree in self.all(kind.name):
                head = tree["metadata"]
                path = f"{kind.folder(head.get('namespace', ''))}/{head['name']}"
                if FINALIZER in head.get("finalizers", ()):
                    _ignoring_gone(
                        lambda path=path: self.api.merge(  # type: ignore[misc]
                            path, {"metadata": {"finalizers": None}}
                        )
                    )
                self.api.delete(path)


def _ignoring_gone(do: Callable[[], object]) -> None:
    try:
        do()
    except ClusterRefusedError as error:
        if error.status != NOT_FOUND:
            raise
