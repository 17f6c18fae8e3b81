"""Kinds of workload that wait while they are suspended: how each is read, in one table. Pure.

A Job, JobSet, PyTorchJob or RayJob has pods that its own controller makes, and a field that
suspends it. What Quorate needs to know of it is here: how many GPUs its pods take, whether it is
suspended, how it has ended, and which pods are its own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from quorate.adapters.kubernetes.pod_manifest import GPU
from quorate.documents.labels import FLAVORS

Tree = dict[str, Any]
Path = tuple[str | int, ...]

OWNER_LABEL: Final = "quorate.dev/owner"
QUEUE_LABEL: Final = "kueue.x-k8s.io/queue-name"
POOL_LABEL: Final = "quorate.dev/pool"
FLAVOR_LABEL: Final = "quorate.dev/flavor"
RUN_NOTE: Final = "quorate.dev/run"
"""The annotation that names the run of a workload."""
NODES_NOTE: Final = "quorate.dev/nodes"
"""The annotation with the nodes that a workload was started on, with commas between them."""
MESSAGE_NOTE: Final = "quorate.dev/message"
"""The annotation that says why a workload does not start."""

GRACE_S: Final = 30
"""How long a pod gets to stop that says nothing about it."""
_GRACE: Final = "terminationGracePeriodSeconds"


@dataclass(frozen=True, slots=True)
class PodSet:
    """Pods of one template: where it is in the tree, how many pods, and GPUs of each."""

    path: Path
    pods: int
    gpus: int


@dataclass(frozen=True, slots=True)
class Ended:
    """How a workload has ended by itself."""

    is_done: bool
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobKind:
    """One kind of workload. ``templates`` yields the place and number of pods of each template.

    ``pod_label`` selects its pods, ``{name}`` and ``{uid}`` being the workload's; ``pod_value`` is
    what the label's value has to match where the label says more than the name. ``by_affinity``:
    its template takes a node affinity while it is suspended; else a node selector alone.
    """

    kind: str
    group: str
    version: str
    plural: str
    suspend: Path
    templates: Callable[[Mapping[str, Any]], Iterator[tuple[Path, int]]]
    ended: Callable[[Mapping[str, Any]], Ended | None]
    pod_label: str
    pod_value: str = ""
    by_affinity: bool = True

    @property
    def list_path(self) -> str:
        """Where all of them are listed."""
        return f"/apis/{self.group}/{self.version}/{self.plural}"

    def path(self, namespace: str, name: str) -> str:
        """Return where one of them is."""
        return f"/apis/{self.group}/{self.version}/namespaces/{namespace}/{self.plural}/{name}"

    def has_pod(self, workload: Workload, labels: Mapping[str, str]) -> bool:
        """Return whether a pod with ``labels``, which ``pod_label`` selects, is of ``workload``."""
        if not self.pod_value:
            return True
        pattern = self.pod_value.format(name=re.escape(workload.name))
        return re.fullmatch(pattern, labels.get(self.pod_label.partition("=")[0], "")) is not None


@dataclass(frozen=True, slots=True)
class Workload:
    """What a run says its work is: KIND.GROUP/NAMESPACE/NAME@UID."""

    kind: JobKind
    namespace: str
    name: str
    uid: str

    def __str__(self) -> str:
        return f"{self.kind.kind}.{self.kind.group}/{self.namespace}/{self.name}@{self.uid}"

    @property
    def pod_selector(self) -> str:
        """The label selector of its pods, in its namespace."""
        return self.kind.pod_label.format(name=self.name, uid=self.uid)

    @property
    def path(self) -> str:
        """Where it is."""
        return self.kind.path(self.namespace, self.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenJob:
    """A workload with an owner, as its cluster has it.

    ``is_idle``: its controller does not say that it is still at work. ``tree`` is what patches are
    made from; it is no part of what two of them are compared by.
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
        """How many GPUs its pods take together."""
        return sum(each.pods * each.gpus for each in self.pod_sets)


