"""Reads ResourceFlavor and Topology manifests: labels and topology of nodes."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import Final

from quorate.documents import values
from quorate.documents.field_reader import At, complete, listed, mapped
from quorate.documents.kueue.kueue_manifest import Manifest, fields_read
from quorate.documents.labels import (
    DOMAINS,
    FLAVORS,
    RACKS,
    REGIONS,
    label_key,
    label_value,
)
from quorate.model.selector import CLUSTER, DOMAIN, RACK, REGION

PLACES: Final = {REGION: REGIONS, CLUSTER: (CLUSTER,), DOMAIN: DOMAINS, RACK: RACKS}
"""Label of an envelope's selector -> labels of nodes with the same meaning."""

_PLACE_LABELS: Final = frozenset(label for labels in PLACES.values() for label in labels)
HOSTNAME: Final = "kubernetes.io/hostname"
_WIDE: Final = frozenset({*REGIONS, "topology.kubernetes.io/zone"})
_FLAVOR: Final = frozenset({"nodeLabels", "topologyName"})
_FLAVOR_GONE: Final = {
    "nodeTaints": "has no counterpart: Quorate places runs itself; with --cluster a run's "
    "tolerations are in its podTemplate",
    "tolerations": "has no counterpart: write them in the podTemplate of each run",
}


class Level(Enum):
    """The kind of place in Quorate to which a level of a Topology corresponds."""

    ABOVE = "above"
    DOMAIN = DOMAIN
    RACK = RACK
    NODE = "node"


@dataclass(frozen=True, slots=True, kw_only=True)
class Flavor:
    """A ResourceFlavor: the labels of its nodes, and its Topology."""

    manifest: Manifest
    name: str
    labels: tuple[tuple[str, str], ...]
    topology: str | None

    def product(self) -> str | None:
        """Return the GPU product in the node labels, if there is one."""
        labels = dict(self.labels)
        return next((labels[key] for key in FLAVORS if labels.get(key)), None)

    def selector(self) -> dict[str, str]:
        """Return the selector of the places that the node labels name."""
        labels = dict(self.labels)
        said = {
            place: next((labels[key] for key in keys if key in labels), None)
            for place, keys in PLACES.items()
        }
        return {place: value for place, value in said.items() if value is not None}

    def other_labels(self) -> dict[str, str]:
        """Return the node labels that name neither a place nor a GPU product."""
        known = {*_PLACE_LABELS, *FLAVORS}
        return {key: value for key, value in self.labels if key not in known}


@dataclass(frozen=True, slots=True, kw_only=True)
class Topology:
    """A Topology: the labels of its levels, from the widest to the narrowest."""

    manifest: Manifest
    name: str
    levels: tuple[str, ...]

    def level(self, label: str) -> Level | None:
        """Return the place for the level ``label`` of the Topology; None if it has no such level.

        The level above the nodes is the rack, and the next level is the domain. If there is only
        one level above the nodes, it is the domain. Regions, zones and all levels above the domain
        are ``Level.ABOVE``.
        """
        if label not in self.levels:
            return None
        if label == HOSTNAME:
            return Level.NODE
        if label in _WIDE:
            return Level.ABOVE
        inner = [each for each in self.levels if each != HOSTNAME and each not in _WIDE]
        from_below = len(inner) - inner.index(label)
        if len(inner) == 1:
            return Level.DOMAIN
        return {1: Level.RACK, 2: Level.DOMAIN}.get(from_below, Level.ABOVE)


def read_flavor(spec: object, at: At, manifest: Manifest) -> Flavor | None:
    """Return the ResourceFlavor; report its faults and return None if it is faulty.

    Its spec may be empty.
    """
    fields = fields_read(spec, at, manifest, _FLAVOR, _FLAVOR_GONE)
    if fields is None:
        return None
    labels = fields.optional("nodeLabels", partial(mapped, key=label_key, read=label_value), ())
    for key, value in labels:
        if key in _PLACE_LABELS and not values.is_name(value):
            fields.at("nodeLabels").child(key).fault(
                "must name a place: it becomes the selector of envelopes",
                "write the place, or remove the label",
            )
    return Flavor(
        manifest=manifest,
        name=manifest.name,
        labels=labels,
        topology=fields.maybe("topologyName", values.name),
    )


def read_topology(spec: object, at: At, manifest: Manifest) -> Topology | None:
    """Return the Topology; report its faults and return None if it is faulty."""
    fields = fields_read(spec, at, manifest, frozenset({"levels"}), {})
    if fields is None:
        return None
    levels = fields.required(
        "levels",
        lambda value, place: complete(listed(value, place, partial(_level, manifest=manifest))),
        remedy="list the levels, the widest first, each with its nodeLabel",
    )
    if levels is None:
        return None
    found = Topology(manifest=manifest, name=manifest.name, levels=levels)
    advice = {
        Level.DOMAIN: f"becomes the label {DOMAIN} of each Node document",
        Level.RACK: f"becomes the label {RACK} of each Node document",
        Level.ABOVE: f"has no exact counterpart: a Node has {REGION}, {CLUSTER}, {DOMAIN} "
        f"and {RACK}; {REGION} could hold this level",
    }
    for number, label in enumerate(levels):
        level = found.level(label)
        if level in advice:
            manifest.note((*at.path, "levels", number), f"{label} {advice[level]}")
    return found


def _level(value: object, at: At, *, manifest: Manifest) -> str | None:
    fields = fields_read(value, at, manifest, frozenset({"nodeLabel"}), {})
    if fields is None:
        return None
    return fields.required("nodeLabel", label_key, remedy="name the label of the level")
