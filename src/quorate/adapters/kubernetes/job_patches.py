"""The patches that start a workload on nodes, suspend it, and state why it waits. Pure.

A patch contains the whole ``spec``, because a merge patch replaces lists. A patch also contains the
resource version from which it was made, so it never overwrites a later change.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from typing import Any, Final

from quorate.adapters.kubernetes.job_kinds import Path, Tree, at, mappings
from quorate.adapters.kubernetes.seen_jobs import (
    MESSAGE_NOTE,
    NODES_NOTE,
    RUN_NOTE,
    PodSet,
    SeenJob,
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
            pod["nodeSelector"] = {**_mapping(pod.get("nodeSelector")), HOST: node}
    _put(spec, job.workload.kind.suspend[1:], value=False)
    notes = {RUN_NOTE: run, NODES_NOTE: ",".join(nodes), MESSAGE_NOTE: None}
    return _patch(job, notes, spec)


def suspend_patch(job: SeenJob, message: str) -> Tree:
    """Return the patch that suspends ``job``; the workload's own controller ends its pods."""
    spec: Tree = {}
    _put(spec, job.workload.kind.suspend[1:], value=True)
    return _patch(job, {MESSAGE_NOTE: message or None}, spec)


def message_patch(job: SeenJob, message: str, run: str = "") -> Tree:
    """Return the patch that writes into ``job`` why it waits, and the name of its run."""
    notes: dict[str, str | None] = {MESSAGE_NOTE: message or None}
    if run:
        notes[RUN_NOTE] = run
    return _patch(job, notes, None)


def misfit(job: SeenJob, gpus_of: dict[str, int], *, is_alone: bool) -> str:
    """Return why the pods of ``job`` do not fit the assigned GPUs; empty if they fit.

    The template names nodes, and the cluster's scheduler chooses among these nodes by its own count
    of free GPUs. So if runs share nodes (``is_alone`` is False), the template can name only one
    node.
    """
    if len(gpus_of) > 1 and not job.workload.kind.by_affinity:
        return (
            f"a {job.workload.kind.kind} can be pinned to one node only, but it was assigned GPUs "
            f"of {len(gpus_of)} nodes; use a Job for each node, or a kind that accepts a node "
            "affinity"
        )
    if len(gpus_of) > 1 and not is_alone:
        return (
            f"the run was assigned GPUs of {len(gpus_of)} nodes that have other runs as well, but "
            "Quorate cannot tell the cluster's scheduler how many GPUs to use on each node; use a "
            "pool with wholeNodes: true"
        )
    if not _fits(job.pod_sets, gpus_of):
        sizes = ", ".join(f"{each.pods} x {each.gpus}" for each in job.pod_sets)
        have = ", ".join(f"{gpus} on {node}" for node, gpus in sorted(gpus_of.items()))
        return (
            f"its pods need {sizes} GPUs, but the run was assigned {have}; let each pod ask "
            f"for a number of GPUs that divides the number of each node"
        )
    return ""


def _fits(pod_sets: Sequence[PodSet], gpus_of: dict[str, int]) -> bool:
    """Return whether all pods fit: largest first, each on the fullest node with enough free GPUs.

    A node that has taken a pod is even fuller, so it also takes the next pods of this size, until
    no further pod fits.
    """
    left = dict(gpus_of)
    for each in sorted(pod_sets, key=lambda each: each.gpus, reverse=True):
        pods = each.pods
        for node in sorted(left, key=lambda node: (left[node], node)):
            taken = min(pods, left[node] // each.gpus)
            left[node] -= taken * each.gpus
            pods -= taken
        if pods:
            return False
    return True


def is_pinned_to(job: SeenJob, nodes: Sequence[str]) -> bool:
    """Return whether the templates of ``job`` name exactly ``nodes``, as ``start_patch`` does."""
    return all(_pins(job, each) == set(nodes) for each in job.pod_sets)


def _pins(job: SeenJob, pod_set: PodSet) -> set[str]:
    """Return the nodes to which a template is pinned; empty if its pods may run elsewhere."""
    pod = at(job.tree, (*pod_set.path, "spec"))
    if not job.workload.kind.by_affinity:
        return {str(at(pod, ("nodeSelector", HOST)))}
    terms = at(pod, ("affinity", "nodeAffinity", _REQUIRED, "nodeSelectorTerms"))
    pins = [_pin(term) for term in mappings(terms)]
    return set() if None in pins else {str(each) for each in pins}


def _pin(term: Tree) -> str | None:
    """Return the node that the last field of a selector term names; None if it names no node."""
    last = (mappings(term.get("matchFields")) or [{}])[-1]
    values = last.get("values")
    if not isinstance(values, list) or last != _pin_to(*values[:1]) or len(values) != 1:
        return None
    return str(values[0])


def _pin_to(node: str = "") -> Tree:
    return {"key": _FIELD, "operator": "In", "values": [node]}


def _pin_by_affinity(pod: Tree, nodes: Sequence[str], *, is_pinned: bool) -> None:
    """Make each term of a pod's node affinity also require one of ``nodes``."""
    affinity = _mapping(pod.get("affinity"))
    pod["affinity"] = affinity
    node_affinity = _mapping(affinity.get("nodeAffinity"))
    affinity["nodeAffinity"] = node_affinity
    terms = mappings(at(node_affinity, (_REQUIRED, "nodeSelectorTerms"))) or [{}]
    if is_pinned:
        terms = _without_pins(terms)
    node_affinity[_REQUIRED] = {
        "nodeSelectorTerms": [_pinned(term, node) for term in terms for node in nodes]
    }


def _mapping(value: Any) -> Tree:
    return value if isinstance(value, dict) else {}


def _pinned(term: Tree, node: str) -> Tree:
    return {**term, "matchFields": [*mappings(term.get("matchFields")), _pin_to(node)]}


def _without_pins(terms: Sequence[Tree]) -> list[Tree]:
    """Return the terms as they were before an earlier start pinned them to nodes."""
    found: list[Tree] = []
    for term in terms:
        fields = mappings(term.get("matchFields"))
        if _pin(term) is not None:
            fields = fields[:-1]
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
