"""Documents without their head, where the kind is known from the context.

``quorate submit`` takes runs, and ``PUT /budgets/rai`` the budget rai: there apiVersion and kind
may be left out, and a spec may be given alone, with its name beside its fields.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final, NamedTuple

from quorate.documents.field_reader import Fault
from quorate.documents.head import RUN
from quorate.model.api_version import API_VERSION

HEAD: Final = frozenset({"apiVersion", "kind", "metadata", "spec", "status"})
GENERATED: Final = "run-"
"""The prefix of a run's name that was given none."""
_METADATA: Final = ("name", "generateName", "labels")


_TELLING: Final = frozenset(
    {
        "resources",
        "totalGPUs",
        "envelopes",
        "gpus",
        "quota",
        "parents",
        "selector",
        "discipline",
        "sensitivePoolSize",
        "budgetPeriodDays",
        "halfLife",
        "weights",
    }
)
"""Fields by which a spec alone is recognised."""


class Bare(NamedTuple):
    """What a document without a head is: its kind, and its name where that is known."""

    kind: str
    name: str = ""


def has_head(tree: dict[str, Any]) -> bool:
    """Return whether ``tree`` has any of the fields around a spec."""
    return not HEAD.isdisjoint(tree)


def is_document(tree: dict[str, Any]) -> bool:
    """Return whether ``tree`` is a document or a spec alone, and not a wrapper of one."""
    return has_head(tree) or not _TELLING.isdisjoint(tree)


def with_head(tree: dict[str, Any], bare: Bare) -> dict[str, Any]:
    """Return ``tree`` as a whole document, with the defaults of ``bare`` for missing fields."""
    if has_head(tree):
        found = {"apiVersion": API_VERSION, "kind": bare.kind} | tree
    else:
        metadata = {key: tree[key] for key in _METADATA if key in tree}
        spec = {key: value for key, value in tree.items() if key not in metadata}
        found = {"apiVersion": API_VERSION, "kind": bare.kind, "metadata": metadata, "spec": spec}
    metadata = found.get("metadata", {})
    if isinstance(metadata, dict) and metadata.keys().isdisjoint({"name", "generateName"}):
        if bare.name:
            found["metadata"] = {"name": bare.name} | metadata
        elif found["kind"] == RUN:
            found["metadata"] = {"generateName": GENERATED} | metadata
    return found


def without_head(fault: Fault) -> Fault:
    """Return ``fault`` of a document that was given a head, at its place in the bare one."""
    is_below = fault.path[:1] in (("spec",), ("metadata",))
    return replace(fault, path=fault.path[1:]) if is_below else fault
