"""The kinds of workload that Quorate starts, and how to read the objects of each kind. Pure.

A workload is a Job, JobSet, PyTorchJob or RayJob. The workload's own controller creates its pods,
and a field of the workload suspends it. For each kind, the table says where a workload has its pod
templates, how it reports its end, and which pods belong to it. The CRD of a kind may validate
little of a user's object, so this module validates each field.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from quorate.adapters.kubernetes.kubelet_notes import note_of

Tree = dict[str, Any]
Path = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Ended:
    """How a workload ended, if it ended by itself."""

    is_done: bool
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobKind:
    """One kind of workload. ``templates`` yields the path and number of pods of each template.

    ``pod_label`` is the label selector of a workload's pods; ``{name}`` and ``{uid}`` stand for the
    workload's name and UID. If the selector has only the label's key, the label's value must match
    the pattern ``pod_value``. If ``by_affinity``, a suspended workload accepts a changed node
    affinity; otherwise it accepts only a changed node selector.
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
        """The API path that lists all workloads of this kind."""
        return f"/apis/{self.group}/{self.version}/{self.plural}"

    def path(self, namespace: str, name: str) -> str:
        """Return the API path of one workload."""
        return f"/apis/{self.group}/{self.version}/namespaces/{namespace}/{self.plural}/{name}"

    def has_pod(self, workload: Workload, labels: Mapping[str, str]) -> bool:
        """Return whether a pod with ``labels``, found by ``pod_label``, belongs to ``workload``."""
        if not self.pod_value:
            return True
        pattern = self.pod_value.format(name=re.escape(workload.name))
        return re.fullmatch(pattern, labels.get(self.pod_label.partition("=")[0], "")) is not None


@dataclass(frozen=True, slots=True)
class Workload:
    """The workload that a run names: KIND.GROUP/NAMESPACE/NAME@UID."""

    kind: JobKind
    namespace: str
    name: str
    uid: str

    def __str__(self) -> str:
        return f"{self.kind.kind}.{self.kind.group}/{self.namespace}/{self.name}@{self.uid}"

    @property
    def pod_selector(self) -> str:
        """The label selector of the workload's pods, in the workload's namespace."""
        return self.kind.pod_label.format(name=self.name, uid=self.uid)

    @property
    def path(self) -> str:
        """The API path of the workload."""
        return self.kind.path(self.namespace, self.name)


def workload_of(text: str) -> Workload | None:
    """Return the workload that a run names; None if its kind is not in the table."""
    kind_name, _, rest = text.partition("/")
    namespace, _, named = rest.partition("/")
    name, _, uid = named.rpartition("@")
    for kind in KINDS:
        if kind_name == f"{kind.kind}.{kind.group}":
            return Workload(kind, namespace, name, uid)
    return None


def at(tree: Any, path: Path) -> Any:
    """Return the value at ``path`` of a tree; None if no value is there."""
    for step in path:
        if isinstance(step, int):
            tree = tree[step] if isinstance(tree, list) and step < len(tree) else None
        else:
            tree = tree.get(step) if isinstance(tree, dict) else None
    return tree


def mappings(value: Any) -> list[Tree]:
    """Return the mappings in a list; empty if ``value`` is not a list."""
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def whole(value: Any) -> int | None:
    """Return ``value`` if it is a whole number, else None."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _count(value: Any) -> int:
    found = whole(value)
    return 1 if found is None else found


def _job_templates(tree: Mapping[str, Any]) -> Iterator[tuple[Path, int]]:
    pods = _count(at(tree, ("spec", "parallelism")))
    completions = whole(at(tree, ("spec", "completions")))
    yield ("spec", "template"), pods if completions is None else min(pods, completions)


def _job_set_templates(tree: Mapping[str, Any]) -> Iterator[tuple[Path, int]]:
    jobs = at(tree, ("spec", "replicatedJobs"))
    for number, each in enumerate(jobs if isinstance(jobs, list) else []):
        path = ("spec", "replicatedJobs", number, "template", "spec", "template")
        pods = _count(at(each, ("template", "spec", "parallelism")))
        yield path, pods * _count(at(each, ("replicas",)))


def _pytorch_templates(tree: Mapping[str, Any]) -> Iterator[tuple[Path, int]]:
    roles = at(tree, ("spec", "pytorchReplicaSpecs"))
    for role, each in (roles if isinstance(roles, dict) else {}).items():
        yield ("spec", "pytorchReplicaSpecs", role, "template"), _count(at(each, ("replicas",)))


def _ray_templates(tree: Mapping[str, Any]) -> Iterator[tuple[Path, int]]:
    yield ("spec", "rayClusterSpec", "headGroupSpec", "template"), 1
    groups = at(tree, ("spec", "rayClusterSpec", "workerGroupSpecs"))
    for number, each in enumerate(groups if isinstance(groups, list) else []):
        path = ("spec", "rayClusterSpec", "workerGroupSpecs", number, "template")
        yield path, _count(at(each, ("replicas",)))


def _by_conditions(done: str) -> Callable[[Mapping[str, Any]], Ended | None]:
    """Return a function that reads a workload's end from its condition ``done`` or ``Failed``."""

    def read(tree: Mapping[str, Any]) -> Ended | None:
        for each in mappings(at(tree, ("status", "conditions"))):
            if each.get("status") == "True" and each.get("type") in (done, "Failed"):
                return Ended(each["type"] == done, note_of(each.get("reason"), each.get("message")))
        return None

    return read


def _ray_ended(tree: Mapping[str, Any]) -> Ended | None:
    status = at(tree, ("status", "jobStatus"))
    if status not in ("SUCCEEDED", "FAILED", "STOPPED"):
        return None
    return Ended(status == "SUCCEEDED", note_of(at(tree, ("status", "message"))))


KINDS: Final = (
    JobKind(
        kind="job",
        group="batch",
        version="v1",
        plural="jobs",
        suspend=("spec", "suspend"),
        templates=_job_templates,
        ended=_by_conditions("Complete"),
        pod_label="controller-uid={uid}",
    ),
    JobKind(
        kind="jobset",
        group="jobset.x-k8s.io",
        version="v1alpha2",
        plural="jobsets",
        suspend=("spec", "suspend"),
        templates=_job_set_templates,
        ended=_by_conditions("Completed"),
        pod_label="jobset.sigs.k8s.io/jobset-name={name}",
        # The webhook of JobSet accepts a changed node selector, and refuses a changed affinity.
        by_affinity=False,
    ),
    JobKind(
        kind="pytorchjob",
        group="kubeflow.org",
        version="v1",
        plural="pytorchjobs",
        suspend=("spec", "runPolicy", "suspend"),
        templates=_pytorch_templates,
        ended=_by_conditions("Succeeded"),
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
        # The cluster of a RayJob has the RayJob's name, followed by five random characters.
        pod_value=r"{name}-(?:raycluster-)?[a-z0-9]{{5}}",
    ),
)
"""The kinds of workload that Quorate starts."""
