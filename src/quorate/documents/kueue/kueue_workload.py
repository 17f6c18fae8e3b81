"""Reads Workload manifests: sets of pods, GPUs of each pod, and the queue."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Final

from quorate.documents import values
from quorate.documents.document_problem import Path
from quorate.documents.field_reader import At, as_it_is, complete, listed
from quorate.documents.kueue.kueue_manifest import Manifest, fields_read
from quorate.documents.kueue.kueue_pod import Pod, read_pod
from quorate.model.amounts import DURATION_MS_MAX, GPUS_MAX, SECOND_MS

_NO_PRIORITY: Final = (
    "has no counterpart: runs have no priority; the queue is ordered by the shares of owners"
)
_SPEC: Final = frozenset({"podSets", "queueName", "active", "maximumExecutionTimeSeconds"})
_SPEC_GONE: Final = {
    "priority": _NO_PRIORITY,
    "priorityClassName": _NO_PRIORITY,
    "priorityClassRef": _NO_PRIORITY,
    "priorityClassSource": _NO_PRIORITY,
}
_POD_SET: Final = frozenset({"name", "count", "minCount", "template", "topologyRequest"})
_TOPOLOGY: Final = frozenset(
    {"required", "preferred", "podSetSliceRequiredTopology", "podSetSliceSize"}
)
_INDEX: Final = "has no counterpart: processes are numbered by RANK, node by node"
_TOPOLOGY_GONE: Final = {
    "unconstrained": "",
    "podIndexLabel": _INDEX,
    "subGroupIndexLabel": _INDEX,
    "subGroupCount": _INDEX,
    "podSetGroupName": "has no counterpart: a run has one flavor for all of its pods",
}
_COUNT: Final = values.whole(low=0, high=GPUS_MAX)
_POSITIVE: Final = values.whole(low=1, high=GPUS_MAX)
_SECONDS: Final = values.whole(low=1, high=DURATION_MS_MAX // SECOND_MS)
_OVER: Final = "Finished"
_UNDER_WAY: Final = frozenset({"QuotaReserved", "Admitted"})


@dataclass(frozen=True, slots=True, kw_only=True)
class PodSet:
    """Pods with the same template.

    ``required`` is a level of the Topology: all pods must be in one place of this level.
    ``slices`` has a level and a number of pods: the pods are divided into slices of this number,
    and the pods of a slice must be in one place of that level.
    """

    path: Path
    name: str
    count: int
    count_min: int | None
    pod: Pod
    required: str | None
    slices: tuple[str, int] | None

    @property
    def gpus(self) -> int:
        """The number of GPUs of all pods together."""
        return self.count * self.pod.gpus


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """A Workload that has not finished, with the sets of pods that request GPUs."""

    manifest: Manifest
    namespace: str
    name: str
    queue: str
    pod_sets: tuple[PodSet, ...]
    limit_s: int | None


def read_workload(spec: object, at: At, manifest: Manifest) -> Workload | None:
    """Return the Workload; None if it is faulty or left out.

    A fault or a note then says why.
    """
    fields = fields_read(spec, at, manifest, _SPEC, _SPEC_GONE)
    if fields is None:
        return None
    queue = fields.required("queueName", values.name, remedy="name the LocalQueue of its namespace")
    pod_sets = fields.required(
        "podSets",
        lambda value, place: complete(listed(value, place, partial(_pod_set, manifest=manifest))),
        remedy="list at least one set of pods",
    )
    limit_s = fields.maybe("maximumExecutionTimeSeconds", _SECONDS)
    if fields.optional("active", values.truth, default=True) is False:
        manifest.note((*at.path, "active"), "is false: the Workload is left out")
        return None
    if queue is None or pod_sets is None:
        return None
    with_gpus = tuple(each for each in pod_sets if each.gpus)
    if not with_gpus:
        manifest.note(at.path, "asks for no GPUs: the Workload is left out")
        return None
    for each in pod_sets:
        if each not in with_gpus:
            manifest.note(each.path, "asks for no GPUs: its pods are not part of the run")
    return Workload(
        manifest=manifest,
        namespace=manifest.namespace,
        name=manifest.name,
        queue=queue,
        pod_sets=with_gpus,
        limit_s=limit_s,
    )


def is_over(status: object, manifest: Manifest) -> bool:
    """Return whether the Workload has finished.

    Add a note if the Workload has finished, or if Kueue has already admitted it.
    """
    conditions = status.get("conditions") if isinstance(status, dict) else None
    held = {
        each.get("type")
        for each in (conditions if isinstance(conditions, list) else ())
        if isinstance(each, dict) and each.get("status") == "True"
    }
    if _OVER in held:
        manifest.note(("status",), "is Finished: the Workload is left out")
        return True
    if held & _UNDER_WAY:
        manifest.note(
            ("status",),
            "is already admitted: the run is submitted as new, without the pods of the Workload; "
            "delete the Workload's job before you apply the run",
        )
    return False


def _pod_set(value: object, at: At, *, manifest: Manifest) -> PodSet | None:
    fields = fields_read(value, at, manifest, _POD_SET, {})
    if fields is None:
        return None
    pod = fields.required(
        "template", partial(_template, manifest=manifest), remedy="add the template of its pods"
    )
    count = fields.optional("count", _COUNT, 1)
    least = fields.maybe("minCount", _POSITIVE)
    if least is not None and least > count:
        fields.at("minCount").fault(f"must be at most count {count}, got {least}", "lower it")
    required, slices = fields.optional(
        "topologyRequest", partial(_topology, manifest=manifest), (None, None)
    )
    if pod is None:
        return None
    return PodSet(
        path=at.path,
        name=fields.optional("name", values.name, "main"),
        count=count,
        count_min=least,
        pod=pod,
        required=required,
        slices=slices,
    )


def _template(value: object, at: At, *, manifest: Manifest) -> Pod | None:
    fields = fields_read(value, at, manifest, frozenset({"spec"}), {"metadata": ""})
    if fields is None:
        return None
    return fields.required(
        "spec", partial(read_pod, manifest=manifest), remedy="add the spec of its pods"
    )


def _topology(
    value: object, at: At, *, manifest: Manifest
) -> tuple[str | None, tuple[str, int] | None] | None:
    fields = fields_read(value, at, manifest, _TOPOLOGY, _TOPOLOGY_GONE)
    if fields is None:
        return None
    if fields.maybe("preferred", as_it_is) is not None:
        manifest.note(
            (*at.path, "preferred"),
            "has no counterpart: a run is always placed in as few domains as possible",
        )
    level = fields.maybe("podSetSliceRequiredTopology", values.line)
    size = fields.maybe("podSetSliceSize", _POSITIVE)
    slices = None if level is None or size is None else (level, size)
    return fields.maybe("required", values.line), slices
