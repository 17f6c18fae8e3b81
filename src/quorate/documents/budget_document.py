"""Budget documents: the envelopes of an owner, and the caps over several envelopes.

The GPU-hours of an envelope are at most its concurrency times the length of its window. The
GPU-hours of a cap are at most its concurrency times the sum of the windows of its envelopes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from quorate.documents import values
from quorate.documents.document_problem import quoted
from quorate.documents.field_reader import At, Fields, complete, fields_of, listed, refuse_repeats
from quorate.documents.head import Head
from quorate.documents.labels import place_selector, refuse_no_selector
from quorate.documents.synonyms import Words, in_own_words
from quorate.documents.times import positive_duration, time_ms, time_text
from quorate.documents.written import hours_text
from quorate.model.specs import Budget, Cap, Envelope, Lending, Sharing

_SPEC: Final = frozenset({"owner", "envelopes", "aggregateCaps"})
_LENIENT_SPEC: Final = _SPEC | {"parents"}
_HINTS: Final = {
    "parents": "write parents in the Owner document",
    "caps": "did you mean 'aggregateCaps'?",
}
_ENVELOPE: Final = frozenset(
    {
        "name",
        "flavor",
        "selector",
        "start",
        "end",
        "concurrency",
        "maxGPUHours",
        "preActivation",
        "sharing",
        "lending",
    }
)
_PRE_ACTIVATION: Final = frozenset({"allowReservations", "allowAdmission"})
_LENDING: Final = frozenset({"allow", "to", "maxConcurrency", "maxGPUHours", "recall"})
_RECALL: Final = frozenset({"notice"})
_CAP: Final = frozenset({"name", "flavor", "envelopes", "maxConcurrency", "maxGPUHours"})
_SHARING: Final = values.choice(Sharing)
_ENVELOPE_WORDS: Final[Words] = {
    ("id",): ("name",),
    ("window", "start"): ("start",),
    ("window", "end"): ("end",),
    ("window", 0): ("start",),
    ("window", 1): ("end",),
    ("lending", "toACL"): ("lending", "to"),
    ("lending", "lendC"): ("lending", "maxConcurrency"),
    ("lending", "lendB"): ("lending", "maxGPUHours"),
}
_CAP_WORDS: Final[Words] = {
    ("id",): ("name",),
    ("maxC",): ("maxConcurrency",),
    ("maxB",): ("maxGPUHours",),
}
_ENVELOPE_HINTS: Final = {"window": "write start and end: {start: ..., end: ...}"}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Draft:
    """The parts of an envelope that could be read.

    They are kept even if the envelope is faulty, so that caps over this envelope can be checked.
    """

    name: str | None
    flavor: str | None
    window_ms: int | None
    envelope: Envelope | None


def read_budget(spec: object, at: At, head: Head) -> Budget | None:
    """Return the budget; report its faults and return None if it is faulty."""
    fields = fields_of(spec, at, _LENIENT_SPEC if head.lenient else _SPEC, _HINTS)
    if fields is None:
        return None
    owner = fields.required(
        "owner", values.name, remedy=("name the owner of the budget, e.g. owner: rai")
    )
    if head.lenient:
        fields.maybe("parents", values.unique_names)
    drafts = fields.required(
        "envelopes",
        _envelopes,
        remedy=("add at least one envelope: a budget without envelopes grants nothing"),
    )
    by_name = {draft.name: draft for draft in drafts or () if draft and draft.name is not None}

    def caps(value: object, place: At) -> tuple[Cap | None, ...] | None:
        _refuse_same_names(value, place, "aggregate cap")
        return listed(value, place, lambda cap, cap_at: _cap(cap, cap_at, by_name))

    found_caps = fields.optional("aggregateCaps", caps, ())
    envelopes = complete(tuple(draft.envelope if draft else None for draft in drafts or ()))
    if owner is None or envelopes is None or drafts is None:
        return None
    return Budget(
        name=head.name,
        owner=owner,
        envelopes=envelopes,
        caps=tuple(cap for cap in found_caps if cap is not None),
    )


def _envelopes(value: object, at: At) -> tuple[_Draft | None, ...] | None:
    if value == []:
        at.fault("must not be empty", "add at least one envelope")
        return None
    _refuse_same_names(value, at, "envelope")
    return listed(value, at, _envelope)


def _refuse_same_names(entries: object, at: At, what: str) -> None:
    """Report each name that two entries have, even if these entries have other faults."""
    seen: set[str] = set()
    for index, entry in enumerate(entries if isinstance(entries, list) else ()):
        name = entry.get("name", entry.get("id")) if isinstance(entry, dict) else None
        if isinstance(name, str) and name in seen:
            at.child(index).child("name").fault(
                f"is a duplicate {what} name {quoted(name)}", "choose another name"
            )
        elif isinstance(name, str):
            seen.add(name)


def _envelope(value: object, at: At) -> _Draft | None:
    return in_own_words(value, at, _ENVELOPE_WORDS, lambda tree: _own_envelope(tree, at))


def _own_envelope(value: object, at: At) -> _Draft | None:
    fields = fields_of(value, at, _ENVELOPE, _ENVELOPE_HINTS)
    if fields is None:
        return None
    name = fields.required("name", values.name)
    flavor = fields.required(
        "flavor", values.name, remedy=("name the kind of GPU, e.g. flavor: H100-80GB")
    )
    selector = fields.maybe("selector", place_selector)
    if "selector" not in fields:
        refuse_no_selector(fields.at("selector"))
    window = _window(fields, at)
    concurrency = fields.required(
        "concurrency", values.gpus, remedy="say how many GPUs at a time, e.g. concurrency: 64"
    )
    window_ms = None if window is None else window[1] - window[0]
    gpu_ms_max = fields.maybe("maxGPUHours", values.gpu_hours)
    if gpu_ms_max is not None and window_ms is not None and concurrency is not None:
        _refuse_hours_over(
            gpu_ms_max,
            concurrency * window_ms,
            fields.at("maxGPUHours"),
            f"concurrency {concurrency} over the window",
        )
    early = fields.optional("preActivation", pre_activation, (False, False))
    sharing = fields.optional("sharing", _SHARING, Sharing.FAMILY)
    lending = fields.optional("lending", _lending, Lending())
    envelope = None
    if name and flavor and selector and window and concurrency:
        envelope = Envelope(
            name=name,
            flavor=flavor,
            selector=selector,
            start_ms=window[0],
            end_ms=window[1],
            concurrency=concurrency,
            gpu_ms_max=gpu_ms_max,
            allow_reservations=early[0],
            allow_admission=early[1],
            sharing=sharing,
            lending=lending,
        )
    return _Draft(name=name, flavor=flavor, window_ms=window_ms, envelope=envelope)


def _window(fields: Fields, at: At) -> tuple[int, int] | None:
    missing = [name for name in ("start", "end") if name not in fields]
    if missing:
        at.fault(
            f"has no {' and no '.join(missing)}: start and end are both required",
            "add both; an envelope grants GPUs from a start to an end",
        )
    start_ms = fields.maybe("start", time_ms)
    end_ms = fields.maybe("end", time_ms)
    if start_ms is None or end_ms is None:
        return None
    if end_ms <= start_ms:
        fields.at("end").fault(
            f"must be after start, which is {time_text(start_ms)}, got {time_text(end_ms)}",
            "swap them or move the end",
        )
        return None
    return start_ms, end_ms


def _refuse_hours_over(gpu_ms: int, most_gpu_ms: int, at: At, bound: str) -> None:
    if gpu_ms > most_gpu_ms:
        most = hours_text(most_gpu_ms)
        at.fault(
            f"must be at most what {bound} can use, {most} GPU-hours, got {hours_text(gpu_ms)}",
            f"use {most} or less, or leave the field out",
        )


def pre_activation(value: object, at: At) -> tuple[bool, bool] | None:
    """Return two booleans, ``allowReservations`` and ``allowAdmission``, false by default."""
    fields = fields_of(value, at, _PRE_ACTIVATION)
    if fields is None:
        return None
    return (
        fields.optional("allowReservations", values.truth, default=False),
        fields.optional("allowAdmission", values.truth, default=False),
    )


def _lending(value: object, at: At) -> Lending | None:
    fields = fields_of(value, at, _LENDING)
    if fields is None:
        return None
    return Lending(
        allow=fields.optional("allow", values.truth, default=False),
        to=fields.optional("to", _borrowers, ()),
        concurrency_max=fields.maybe("maxConcurrency", values.gpus),
        gpu_ms_max=fields.maybe("maxGPUHours", values.gpu_hours),
        recall_notice_ms=fields.maybe("recall", recall_notice),
    )


def recall_notice(value: object, at: At) -> int | None:
    """Return the notice period of a recall, in milliseconds."""
    fields = fields_of(value, at, _RECALL)
    if fields is None:
        return None
    return fields.required(
        "notice",
        positive_duration,
        remedy="say how long a borrower keeps its GPUs once its loan is recalled, e.g. notice: 30m",
    )


def _borrowers(value: object, at: At) -> tuple[str, ...] | None:
    found = listed(value, at, _borrower)
    refuse_repeats(found, at)
    return complete(found)


def _borrower(value: object, at: At) -> str | None:
    """Return the name of an owner, or a prefix of names followed by ``*``."""
    if isinstance(value, str) and value.endswith("*"):
        prefix = value[:-1]
        if not prefix or values.is_name(prefix + "0"):
            return value
        at.fault(
            f"must be an owner's name, or a prefix of names and *, got {quoted(value)}",
            "write one * and only at the end, e.g. org:ai:*",
        )
        return None
    return values.name(value, at)


def _cap(value: object, at: At, envelopes: Mapping[str, _Draft]) -> Cap | None:
    return in_own_words(value, at, _CAP_WORDS, lambda tree: _own_cap(tree, at, envelopes))


def _own_cap(value: object, at: At, envelopes: Mapping[str, _Draft]) -> Cap | None:
    fields = fields_of(value, at, _CAP)
    if fields is None:
        return None
    name = fields.required("name", values.name)
    flavor = fields.required("flavor", values.name, remedy="name the flavor of its envelopes")
    members = fields.required("envelopes", _members, remedy="list the envelopes it bounds")
    _check_members(members or (), fields.at("envelopes"), flavor, envelopes)
    concurrency_max = fields.required(
        "maxConcurrency", values.gpus, remedy="state how many GPUs these envelopes may use together"
    )
    gpu_ms_max = fields.maybe("maxGPUHours", values.gpu_hours)
    windows = [envelopes[member].window_ms for member in members or () if member in envelopes]
    known_windows = [window for window in windows if window is not None]
    # Checked only if the windows of all envelopes are known, so that a faulty window is reported
    # only once.
    windows_known = bool(members) and len(known_windows) == len(members or ())
    if gpu_ms_max is not None and concurrency_max is not None and windows_known:
        _refuse_hours_over(
            gpu_ms_max,
            concurrency_max * sum(known_windows),
            fields.at("maxGPUHours"),
            f"maxConcurrency {concurrency_max} over the windows of its envelopes",
        )
    if name is None or flavor is None or members is None:
        return None
    return Cap(
        name=name,
        flavor=flavor,
        envelopes=members,
        concurrency_max=concurrency_max,
        gpu_ms_max=gpu_ms_max,
    )


def _members(value: object, at: At) -> tuple[str, ...] | None:
    if value == []:
        at.fault("must reference at least one envelope", "list the envelopes it bounds")
        return None
    return values.unique_names(value, at)


def _check_members(
    members: tuple[str, ...], at: At, flavor: str | None, envelopes: Mapping[str, _Draft]
) -> None:
    for index, member in enumerate(members):
        draft = envelopes.get(member)
        if draft is None:
            at.child(index).fault(
                f"references unknown envelope {quoted(member)}",
                "use the name of an envelope of this budget"
                + (f": {', '.join(envelopes)}" if 0 < len(envelopes) <= 8 else ""),  # noqa: PLR2004
            )
        elif flavor is not None and draft.flavor is not None and draft.flavor != flavor:
            at.child(index).fault(
                f"references envelope {quoted(member)} of flavor {quoted(draft.flavor)}, "
                f"but the cap is for {quoted(flavor)}",
                "list only envelopes of one flavor in a cap",
            )
