"""Documents without apiVersion and kind, in requests that take one kind only.

``quorate submit`` takes runs, and ``PUT /budgets/rai`` takes the budget rai. In such requests
apiVersion and kind may be left out. The request may also be a spec alone, with the name as one of
its fields.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final, NamedTuple

from quorate.documents.field_reader import Fault
from quorate.documents.head import RUN
from quorate.model.api_version import API_VERSION

HEAD: Final = frozenset({"apiVersion", "kind", "metadata", "spec", "status"})
GENERATED: Final = "run-"
"""The prefix of the generated name of a run that has no name."""
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
"""A tree without apiVersion and kind that has one of these fields is a spec."""


class Bare(NamedTuple):
    """The kind, and maybe the name, that a request gives to a document without apiVersion and kind.

    For example, the body of ``PUT /runs/train`` may be a spec alone: its kind is Run, its name
    train.
    """

    kind: str
    name: str = ""


def has_head(tree: dict[str, Any]) -> bool:
    """Return whether ``tree`` has one of the fields that surround a spec, such as ``kind``."""
    return not HEAD.isdisjoint(tree)


def is_document(tree: dict[str, Any]) -> bool:
    """Return whether ``tree`` is itself a document or a spec.

    Otherwise it may be a mapping that has a document or a spec in one of its fields.
    """
    return has_head(tree) or not _TELLING.isdisjoint(tree)


def with_head(tree: dict[str, Any], bare: Bare) -> dict[str, Any]:
    """Return ``tree`` as a whole document, with the missing kind and name from ``bare``."""
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
    """Return ``fault`` with its path in the tree that the user sent, which had no head."""
    is_below = fault.path[:1] in (("spec",), ("metadata",))
    return replace(fault, path=fault.path[1:]) if is_below else fault
