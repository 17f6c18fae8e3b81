"""Reads ClusterQueue, Cohort and LocalQueue manifests: quotas of each flavor."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Final

from quorate.documents import values
from quorate.documents.field_reader import At, as_it_is, complete, listed
from quorate.documents.kueue.kueue_manifest import Manifest, fields_read
from quorate.documents.kueue.kueue_quantity import GPU_RESOURCES, gpu_count

_NO_PREEMPTION: Final = (
    "has no counterpart: no run is stopped for a priority; a pool's reservationNotice, "
    "disruptionRate and the lottery decide which runs are stopped"
)
_NO_CHECKS: Final = "has no counterpart: a run starts when payers and a placement are found"
_NO_STOP: Final = "has no counterpart: to hold an owner back, set its quota.maxConcurrentRuns to 0"
_NO_WEIGHT: Final = "has no counterpart: set quota.fairShareTarget, a part of the fleet, instead"
_QUEUE_GONE: Final = {
    "queueingStrategy": "has no counterpart: the queue is ordered by share, and later runs "
    "are backfilled",
    "namespaceSelector": "has no counterpart: the access token of a user names the owner of "
    "the user's runs",
    "flavorFungibility": "has no counterpart: a run tries all flavors of its gpuTypes in their "
    "order with its owner's family as payers, and then tries all of them again, also with lenders",
    "admissionChecks": _NO_CHECKS,
    "admissionChecksStrategy": _NO_CHECKS,
    "stopPolicy": _NO_STOP,
    "admissionScope": "has no counterpart: the queue orders owners by current and past usage",
    "concurrentAdmissionPolicy": "has no counterpart: a run stays on the flavor it started on",
}
_QUEUE: Final = frozenset({"resourceGroups", "cohort", "cohortName", "preemption", "fairSharing"})
_COHORT: Final = frozenset({"resourceGroups", "parentName", "parent", "fairSharing"})
_LOCAL: Final = frozenset({"clusterQueue", "fairSharing"})
_GROUP: Final = frozenset({"flavors"})
_FLAVOR: Final = frozenset({"name", "resources"})
_RESOURCE: Final = frozenset({"name", "nominalQuota", "borrowingLimit", "lendingLimit"})


@dataclass(frozen=True, slots=True, kw_only=True)
class FlavorQuota:
    """The GPUs of one ResourceFlavor in a queue's quota.

    Other queues may use ``gpus_lent`` of these GPUs; None means that they may use all of them.
    """

    flavor: str
    gpus: int
    gpus_lent: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Queue:
    """A ClusterQueue or a Cohort: its name, its parent, and its quotas in order."""

    manifest: Manifest
    name: str
    above: str | None
    quotas: tuple[FlavorQuota, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalQueue:
    """The LocalQueue of a namespace, and the ClusterQueue that it points to."""

    manifest: Manifest
    namespace: str
    name: str
    cluster_queue: str


def read_cluster_queue(spec: object, at: At, manifest: Manifest) -> Queue | None:
    """Return the ClusterQueue; report its faults and return None if it is faulty."""
    fields = fields_read(spec, at, manifest, _QUEUE, _QUEUE_GONE)
    if fields is None:
        return None
    fields.maybe("preemption", partial(_all_gone, manifest=manifest, why=_NO_PREEMPTION))
    fields.maybe("fairSharing", partial(_all_gone, manifest=manifest, why=_NO_WEIGHT))
    cohort = fields.maybe("cohort", values.name)
    # In v1beta2 the field cohort is called cohortName.
    cohort_name = fields.maybe("cohortName", values.name)
    quotas = fields.optional("resourceGroups", partial(_groups, manifest=manifest), ())
    return Queue(manifest=manifest, name=manifest.name, above=cohort_name or cohort, quotas=quotas)


def read_cohort(spec: object, at: At, manifest: Manifest) -> Queue | None:
    """Return the Cohort; report its faults and return None if it is faulty.

    Its spec may be empty.
    """
    fields = fields_read(spec, at, manifest, _COHORT, {})
    if fields is None:
        return None
    fields.maybe("fairSharing", partial(_all_gone, manifest=manifest, why=_NO_WEIGHT))
    # In v1alpha1 the field parentName is called parent.
    parent = fields.maybe("parentName", values.name) or fields.maybe("parent", values.name)
    if parent is not None:
        manifest.note(
            (*at.path, "parentName" if "parentName" in fields else "parent"),
            "is kept as a parent, but only siblings and parents pay for an owner: "
            "ClusterQueues of this cohort cannot use the quotas of this parent",
        )
    quotas = fields.optional("resourceGroups", partial(_groups, manifest=manifest), ())
    return Queue(manifest=manifest, name=manifest.name, above=parent, quotas=quotas)


def read_local_queue(spec: object, at: At, manifest: Manifest) -> LocalQueue | None:
    """Return the LocalQueue; report its faults and return None if it is faulty."""
    fields = fields_read(spec, at, manifest, _LOCAL, {"stopPolicy": _NO_STOP})
    if fields is None:
        return None
    fields.maybe("fairSharing", partial(_all_gone, manifest=manifest, why=_NO_WEIGHT))
    target = fields.required(
        "clusterQueue", values.name, remedy="name the ClusterQueue, e.g. clusterQueue: research"
    )
    if target is None:
        return None
    return LocalQueue(
        manifest=manifest,
        namespace=manifest.namespace,
        name=manifest.name,
        cluster_queue=target,
    )


def _all_gone(value: object, at: At, *, manifest: Manifest, why: str) -> bool:
    """Add a note with the text ``why`` for each field of ``value``.

    If ``value`` has no fields, add one note for ``value`` itself.
    """
    keys = value if isinstance(value, dict) else {}
    for key in keys:
        if isinstance(key, str):
            manifest.note((*at.path, key), why)
    if not keys:
        manifest.note(at.path, why)
    return True


def _groups(value: object, at: At, *, manifest: Manifest) -> tuple[FlavorQuota, ...] | None:
    found = complete(listed(value, at, partial(_group, manifest=manifest)))
    return None if found is None else tuple(quota for group in found for quota in group)


def _group(value: object, at: At, *, manifest: Manifest) -> tuple[FlavorQuota, ...] | None:
    fields = fields_read(value, at, manifest, _GROUP, {"coveredResources": ""})
    if fields is None:
        return None
    found = fields.required(
        "flavors",
        lambda flavors, place: complete(
            listed(flavors, place, partial(_flavor, manifest=manifest))
        ),
        remedy="list the flavors with their quotas",
    )
    return None if found is None else tuple(quota for flavor in found for quota in flavor)


def _flavor(value: object, at: At, *, manifest: Manifest) -> tuple[FlavorQuota, ...] | None:
    fields = fields_read(value, at, manifest, _FLAVOR, {})
    if fields is None:
        return None
    name = fields.required("name", values.name, remedy="name a ResourceFlavor")
    if name is None:
        return None
    resources = fields.required(
        "resources",
        lambda entries, place: listed(
            entries, place, partial(_resource, manifest=manifest, flavor=name)
        ),
        remedy="list its resources with their nominalQuota",
    )
    if resources is None:
        return None
    found = tuple(quota for quota in resources if quota is not None)
    if len(found) > 1:
        fields.at("resources").fault(
            "has GPUs of two vendors in one flavor", "give each of them a ResourceFlavor of its own"
        )
    return found


def _resource(value: object, at: At, *, manifest: Manifest, flavor: str) -> FlavorQuota | None:
    fields = fields_read(value, at, manifest, _RESOURCE, {})
    if fields is None:
        return None
    name = fields.required("name", values.text, remedy="name the resource, e.g. nvidia.com/gpu")
    if name is None:
        return None
    if name not in GPU_RESOURCES:
        manifest.note(at.path, f"{name} has no counterpart: budgets and nodes count GPUs only")
        return None
    gpus = fields.required("nominalQuota", gpu_count, remedy="say how many, e.g. nominalQuota: 8")
    lent = fields.maybe("lendingLimit", gpu_count)
    if lent is not None and manifest.kind == "Cohort":
        manifest.note(
            (*at.path, "lendingLimit"),
            "has no counterpart: only owners below a cohort can use its budget",
        )
        lent = None
    if fields.maybe("borrowingLimit", as_it_is) is not None:
        manifest.note(
            (*at.path, "borrowingLimit"),
            "has no counterpart: inside a family no limit applies to a single borrower; limit the "
            "lenders with lendingLimit, or the owner with quota.maxNodes",
        )
    if gpus is None:
        return None
    return FlavorQuota(flavor=flavor, gpus=gpus, gpus_lent=lent)
