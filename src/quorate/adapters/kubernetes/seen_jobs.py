"""Reads the Kubernetes objects of workloads that name an owner. Pure.

Users write workloads, and the CRD of a kind may validate little. So this module reads any content
without an exception. If the content cannot become a run, the result has a ``fault``, which Quorate
writes to the workload.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from quorate.adapters.kubernetes.job_kinds import (
    Ended,
    JobKind,
    Path,
    Tree,
    Workload,
    at,
    mappings,
    whole,
)
from quorate.adapters.kubernetes.pod_manifest import GPU
from quorate.documents.document_problem import shown
from quorate.documents.labels import FLAVORS
from quorate.model.amounts import DURATION_MS_MAX, GPUS_MAX, SECOND_MS

OWNER_LABEL: Final = "quorate.dev/owner"
QUEUE_LABEL: Final = "kueue.x-k8s.io/queue-name"
POOL_LABEL: Final = "quorate.dev/pool"
FLAVOR_LABEL: Final = "quorate.dev/flavor"
RUN_NOTE: Final = "quorate.dev/run"
"""The annotation that names the run of a workload."""
NODES_NOTE: Final = "quorate.dev/nodes"
"""The annotation with the nodes on which a workload was started, separated by commas."""
MESSAGE_NOTE: Final = "quorate.dev/message"
"""The annotation that says why a workload does not start."""

GRACE_S: Final = 30
"""The grace period, in seconds, of a pod that states no grace period."""
DURATION_S_MAX: Final = DURATION_MS_MAX // SECOND_MS
LABEL_CHARS_MAX: Final = 63
"""The longest value of a label."""
_GRACE: Final = "terminationGracePeriodSeconds"
_DEADLINE: Final = "activeDeadlineSeconds"


@dataclass(frozen=True, slots=True)
class PodSet:
    """The pods of one template: the template's path, the number of pods, and the GPUs per pod."""

    path: Path
    pods: int
    gpus: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenJob:
    """A workload with an owner, as its cluster has it.

    ``is_idle`` is False while the controller reports that the workload still runs. ``fault`` says
    why the workload cannot be a run. If there is a fault, ``pod_sets`` is empty, and the numbers
    here must not be used. Patches are made from ``tree``, which comparisons ignore.
    """

    workload: Workload
    version: str
    owner: str
    pool: str = ""
    flavor: str = ""
    pod_sets: tuple[PodSet, ...] = ()
    is_suspended: bool = False
    is_idle: bool = True
    ended: Ended | None = None
    deadline_s: int | None = None
    grace_s: int = GRACE_S
    placed_on: tuple[str, ...] | None = None
    message: str = ""
    fault: str = ""
    tree: Tree = field(default_factory=dict, compare=False, repr=False)

    @property
    def gpus(self) -> int:
        """The total number of GPUs of all pods of the workload."""
        return sum(each.pods * each.gpus for each in self.pod_sets)


def seen_job(tree: Tree, kind: JobKind) -> SeenJob | None:
    """Return the workload in ``tree``; None if it names no owner or is being deleted."""
    metadata = tree["metadata"]
    labels, notes = metadata.get("labels") or {}, metadata.get("annotations") or {}
    owner = labels.get(OWNER_LABEL) or labels.get(QUEUE_LABEL)
    if not owner or metadata.get("deletionTimestamp"):
        return None
    placed = notes.get(NODES_NOTE)
    pod_sets, fault = _pod_sets(tree, kind)
    deadline_s, grace_s = whole(at(tree, ("spec", _DEADLINE))), _grace_s(tree, pod_sets)
    fault = fault or _fault(tree, kind, deadline_s, grace_s)
    return SeenJob(
        workload=Workload(kind, metadata["namespace"], metadata["name"], metadata["uid"]),
        version=metadata["resourceVersion"],
        owner=str(owner),
        pool=str(labels.get(POOL_LABEL, "")),
        flavor=str(labels.get(FLAVOR_LABEL, "")) or _flavor(tree, pod_sets),
        pod_sets=() if fault else pod_sets,
        is_suspended=at(tree, kind.suspend) is True,
        is_idle=_is_idle(tree),
        ended=kind.ended(tree),
        deadline_s=deadline_s,
        grace_s=grace_s,
        placed_on=None if placed is None else tuple(str(placed).split(",")),
        message=str(notes.get(MESSAGE_NOTE, "")),
        fault=fault,
        tree=tree,
    )


