"""Labels and selectors: the place of a node, and the places that a selector matches."""

from __future__ import annotations

import re
from typing import Final

from quorate.documents import values
from quorate.documents.document_problem import quoted, shown
from quorate.documents.field_reader import At, mapped, nearest
from quorate.model.selector import ANY, DOMAIN, LABELS, RACK, REGION, Selector

FLAVOR_LABEL: Final = "gpu.flavor"
"""The label with the flavor of a node, as in Jobtree, a system from which Quorate descends.

It is read like ``spec.flavor``.
"""

REGIONS: Final = (REGION, "topology.kubernetes.io/region")
DOMAINS: Final = (DOMAIN, "nvidia.com/gpu.clique")
RACKS: Final = (RACK, "topology.kubernetes.io/rack")
FLAVORS: Final = (FLAVOR_LABEL, "nvidia.com/gpu.product")
"""Labels of nodes that state the flavor: the label of Jobtree and Quorate, then that of NVIDIA."""

LABEL_KEY: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._/-]{0,251}[A-Za-z0-9])?")
_AT_LEAST_ONE: Final = (
    "must contain at least one label",
    'name a place, e.g. selector: {region: us-west}, or all of them: {region: "*"}',
)


def label_key(value: object, at: At) -> str | None:
    """Return ``value`` if it can be the key of a label."""
    if isinstance(value, str) and LABEL_KEY.fullmatch(value):
        return value
    at.fault(
        f"has an invalid label key: {shown(value)}",
        "use 1 to 253 letters, digits, '.', '_', '/' or '-'",
    )
    return None


def label_value(value: object, at: At) -> str | None:
    """Return ``value`` if it can be the value of a label; it may be empty."""
    return "" if value == "" else values.line(value, at)


def place_value(value: object, at: At) -> str | None:
    """Return ``value`` if it can be a place in a selector: a name, or ``*`` for any place."""
    return ANY if value == ANY else values.name(value, at)


def _place_key(value: object, at: At) -> str | None:
    if isinstance(value, str) and value in LABELS:
        return value
    near = nearest(value, LABELS) if isinstance(value, str) else None
    at.fault(
        f"unknown label {quoted(value) if isinstance(value, str) else shown(value)}",
        f"did you mean '{near}'?" if near else f"use {', '.join(LABELS)}",
    )
    return None


def place_selector(value: object, at: At) -> Selector | None:
    """Return the selector ``value`` with the labels region, cluster, fabric.domain and rack."""
    if value == {}:
        at.fault(*_AT_LEAST_ONE)
        return None
    return mapped(value, at, key=_place_key, read=place_value)


def refuse_no_selector(at: At) -> None:
    """Report that a required selector is missing."""
    at.fault(*_AT_LEAST_ONE)


def pool_selector(value: object, at: At) -> Selector | None:
    """Return the selector ``value`` with labels of places and custom labels; it may be empty."""
    found = mapped(value, at, key=label_key, read=label_value)
    if found is None:
        return None
    for key, wanted in found:
        if key == FLAVOR_LABEL:
            at.child(key).fault(
                "must not be used by a pool: a pool selects places",
                "give those nodes another label, and select that label",
            )
        elif key in LABELS:
            place_value(wanted, at.child(key))
    return found
