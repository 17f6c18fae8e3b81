"""Reads the fleet of a world: its nodes, and how many GPUs of each node are in use.

The region, cluster, domain and rack of a node are in its fields or its labels. If both state a
value, the field is used. Only nodes of the requested flavor need labels of their place. Only for
these nodes the number of used GPUs is checked.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from quorate.calc.world_reader import any_whole, settle
from quorate.documents import values
from quorate.documents.document_problem import quoted
from quorate.documents.field_reader import At, Fields, complete, fields_of, listed, mapped
from quorate.documents.labels import FLAVOR_LABEL, label_key, label_value
from quorate.model.selector import CLUSTER, DOMAIN, RACK, REGION
from quorate.model.specs import Node
from quorate.model.state.free_slots import all_slots
from quorate.model.state.state import State

NODE_GPUS_MAX: Final = 4_096
"""The most GPUs that a node of a world may have: more than any real node has."""

_NODE: Final = frozenset(
    {"name", "region", "cluster", "domain", "rack", "flavor", "gpus", "labels"}
)
_node_gpus = values.whole(low=0, high=NODE_GPUS_MAX)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeDraft:
    """A node as the world states it. A field is None if the world leaves it out."""

    name: str
    gpus: int
    flavor: str | None
    region: str | None
    cluster: str | None
    domain: str | None
    rack: str | None


@dataclass(frozen=True, slots=True)
class Fleet:
    """The nodes of a world, the GPUs in use by node, and the requested flavor."""

    flavor: str
    nodes: tuple[NodeDraft, ...]
    usage: dict[str, int]


def read_fleet(fields: Fields, at: At) -> Fleet:
    """Return the fleet of a world."""
    nodes = complete(fields.optional("nodes", _nodes, ())) or ()
    usage = dict(fields.optional("usage", _usage, ()))
    flavor = fields.maybe("flavor", values.line)
    settle(at)
    names = [node.name for node in nodes]
    for index, name in enumerate(names):
        if name in names[:index]:
            at.child("nodes").child(index).child("name").fault(
                f"is a duplicate node name {quoted(name)}", "choose another name"
            )
    for name in usage.keys() - set(names):
        at.child("usage").child(name).fault("is not a node of the world", "add the node")
    flavors = {node.flavor for node in nodes if node.flavor is not None}
    if flavor is None:
        if len(flavors) != 1:
            at.child("flavor").fault("is required", "add the kind of GPU, e.g. flavor: H100")
        flavor = next(iter(flavors), "")
    settle(at)
    return Fleet(flavor, nodes, usage)


def read_nodes(fields: Fields, at: At) -> tuple[Node, ...]:
    """Return the nodes of a world, of all flavors; raise if a node lacks a field or has no GPUs."""
    drafts = complete(fields.optional("nodes", _nodes, ())) or ()
    settle(at)
    found: dict[str, Node] = {}
    for index, draft in enumerate(drafts):
        place = at.child("nodes").child(index)
        if draft.name in found:
            place.child("name").fault(
                f"is a duplicate node name {quoted(draft.name)}", "choose another name"
            )
        node = placed(draft, place)
        if node is not None:
            found[node.name] = node
    settle(at)
    return tuple(found.values())


def read_node(value: object, at: At) -> Node | None:
    """Return one node; if a field is missing or invalid, report the fault and return None."""
    draft = _node(value, at)
    return None if draft is None else placed(draft, at)


def placed(draft: NodeDraft, at: At) -> Node | None:
    """Return ``draft`` as a node; if a field is missing, report the fault and return None."""
    for name in ("flavor", "region", "cluster", "domain"):
        if getattr(draft, name) is None:
            at.child(name).fault("is required", f"add {name} to the node")
    if draft.flavor is None or draft.region is None or draft.cluster is None:
        return None
    if draft.domain is None or not draft.gpus:
        if draft.domain is not None:
            at.child("gpus").fault("must be positive, got 0", "leave the node out")
        return None
    return Node(
        name=draft.name,
        flavor=draft.flavor,
        gpus=draft.gpus,
        region=draft.region,
        cluster=draft.cluster,
        domain=draft.domain,
        rack=draft.rack,
    )


def _nodes(value: object, at: At) -> tuple[NodeDraft | None, ...] | None:
    return listed(value, at, _node)


def _node(value: object, at: At) -> NodeDraft | None:
    fields = fields_of(value, at, _NODE)
    if fields is None:
        return None
    name = fields.required("name", values.line)
    gpus = fields.required("gpus", _node_gpus, remedy="say how many GPUs it has, e.g. gpus: 8")
    labels = dict(fields.optional("labels", _labels, ()))

    def place(field: str, label: str) -> str | None:
        return fields.maybe(field, values.line) or labels.get(label) or None

    found = {
        "flavor": place("flavor", FLAVOR_LABEL),
        "region": place("region", REGION),
        "cluster": place("cluster", CLUSTER),
        "domain": place("domain", DOMAIN),
        "rack": place("rack", RACK),
    }
    return None if name is None or gpus is None else NodeDraft(name=name, gpus=gpus, **found)


def _labels(value: object, at: At) -> tuple[tuple[str, str], ...] | None:
    return mapped(value, at, key=label_key, read=label_value)


def _usage(value: object, at: At) -> tuple[tuple[str, int], ...] | None:
    return mapped(value, at, key=values.line, read=any_whole)


def fleet_state(fleet: Fleet) -> State | str:
    """Return a state with the fleet's nodes of the flavor, or the first fault of a node as text."""
    state = State()
    for draft in fleet.nodes:
        if draft.flavor != fleet.flavor:
            continue
        if draft.region is None or draft.cluster is None or draft.domain is None:
            labels = {REGION: draft.region, CLUSTER: draft.cluster, DOMAIN: draft.domain}
            missing = [label for label, value in labels.items() if value is None]
            return f"node {quoted(draft.name)} missing topology labels {', '.join(missing)}"
        used = fleet.usage.get(draft.name, 0)
        if not 0 <= used <= draft.gpus:
            return f"node {quoted(draft.name)} uses {used} of {draft.gpus} GPUs"
        node = Node(
            name=draft.name,
            flavor=draft.flavor,
            gpus=draft.gpus,
            region=draft.region,
            cluster=draft.cluster,
            domain=draft.domain,
            rack=draft.rack,
        )
        state.add_node(node, free=all_slots(draft.gpus) & ~all_slots(used))
    return state
