"""Node documents: the GPUs, the flavor and the place of a machine."""

from __future__ import annotations

from typing import Final

from quorate.documents import values
from quorate.documents.document_problem import shown
from quorate.documents.field_reader import At, Fields, fields_of, mapped
from quorate.documents.head import Head
from quorate.documents.labels import FLAVOR_LABEL, label_key, label_value
from quorate.model.amounts import GPUS_PER_NODE_MAX
from quorate.model.selector import CLUSTER, DOMAIN, RACK, REGION
from quorate.model.specs import Node

_SPEC: Final = frozenset({"flavor", "gpus"})
_HINTS: Final = {
    "labels": "write them under metadata.labels",
    "region": "write it under metadata.labels",
    "cluster": "write it under metadata.labels",
    "rack": "write it under metadata.labels",
}
_RESERVED: Final = frozenset({REGION, CLUSTER, DOMAIN, RACK, FLAVOR_LABEL})
_GPUS: Final = values.whole(low=1, high=GPUS_PER_NODE_MAX)


def read_node(spec: object, at: At, head: Head) -> Node | None:
    """Return the node; report its faults and return None if it is faulty."""
    fields = fields_of(spec, at, _SPEC, _HINTS)
    labels = _labels(head)
    place = None if labels is None else _place(labels)
    custom = _custom(head)
    if fields is None:
        return None
    flavor = _flavor(fields, labels)
    gpus = fields.required("gpus", _GPUS, remedy="say how many GPUs the node has, e.g. gpus: 8")
    if flavor is None or gpus is None or place is None or custom is None:
        return None
    region, cluster, domain, rack = place
    return Node(
        name=head.name,
        flavor=flavor,
        gpus=gpus,
        region=region,
        cluster=cluster,
        domain=domain,
        rack=rack,
        labels=custom,
    )


def _labels(head: Head) -> Fields | None:
    if head.labels is None:
        return Fields({}, head.labels_at)
    return Fields(head.labels, head.labels_at) if isinstance(head.labels, dict) else None


def _place(labels: Fields) -> tuple[str, str, str, str | None] | None:
    region = labels.required(REGION, values.name, remedy="add the label, e.g. region: us-west")
    cluster = labels.required(CLUSTER, values.name, remedy="add the label, e.g. cluster: west-1")
    domain = labels.required(DOMAIN, values.name, remedy="add the label, e.g. fabric.domain: pod-a")
    rack = labels.maybe(RACK, values.name)
    if region is None or cluster is None or domain is None:
        return None
    return region, cluster, domain, rack


def _custom(head: Head) -> tuple[tuple[str, str], ...] | None:
    """Return the custom labels; the caller has already checked the labels that name places."""
    if head.labels is None:
        return ()
    own: object = head.labels
    if isinstance(own, dict):
        own = {key: value for key, value in own.items() if key not in _RESERVED}
    return mapped(own, head.labels_at, key=label_key, read=label_value)


def _flavor(fields: Fields, labels: Fields | None) -> str | None:
    label = None if labels is None else labels.maybe(FLAVOR_LABEL, values.name)
    if "flavor" not in fields and labels is not None and FLAVOR_LABEL in labels:
        return label
    found = fields.required("flavor", values.name, remedy="name its GPUs, e.g. flavor: H100-80GB")
    if found is not None and label is not None and found != label:
        fields.at("flavor").fault(
            f"is {shown(found)}, but the label {FLAVOR_LABEL} says {shown(label)}",
            "make them equal or remove the label",
        )
        return None
    return found
