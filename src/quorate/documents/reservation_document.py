"""Checks Reservation documents for ``calc validate``; only Quorate makes reservations.

Two checks need the budget, so this module does not make them: that the paying envelope may pay in
the reservation's place, and that the envelope's window is open at the planned start.
"""

from __future__ import annotations

from typing import Final

from quorate.documents import values
from quorate.documents.field_reader import At, complete, fields_of, listed
from quorate.documents.times import time_ms

_SPEC: Final = frozenset({"runRef", "intendedSlice", "payingEnvelope", "earliestStart"})
_RUN_REF: Final = frozenset({"name", "namespace"})
_SLICE: Final = frozenset({"domain", "nodes"})
_DOMAIN: Final = frozenset({"region", "cluster", "fabric", "fabric.domain"})


def check_reservation(spec: object, at: At) -> None:
    """Report every fault of a reservation's spec."""
    fields = fields_of(spec, at, _SPEC)
    if fields is None:
        return
    fields.required(
        "runRef", _run_ref, remedy=("name the run of the reservation: runRef: {name: train}")
    )
    fields.required("intendedSlice", _slice, remedy="state the place: a domain, or a list of nodes")
    fields.required("payingEnvelope", _envelope_name, remedy="name the envelope that pays")
    fields.required("earliestStart", time_ms, remedy="say when, e.g. 2026-01-31T09:00:00Z")


def _run_ref(value: object, at: At) -> str | None:
    fields = fields_of(value, at, _RUN_REF)
    return None if fields is None else fields.required("name", values.name)


def _envelope_name(value: object, at: At) -> str | None:
    """Return the name of an envelope, or its id ``budget/envelope``."""
    if isinstance(value, str) and value.count("/") == 1:
        parts = [values.name(part, at) for part in value.split("/")]
        return None if None in parts else value
    return values.name(value, at)


def _slice(value: object, at: At) -> bool | None:
    fields = fields_of(value, at, _SLICE)
    if fields is None:
        return None
    if "domain" not in fields and "nodes" not in fields:
        at.fault("must specify a domain or nodes: one is required", "add domain or nodes")
    fields.maybe("domain", _domain)
    fields.maybe("nodes", _nodes)
    return True


def _domain(value: object, at: At) -> bool | None:
    """Return True if ``value`` states a domain: by name, by key, or as a mapping of labels."""
    if not isinstance(value, dict):
        return values.line(value, at) is not None
    fields = fields_of(value, at, _DOMAIN)
    if fields is None:
        return None
    for label in sorted(_DOMAIN):
        fields.maybe(label, values.name)
    return True


def _nodes(value: object, at: At) -> tuple[str, ...] | None:
    if value == []:
        at.fault("must list at least one node", "list the nodes, or name a domain instead")
        return None
    return complete(listed(value, at, values.line))