def _fault(tree: Tree, kind: JobKind, deadline_s: int | None, grace_s: int) -> str:
    """Return a fault that ``_pod_sets`` does not look for; empty if there is none.

    The limits are the same as for runs that users declare in YAML documents.
    """
    if deadline_s is not None and not 0 <= deadline_s <= DURATION_S_MAX:
        return f"{_DEADLINE}: must be 0 to {DURATION_S_MAX}, got {shown(deadline_s)}; lower it"
    if not 0 <= grace_s <= DURATION_S_MAX:
        return f"{_GRACE}: must be 0 to {DURATION_S_MAX}, got {shown(grace_s)}; change it"
    if "{name}" in kind.pod_label and len(tree["metadata"]["name"]) > LABEL_CHARS_MAX:
        return (
            f"metadata.name: has more than {LABEL_CHARS_MAX} characters, the limit for a label of "
            f"its pods; shorten it"
        )
    if at(tree, ("spec", "manualSelector")) is True:
        return (
            "manualSelector: true, so its pods lack the label by which Quorate finds them; create "
            "the Job without manualSelector and selector"
        )
    return ""


def _pod_sets(tree: Tree, kind: JobKind) -> tuple[tuple[PodSet, ...], str]:
    """Return the templates whose pods have GPUs, and a fault if the templates cannot be used."""
    found: list[PodSet] = []
    for path, pods in kind.templates(tree):
        gpus = _pod_gpus(at(tree, (*path, "spec")))
        if isinstance(gpus, str):
            return (), gpus
        if pods > 0 and gpus > 0:
            found.append(PodSet(path, pods, gpus))
    if not found:
        return (), f"its pods ask for no GPUs: set {GPU} in the limits of a container"
    gpus = sum(each.pods * each.gpus for each in found)
    if gpus > GPUS_MAX:
        return (), f"its pods ask for {shown(gpus)} GPUs, more than {GPUS_MAX}; ask for fewer"
    return tuple(found), ""


def _pod_gpus(spec: Any) -> int | str:
    """Return the number of GPUs of one pod, or a text that says what is wrong with the number.

    The GPUs of containers add up. Init containers run one after another, so only the largest of
    their numbers is used.
    """
    amounts: dict[str, list[int]] = {"containers": [0], "initContainers": [0]}
    for table, found in amounts.items():
        for container in mappings(at(spec, (table,))):
            said = at(container, ("resources", "limits", GPU))
            if said is None:
                said = at(container, ("resources", "requests", GPU))
            gpus = _amount("0" if said is None else said)
            if gpus is None:
                name = shown(container.get("name"))
                return (
                    f"container {name} asks for {shown(said)} of {GPU}, which must be 0 to "
                    f"{GPUS_MAX}"
                )
            found.append(gpus)
    return max(sum(amounts["containers"]), *amounts["initContainers"])


def _amount(said: Any) -> int | None:
    """Return ``said`` as a number of GPUs if a YAML document may state this number, else None."""
    if isinstance(said, str) and said.isdecimal() and len(said) <= len(str(GPUS_MAX)):
        said = int(said)
    found = whole(said)
    return found if found is not None and 0 <= found <= GPUS_MAX else None


def _is_idle(tree: Tree) -> bool:
    """Return False if a condition says that the controller has not suspended the workload yet."""
    conditions = mappings(at(tree, ("status", "conditions")))
    return all(
        each.get("type") != "Suspended" or each.get("status") == "True" for each in conditions
    )


def _flavor(tree: Tree, pod_sets: Sequence[PodSet]) -> str:
    """Return the GPU flavor that the pods' node selectors name; empty if they name no flavor."""
    for each in pod_sets:
        for key in FLAVORS:
            said = at(tree, (*each.path, "spec", "nodeSelector", key))
            if said:
                return str(said)
    return ""


def _grace_s(tree: Tree, pod_sets: Sequence[PodSet]) -> int:
    """Return the longest grace period of the pods."""
    said = (whole(at(tree, (*each.path, "spec", _GRACE))) for each in pod_sets)
    return max((GRACE_S if found is None else found for found in said), default=GRACE_S)
