"""``calc bind``: divides the GPUs of a given placement among given payers.

In the core, the placement and the payers of a run always match. Here both are in the world, so they
may not match; ``calc bind`` reports a mismatch as ``error``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from quorate.calc.world_reader import any_whole, open_world, settle
from quorate.documents import values
from quorate.documents.document_problem import shown
from quorate.documents.field_reader import At, complete, fields_of, listed
from quorate.model.events import Role, StartReason

_BIND: Final = frozenset({"groups", "segments"})
_GROUP: Final = frozenset({"index", "size", "nodes", "spares", "spareNodes", "domain"})
_SEGMENT: Final = frozenset({"budget", "envelope", "owner", "quantity", "borrowed", "namespace"})
_CHUNK_PARTS: Final = 2

Chunk = tuple[str, int]
"""A node, and how many of its GPUs the placement takes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Group:
    index: int
    size: int
    nodes: tuple[Chunk, ...]
    spares: int
    spare_nodes: tuple[Chunk, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Segment:
    budget: str
    envelope: str
    owner: str
    quantity: int
    borrowed: bool


def bind(world: object) -> dict[str, object]:
    """Return one slice for each chunk and payer, with the slices of spares last; or ``error``."""
    fields, at = open_world(world, ["bind"])
    asked = fields.required("bind", _asked)
    settle(at)
    assert asked is not None, world
    groups, segments = asked
    fault = next(_faults(groups, segments), None)
    if fault is not None:
        return {"error": fault}
    chunks = [(group, chunk, Role.ACTIVE) for group in groups for chunk in group.nodes]
    chunks += [(group, chunk, Role.SPARE) for group in groups for chunk in group.spare_nodes]
    placed = sum(gpus for _, (_, gpus), _ in chunks)
    paid = sum(segment.quantity for segment in segments)
    if placed > paid:
        return {"error": "cover plan exhausted before assignments completed"}
    if placed < paid:
        return {"error": "unused cover quantity remains after placement"}
    payers = _Payers(segments)
    return {
        "slices": [
            _slice(group, node, taken, segment, role)
            for group, (node, gpus), role in chunks
            for segment, taken in payers.take(gpus)
        ]
    }


def _faults(groups: tuple[_Group, ...], segments: tuple[_Segment, ...]) -> Iterator[str]:
    """Yield each fault of a group or of a segment, as a text."""
    for group in groups:
        for node, gpus in (*group.nodes, *group.spare_nodes):
            if gpus <= 0:
                yield (
                    f"non-positive placement chunk ({gpus} GPUs on {node}) for group {group.index}"
                )
        if sum(gpus for _, gpus in group.nodes) != group.size:
            yield f"active allocation mismatch for group {group.index}"
        if sum(gpus for _, gpus in group.spare_nodes) != group.spares:
            yield f"spare allocation mismatch for group {group.index}"
    for segment in segments:
        if segment.quantity < 0:
            yield (
                f"negative cover quantity ({segment.quantity} GPUs of "
                f"{segment.budget}/{segment.envelope})"
            )


class _Payers:
    """The payers of a placement. A segment is a payer with a number of GPUs that it still pays for.

    When a segment has no GPUs left, the next segment pays.
    """

    def __init__(self, segments: tuple[_Segment, ...]) -> None:
        self._left = [[segment, segment.quantity] for segment in segments if segment.quantity]

    def take(self, gpus: int) -> Iterator[tuple[_Segment, int]]:
        """Yield who pays for the next ``gpus`` GPUs. The segments must have that many GPUs left."""
        while gpus:
            head = self._left[0]
            segment, left = head
            assert isinstance(segment, _Segment), head
            assert isinstance(left, int), head
            taken = min(gpus, left)
            gpus -= taken
            head[1] = left - taken
            if left == taken:
                self._left.pop(0)
            yield segment, taken


def _slice(group: _Group, node: str, gpus: int, segment: _Segment, role: Role) -> dict[str, object]:
    return {
        "group": str(group.index),
        "node": node,
        "gpus": gpus,
        "budget": segment.budget,
        "envelope": segment.envelope,
        "owner": segment.owner,
        "borrowed": segment.borrowed,
        "role": role.value,
        "reason": StartReason.START.value,
    }


def _asked(value: object, at: At) -> tuple[tuple[_Group, ...], tuple[_Segment, ...]] | None:
    fields = fields_of(value, at, _BIND)
    if fields is None:
        return None
    groups = complete(fields.required("groups", lambda v, a: listed(v, a, _group)))
    segments = complete(fields.required("segments", lambda v, a: listed(v, a, _segment)))
    return None if groups is None or segments is None else (groups, segments)


def _group(value: object, at: At) -> _Group | None:
    fields = fields_of(value, at, _GROUP)
    if fields is None:
        return None
    index = fields.required("index", values.count)
    size = fields.required("size", any_whole)
    nodes = fields.required("nodes", _chunks)
    spare_nodes = fields.optional("spareNodes", _chunks, ())
    spares = fields.optional("spares", any_whole, 0)
    fields.maybe("domain", values.line)
    if index is None or size is None or nodes is None:
        return None
    return _Group(index=index, size=size, nodes=nodes, spares=spares, spare_nodes=spare_nodes)


def _chunks(value: object, at: At) -> tuple[Chunk, ...] | None:
    return complete(listed(value, at, _chunk))


def _chunk(value: object, at: At) -> Chunk | None:
    if not isinstance(value, list) or len(value) != _CHUNK_PARTS:
        at.fault(f"must be a node and its GPUs, got {shown(value)}", 'write ["node-1", 4]')
        return None
    node, gpus = values.line(value[0], at.child(0)), any_whole(value[1], at.child(1))
    return None if node is None or gpus is None else (node, gpus)


def _segment(value: object, at: At) -> _Segment | None:
    fields = fields_of(value, at, _SEGMENT)
    if fields is None:
        return None
    budget = fields.required("budget", values.line)
    envelope = fields.required("envelope", values.line)
    owner = fields.optional("owner", values.line, "")
    quantity = fields.required("quantity", any_whole)
    borrowed = fields.optional("borrowed", values.truth, default=False)
    fields.maybe("namespace", values.line)
    if budget is None or envelope is None or quantity is None:
        return None
    return _Segment(
        budget=budget, envelope=envelope, owner=owner, quantity=quantity, borrowed=borrowed
    )
