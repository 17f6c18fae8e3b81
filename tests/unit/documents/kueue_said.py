"""Manifests of Kueue and their import, for the tests of the import."""

from __future__ import annotations

from typing import Any

from quorate.documents import Invalid, to_yaml
from quorate.documents.kueue.kueue_import import Imported, import_kueue
from quorate.documents.kueue.kueue_owners import Terms

TERMS = Terms(start_ms=1_767_225_600_000, end_ms=1_798_761_600_000)
WINDOW = {"start": "2026-01-01T00:00:00Z", "end": "2027-01-01T00:00:00Z"}
Tree = dict[str, Any]


def manifest(
    kind: str,
    name: str,
    spec: object = None,
    *,
    namespace: str | None = None,
    version: str = "v1beta1",
) -> Tree:
    """Return a manifest of Kueue."""
    metadata = {"name": name} if namespace is None else {"name": name, "namespace": namespace}
    tree: Tree = {"apiVersion": f"kueue.x-k8s.io/{version}", "kind": kind, "metadata": metadata}
    return tree if spec is None else {**tree, "spec": spec}


def quota(flavor: str, gpus: object, **limits: object) -> Tree:
    """Return a resource group with GPUs of one flavor."""
    resource = {"name": "nvidia.com/gpu", "nominalQuota": gpus, **limits}
    flavors = [{"name": flavor, "resources": [resource]}]
    return {"coveredResources": ["nvidia.com/gpu"], "flavors": flavors}


def queue(name: str = "vision", *groups: Tree, **spec: object) -> Tree:
    """Return a ClusterQueue; by default it has 8 GPUs of the flavor h100."""
    return manifest(
        "ClusterQueue", name, {"resourceGroups": list(groups) or [quota("h100", 8)], **spec}
    )


def local_queue(to: str = "vision", name: str = "train", namespace: str = "lab") -> Tree:
    """Return a LocalQueue."""
    return manifest("LocalQueue", name, {"clusterQueue": to}, namespace=namespace)


def container(gpus: object = 1, **fields: object) -> Tree:
    """Return a container that requests GPUs."""
    limits = {"nvidia.com/gpu": gpus}
    return {
        "name": "main",
        "image": "a/b:1",
        "command": ["x"],
        "resources": {"limits": limits},
    } | fields


def pod_set(*containers: Tree, count: int = 1, pod: Tree | None = None, **fields: object) -> Tree:
    """Return a set of pods, by default of one container with one GPU."""
    spec = {"containers": list(containers) or [container()], **(pod or {})}
    return {"name": "main", "count": count, "template": {"spec": spec}, **fields}


def workload(*pod_sets: Tree, name: str = "job", namespace: str = "lab", **spec: object) -> Tree:
    """Return a Workload of the LocalQueue train."""
    body = {"queueName": "train", "podSets": list(pod_sets) or [pod_set()], **spec}
    return manifest("Workload", name, body, namespace=namespace)


def imported(*trees: Tree, terms: Terms = TERMS) -> Imported:
    """Return the import of manifests, which must be valid."""
    found = import_kueue([("k.yaml", to_yaml(*trees))], terms)
    assert isinstance(found, Imported), found
    return found


def documents(*trees: Tree, terms: Terms = TERMS) -> dict[str, Any]:
    """Return the specs of the documents, by kind and name."""
    made: list[Any] = list(imported(*trees, terms=terms).documents)
    return {f"{each['kind']}/{each['metadata']['name']}": each.get("spec", {}) for each in made}


def notes(*trees: Tree, terms: Terms = TERMS) -> dict[str, str]:
    """Return the notes by object and path."""
    found = imported(*trees, terms=terms).notes
    return {f"{each.kind}/{each.name} {each.path}".strip(): each.message for each in found}


def problems(*trees: Tree, terms: Terms = TERMS) -> list[str]:
    """Return the problems of manifests, which must have some."""
    found = import_kueue([("k.yaml", to_yaml(*trees))], terms)
    assert isinstance(found, Invalid), found
    return [problem.text() for problem in found.problems]