def seen_job(tree: Tree, kind: JobKind) -> SeenJob | None:
    """Return a workload that names an owner; None for one that is not Quorate's to start.

    ``fault`` says what of it cannot be read.
    """
    metadata = tree["metadata"]
    labels, notes = metadata.get("labels") or {}, metadata.get("annotations") or {}
    owner = labels.get(OWNER_LABEL) or labels.get(QUEUE_LABEL)
    if not owner or metadata.get("deletionTimestamp"):
        return None
    placed = notes.get(NODES_NOTE)
    pod_sets, fault = _pod_sets(tree, kind)
    return SeenJob(
        workload=Workload(kind, metadata["namespace"], metadata["name"], metadata["uid"]),
        version=metadata["resourceVersion"],
        owner=str(owner),
        pool=str(labels.get(POOL_LABEL, "")),
        flavor=str(labels.get(FLAVOR_LABEL, "")) or _flavor(tree, pod_sets),
        pod_sets=pod_sets,
        is_suspended=at(tree, kind.suspend) is True,
        is_idle=_is_idle(tree),
        ended=kind.ended(tree),
        deadline_s=_whole(at(tree, ("spec", "activeDeadlineSeconds"))),
        grace_s=_grace_s(tree, pod_sets),
        placed_on=None if placed is None else tuple(str(placed).split(",")),
        message=str(notes.get(MESSAGE_NOTE, "")),
        fault=fault,
        tree=tree,
    )


def workload_of(text: str) -> Workload | None:
    """Return the workload that a run names; None where its kind is not known here."""
    kind_name, _, rest = text.partition("/")
    namespace, _, named = rest.partition("/")
    name, _, uid = named.rpartition("@")
    for kind in KINDS:
        if kind_name == f"{kind.kind}.{kind.group}":
            return Workload(kind, namespace, name, uid)
    return None


def at(tree: Any, path: Path) -> Any:
    """Return what is at ``path`` of a tree; None where there is nothing."""
    for step in path:
        if isinstance(step, int):
            tree = tree[step] if isinstance(tree, list) and step < len(tree) else None
        else:
            tree = tree.get(step) if isinstance(tree, dict) else None
    return tree


def _pod_sets(tree: Tree, kind: JobKind) -> tuple[tuple[PodSet, ...], str]:
    """Return the pods with GPUs of each template, or what is wrong with them."""
    found: list[PodSet] = []
    for path, pods in kind.templates(tree):
        gpus = _pod_gpus(at(tree, (*path, "spec")) or {})
        if isinstance(gpus, str):
            return (), gpus
        if pods > 0 and gpus > 0:
            found.append(PodSet(path, pods, gpus))
    if not found:
        return (), f"its pods ask for no GPUs: give a container limits with {GPU}"
    return tuple(found), ""


def _pod_gpus(spec: Mapping[str, Any]) -> int | str:
    """Return the GPUs of one pod, or what is wrong: containers add up, the first ones do not."""
    amounts: dict[str, list[int]] = {"containers": [0], "initContainers": [0]}
    for table, found in amounts.items():
        for container in spec.get(table) or []:
            resources = container.get("resources") or {}
            said = {**(resources.get("requests") or {}), **(resources.get("limits") or {})}
            text = str(said.get(GPU, "0"))
            if not text.isdecimal():
                return f"container {container.get('name')!r} asks for {text!r} of {GPU}"
            found.append(int(text))
    return max(sum(amounts["containers"]), *amounts["initContainers"])


def _is_idle(tree: Tree) -> bool:
    """Return False where a controller says by a condition that it has not suspended it yet."""
    conditions = at(tree, ("status", "conditions")) or []
    return all(each.get("type") != "Suspended" or each["status"] == "True" for each in conditions)


def _flavor(tree: Tree, pod_sets: Sequence[PodSet]) -> str:
    """Return the kind of GPU that the node selectors of its pods name; empty where none does."""
    for each in pod_sets:
        selector = at(tree, (*each.path, "spec", "nodeSelector")) or {}
        for key in FLAVORS:
            if selector.get(key):
                return str(selector[key])
    return ""


def _grace_s(tree: Tree, pod_sets: Sequence[PodSet]) -> int:
    """Return how long its pods may take to stop: as long as the slowest of them."""
    said = (_whole(at(tree, (*each.path, "spec", _GRACE))) for each in pod_sets)
    return max((GRACE_S if found is None else found for found in said), default=GRACE_S)


