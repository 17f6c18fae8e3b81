"""Checks the manifest of a lease, for ``calc validate``. A service accepts no such manifest."""

from __future__ import annotations

from typing import Final

from quorate.documents import Problem, values
from quorate.documents.document_problem import ROOT, path_text
from quorate.documents.field_reader import At, complete, fields_of, listed
from quorate.documents.times import time_ms
from quorate.model.events import Role

_TOP: Final = frozenset({"apiVersion", "kind", "metadata", "spec", "status"})
_SPEC: Final = frozenset(
    {
        "owner",
        "runRef",
        "compPath",
        "slice",
        "interval",
        "paidByBudgetNamespace",
        "paidByBudget",
        "paidByEnvelope",
        "reason",
    }
)
_RUN_REF: Final = frozenset({"name", "namespace"})
_SLICE: Final = frozenset({"nodes", "role"})
_INTERVAL: Final = frozenset({"start", "end"})
_role = values.choice(Role)


def lease_problems(manifest: object) -> tuple[Problem, ...]:
    """Return every fault in the manifest of a lease."""
    at = At((), [])
    top = fields_of(manifest, at, _TOP)
    if top is not None:
        top.required("spec", _spec, remedy="add spec")
    return tuple(
        Problem(
            source="manifest",
            document_index=0,
            kind="Lease",
            name=None,
            path=path_text(fault.path) or ROOT,
            message=fault.message,
            remedy=fault.remedy,
            line=None,
        )
        for fault in at.faults
    )


def _spec(value: object, at: At) -> bool | None:
    fields = fields_of(value, at, _SPEC)
    if fields is None:
        return None
    fields.required("owner", values.name, remedy="name the owner that pays")
    fields.required("runRef", _run_ref, remedy="name the run: runRef: {name: train}")
    fields.required("slice", _slice, remedy="say which slots: slice: {nodes: [n1#0], role: Active}")
    fields.required("interval", _interval, remedy="say from when: interval: {start: ...}")
    fields.required("paidByEnvelope", values.name, remedy="name the envelope that pays")
    fields.required("reason", values.line, remedy="say why it began, e.g. reason: Start")
    for name in ("paidByBudget", "paidByBudgetNamespace"):
        fields.maybe(name, values.name)
    fields.maybe("compPath", values.line)
    return True


def _run_ref(value: object, at: At) -> str | None:
    fields = fields_of(value, at, _RUN_REF)
    if fields is None:
        return None
    fields.maybe("namespace", values.name)
    return fields.required("name", values.name, remedy="name the run")


def _slice(value: object, at: At) -> bool | None:
    fields = fields_of(value, at, _SLICE)
    if fields is None:
        return None
    fields.required("nodes", _nodes, remedy="list the slots as node#ordinal")
    fields.required("role", _role, remedy="say what the lease is for, e.g. role: Active")
    return True


def _nodes(value: object, at: At) -> tuple[str, ...] | None:
    if value == []:
        at.fault("must not be empty", "list the slots as node#ordinal")
        return None
    return complete(listed(value, at, values.line))


def _interval(value: object, at: At) -> bool | None:
    fields = fields_of(value, at, _INTERVAL)
    if fields is None:
        return None
    start_ms = fields.required("start", time_ms, remedy="say from when")
    end_ms = fields.maybe("end", time_ms)
    if start_ms is not None and end_ms is not None and end_ms < start_ms:
        fields.at("end").fault("must not be before start", "swap them or move the end")
    return True
