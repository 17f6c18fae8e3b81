"""The fields that every document has around its spec: apiVersion, kind and metadata."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from quorate.documents import values
from quorate.documents.document_problem import shown
from quorate.documents.field_reader import At, Fields, as_it_is, fields_of
from quorate.model.api_version import API_VERSION

NODE: Final = "Node"
OWNER: Final = "Owner"
BUDGET: Final = "Budget"
POOL: Final = "Pool"
SYSTEM: Final = "System"
RUN: Final = "Run"
RESERVATION: Final = "Reservation"

SYSTEM_NAME: Final = "system"
"""The name of the only System document; the document may leave it out."""

_METADATA: Final = frozenset({"name"})
_NODE_METADATA: Final = frozenset({"name", "labels"})
_RUN_METADATA: Final = frozenset({"name", "generateName"})
_KNOWN_METADATA: Final = {NODE: _NODE_METADATA, RUN: _RUN_METADATA}
_LENIENT_METADATA: Final = frozenset({"name", "generateName", "labels", "namespace"})
_HINTS: Final = {
    "labels": "remove it; only a Node carries labels",
    "generateName": "use name: only a Run's name can be generated",
    "namespace": "remove it: names are unique per kind, and spec.owner names the team",
    "annotations": "remove it; Quorate keeps no annotations",
}


class Head(Struct, frozen=True, kw_only=True):
    """The checked metadata of a document.

    ``name`` is empty if the name is faulty, or if Quorate has to generate it. If ``needs_owner``, a
    run must name its owner.
    """

    name: str
    generate_name: str | None
    labels: object
    labels_at: At
    lenient: bool
    needs_owner: bool = True


def read_api_version(top: Fields, *, lenient: bool) -> None:
    """Check ``apiVersion``, which may be left out if ``lenient``."""
    remedy = f"add apiVersion: {API_VERSION}"
    top.required("apiVersion", _api_version, remedy=remedy, otherwise="" if lenient else None)


def _api_version(value: object, at: At) -> str | None:
    found = values.text_at(value, at)
    if found is not None and found != API_VERSION:
        at.fault(
            f"must be {API_VERSION}, got {shown(value)}",
            f"write apiVersion: {API_VERSION}; newer versions need a newer Quorate",
        )
    return found


def read_head(top: Fields, kind: str, *, lenient: bool, needs_owner: bool) -> Head:
    """Return the metadata of a document of ``kind``, and report every fault in the metadata."""
    at = top.at("metadata")
    written: object = {}
    if "metadata" in top:
        written = top.maybe("metadata", as_it_is)
    fields = (
        None if written is None else fields_of(written, at, _known(kind, lenient=lenient), _HINTS)
    )
    if fields is None:
        return Head(name="", generate_name=None, labels=None, labels_at=at, lenient=lenient)
    name, generate_name = _names(fields, kind, lenient=lenient)
    return Head(
        name=name,
        generate_name=generate_name,
        labels=fields.maybe("labels", as_it_is),
        labels_at=fields.at("labels"),
        lenient=lenient,
        needs_owner=needs_owner,
    )


def _known(kind: str, *, lenient: bool) -> frozenset[str]:
    return _LENIENT_METADATA if lenient else _KNOWN_METADATA.get(kind, _METADATA)


def _names(fields: Fields, kind: str, *, lenient: bool) -> tuple[str, str | None]:
    if kind == RUN and "generateName" in fields:
        if "name" in fields:
            fields.at("generateName").fault("is set beside name", "keep one of the two")
        prefix = fields.maybe("generateName", values.name_prefix)
        return fields.optional("name", values.name, ""), prefix
    optional = lenient or kind == SYSTEM
    remedy = "add name, or generateName: a-prefix-" if kind == RUN else "add name"
    found = fields.required("name", values.name, remedy=remedy, otherwise="" if optional else None)
    if kind == SYSTEM and not lenient and found not in ("", SYSTEM_NAME, None):
        fields.at("name").fault(
            f"must be {SYSTEM_NAME}, got {shown(found)}",
            "there is only one System; write name: system, or leave the name out",
        )
    return found or "", None