def _whole(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _count(value: Any) -> int:
    found = _whole(value)
    return 1 if found is None else found


def _job_templates(tree: Mapping[str, Any]) -> Iterator[tuple[Path, int]]:
    spec = tree["spec"]
    pods = _count(spec.get("parallelism"))
    completions = _whole(spec.get("completions"))
    yield ("spec", "template"), pods if completions is None else min(pods, completions)


def _job_set_templates(tree: Mapping[str, Any]) -> Iterator[tuple[Path, int]]:
    for number, each in enumerate(tree["spec"].get("replicatedJobs") or []):
        path = ("spec", "replicatedJobs", number, "template", "spec", "template")
        pods = _count(at(each, ("template", "spec", "parallelism")))
        yield path, pods * _count(each.get("replicas"))


def _pytorch_templates(tree: Mapping[str, Any]) -> Iterator[tuple[Path, int]]:
    for role, each in (tree["spec"].get("pytorchReplicaSpecs") or {}).items():
        yield ("spec", "pytorchReplicaSpecs", role, "template"), _count(each.get("replicas"))


def _ray_templates(tree: Mapping[str, Any]) -> Iterator[tuple[Path, int]]:
    yield ("spec", "rayClusterSpec", "headGroupSpec", "template"), 1
    groups = at(tree, ("spec", "rayClusterSpec", "workerGroupSpecs")) or []
    for number, each in enumerate(groups):
        path = ("spec", "rayClusterSpec", "workerGroupSpecs", number, "template")
        yield path, _count(each.get("replicas"))


def _by_conditions(done: str, failed: str) -> Callable[[Mapping[str, Any]], Ended | None]:
    """Return what reads the end of a workload from conditions of these types."""

    def read(tree: Mapping[str, Any]) -> Ended | None:
        for each in at(tree, ("status", "conditions")) or []:
            if each.get("status") == "True" and each.get("type") in (done, failed):
                words = (str(each.get("reason", "")), str(each.get("message", "")))
                return Ended(each["type"] == done, ": ".join(filter(None, words)))
        return None

    return read


def _ray_ended(tree: Mapping[str, Any]) -> Ended | None:
    status = at(tree, ("status", "jobStatus"))
    if status not in ("SUCCEEDED", "FAILED", "STOPPED"):
        return None
    return Ended(status == "SUCCEEDED", str(at(tree, ("status", "message")) or ""))


KINDS: Final = (
    JobKind(
        kind="job",
        group="batch",
        version="v1",
        plural="jobs",
        suspend=("spec", "suspend"),
        templates=_job_templates,
        ended=_by_conditions("Complete", "Failed"),
        pod_label="controller-uid={uid}",
    ),
    JobKind(
        kind="jobset",
        group="jobset.x-k8s.io",
        version="v1alpha2",
        plural="jobsets",
        suspend=("spec", "suspend"),
        templates=_job_set_templates,
        ended=_by_conditions("Completed", "Failed"),
        pod_label="jobset.sigs.k8s.io/jobset-name={name}",
        # Its webhook takes a changed node selector, and refuses a changed affinity.
        by_affinity=False,
    ),
    JobKind(
        kind="pytorchjob",
        group="kubeflow.org",
        version="v1",
        plural="pytorchjobs",
        suspend=("spec", "runPolicy", "suspend"),
        templates=_pytorch_templates,
        ended=_by_conditions("Succeeded", "Failed"),
        pod_label="training.kubeflow.org/job-name={name}",
    ),
    JobKind(
        kind="rayjob",
        group="ray.io",
        version="v1",
        plural="rayjobs",
        suspend=("spec", "suspend"),
        templates=_ray_templates,
        ended=_ray_ended,
        pod_label="ray.io/cluster",
        # The cluster of a RayJob is called after it, with five characters that are drawn.
        pod_value=r"{name}-(?:raycluster-)?[a-z0-9]{{5}}",
    ),
)
"""The kinds of workload that Quorate starts."""
