"""What is changed of a workload to start it on nodes, to suspend it, and to say why it waits. Pure.

A patch has the whole of ``spec``, because a merge patch replaces lists, and the version that it was
made from, so that a change made in between is never overwritten.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from typing import Any, Final

from quorate.adapters.kubernetes.job_kinds import (
    MESSAGE_NOTE,
    NODES_NOTE,
    RUN_NOTE,
    Path,
    PodSet,
    SeenJob,
    Tree,
    at,
)

HOST: Final = "kubernetes.io/hostname"
_FIELD: Final = "metadata.name"
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"


def start_patch(job: SeenJob, run: str, nodes: Sequence[str]) -> Tree:
    """Return the patch that starts ``job`` on ``nodes`` for ``run``."""
    spec = deepcopy(job.tree["spec"])
    for each in job.pod_sets:
        pod = at(spec, (*each.path[1:], "spec"))
        if job.workload.kind.by_affinity:
            _pin_by_affinity(pod, nodes, is_pinned=job.placed_on is not None)
        else:
            (node,) = nodes
            pod["nodeSelector"] = {**(pod.get("nodeSelector") or {}), HOST: node}
    _put(spec, job.workload.kind.suspend[1:], value=False)
    notes = {RUN_NOTE: run, NODES_NOTE: ",".join(nodes), MESSAGE_NOTE: None}
    return _patch(job, notes, spec)


def suspend_patch(job: SeenJob, message: str) -> Tree:
    """Return the patch that suspends ``job``; its pods are ended by its own controller."""
    spec: Tree = {}
    _put(spec, job.workload.kind.suspend[1:], value=True)
    return _patch(job, {MESSAGE_NOTE: message or None}, spec)


def message_patch(job: SeenJob, message: str, run: str = "") -> Tree:
    """Return the patch that has ``job`` say why it waits, and for which run."""
    notes: dict[str, str | None] = {MESSAGE_NOTE: message or None}
    if run:
        notes[RUN_NOTE] = run
    return _patch(job, notes, None)


def misfit(job: SeenJob, gpus_of: dict[str, int], *, is_alone: bool) -> str:
    """Return why the pods of ``job`` cannot work on the GPUs that it has of nodes; empty if so.

    Its template names nodes, and the cluster's scheduler chooses among them by what it counts as
    free. So where runs share nodes (not ``is_alone``) only one node can be named.
    """
    if len(gpus_of) > 1 and not job.workload.kind.by_affinity:
        return (
            f"a {job.workload.kind.kind} can be pinned to one node, and it has GPUs of "
            f"{len(gpus_of)}; use a Job for each node, or a kind that takes a node affinity"
        )
    if len(gpus_of) > 1 and not is_alone:
        return (
            f"it has GPUs of {len(gpus_of)} nodes that other runs share, and its scheduler would "
            "choose among them; use a pool with wholeNodes: true"
        )
    if not _fits(job.pod_sets, gpus_of):
        sizes = ", ".join(f"{each.pods} x {each.gpus}" for each in job.pod_sets)
        have = ", ".join(f"{gpus} on {node}" for node, gpus in sorted(gpus_of.items()))
        return f"its pods need GPUs of {sizes}, and it has {have}; ask for pods that divide a node"
    return ""


def _fits(pod_sets: Sequence[PodSet], gpus_of: dict[str, int]) -> bool:
    """Return whether the largest pods first, each on the fullest node that holds it, all fit."""
    left = dict(gpus_of)
    sizes = sorted((each.gpus for each in pod_sets for _ in range(each.pods)), reverse=True)
    for size in sizes:
        room = [(gpus, node) for node, gpus in left.items() if gpus >= size]
        if not room:
            return False
        left[min(room)[1]] -= size
    return True


def _pin_by_affinity(pod: Tree, nodes: Sequence[str], *, is_pinned: bool) -> None:
    """Have each alternative of a pod's node affinity name one of ``nodes`` besides."""
    affinity = pod.setdefault("affinity", {}) or {}
    pod["affinity"] = affinity
    node_affinity = affinity.get("nodeAffinity") or {}
    affinity["nodeAffinity"] = node_affinity
    terms = (node_affinity.get(_REQUIRED) or {}).get("nodeSelectorTerms") or [{}]
    if is_pinned:
        terms = _without_pins(terms)
    node_affinity[_REQUIRED] = {
        "nodeSelectorTerms": [_pinned(term, node) for term in terms for node in nodes]
    }


def _pinned(term: Tree, node: str) -> Tree:
    pin = {"key": _FIELD, "operator": "In", "values": [node]}
    return {**term, "matchFields": [*(term.get("matchFields") or []), pin]}


def _without_pins(terms: Sequence[Tree]) -> list[Tree]:
    """Return the alternatives as they were before an earlier start: the last field is its pin."""
    found: list[Tree] = []
    for term in terms:
        fields = (term.get("matchFields") or [])[:-1]
        bare = {key: value for key, value in term.items() if key != "matchFields"}
        before = {**bare, "matchFields": fields} if fields else bare
        if before not in found:
            found.append(before)
    return found or [{}]


def _put(tree: Tree, path: Path, *, value: bool) -> None:
    *before, last = path
    for step in before:
        assert isinstance(step, str), path
        tree = tree.setdefault(step, {})
    assert isinstance(last, str), path
    tree[last] = value


def _patch(job: SeenJob, notes: dict[str, Any], spec: Tree | None) -> Tree:
    metadata = {"resourceVersion": job.version, "uid": job.workload.uid, "annotations": notes}
    return {"metadata": metadata} if spec is None else {"metadata": metadata, "spec": spec}
