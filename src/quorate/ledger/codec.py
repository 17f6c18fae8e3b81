"""Conversion of events: to and from MessagePack for the ledger, and to named fields for exports.

A tag such as ``lease-started/1`` names one version of an event. The fields of a version never
change. If an event needs other fields, its class in ``model/events.py`` gets a tag with the next
number. A class with the old fields and the old tag is added here, with an entry in ``UPCASTERS``
that converts it to a later version. Decoding checks the type of every field, so the result is a
complete event or an error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import UnionType
from typing import Any, Final, Union, cast, get_args

import msgspec
from msgspec import Raw
from msgspec.msgpack import Decoder, Encoder

from quorate.ledger.errors import CorruptLedgerError, UnknownEventError
from quorate.model.amounts import GPUS_PER_NODE_MAX
from quorate.model.events import (
    Event,
    Fact,
    LeaseStarted,
    MoveCause,
    MoveCode,
    ReservationMoved,
    ReservationStatus,
    Role,
    RoundCause,
    RoundCode,
    RoundGrant,
    RoundShare,
    RoundShared,
    RunSubmitted,
    Share,
    Slice,
    Slots,
    StartReason,
    Tier,
    tag_of,
)
from quorate.model.specs import EnvelopeId, Run
from quorate.model.task_arrays import is_alike, task_run

Upcasters = Mapping[type[Fact], Callable[[Any], Fact]]
"""For each old version of an event, the function that converts it to a later version."""


_OWED_ROUNDS_MAX: Final = 10
"""The value of ``owed_rounds_max`` for old events of rounds, which do not state it."""


class _LeaseStarted1(Fact, frozen=True, tag="lease-started/1"):
    """The start of a lease, from a time when events did not say whether it is backfill."""

    lease: str
    run: str
    partner: str | None
    comp_path: str
    bundle: int
    role: Role
    slots: Slots
    payer: EnvelopeId
    tier: Tier
    hold_gpu_ms: int
    start_ms: int
    reason: StartReason


class _ReservationMoved1(Fact, frozen=True, tag="reservation-moved/1"):
    """A move of a reservation, from a time when the cause was recorded as a sentence."""

    reservation: str
    status: ReservationStatus
    slice: Slice
    payers: tuple[Share, ...]
    planned_start_ms: int | None
    natural_start_ms: int | None
    by_conflict: bool
    cause: str


class _RoundShared1(Fact, frozen=True, tag="round-shared/1"):
    """A round, from a time when all causes were recorded as one sentence, which may be empty."""

    pool: str
    number: int
    policy: str
    until_ms: int
    flavors: tuple[str, ...]
    gpus: tuple[int, ...]
    shares: tuple[RoundShare, ...]
    prices: tuple[int, ...]
    grants: tuple[RoundGrant, ...]
    note: str = ""


class _RoundShared2(Fact, frozen=True, tag="round-shared/2"):
    """A round, from a time when events did not say how many rounds a run can be owed at most."""

    pool: str
    number: int
    policy: str
    until_ms: int
    flavors: tuple[str, ...]
    gpus: tuple[int, ...]
    shares: tuple[RoundShare, ...]
    prices: tuple[int, ...]
    grants: tuple[RoundGrant, ...]
    causes: tuple[RoundCause, ...] = ()


class _RoundShared3(Fact, frozen=True, tag="round-shared/3"):
    """A round, from a time when events did not say which part of a share is on shared GPUs."""

    pool: str
    number: int
    policy: str
    until_ms: int
    flavors: tuple[str, ...]
    gpus: tuple[int, ...]
    shares: tuple[RoundShare, ...]
    prices: tuple[int, ...]
    grants: tuple[RoundGrant, ...]
    owed_rounds_max: int
    causes: tuple[RoundCause, ...] = ()


class TaskSubmitted(Fact, frozen=True, tag="task-submitted/1"):
    """The stored form of the submission of an array's task, for all tasks except the first.

    The run of such a task equals the run of the first task, except for its name and its index. So
    the document of an array is stored only once. The decoder returns an ordinary run-submitted
    event.
    """

    run: str
    task: int


def _lease_started_2(old: _LeaseStarted1) -> LeaseStarted:
    return LeaseStarted(**msgspec.structs.asdict(old))


def _reservation_moved_2(old: _ReservationMoved1) -> ReservationMoved:
    fields = msgspec.structs.asdict(old)
    fields["cause"] = MoveCause(MoveCode.AS_RECORDED, (), old.cause)
    return ReservationMoved(**fields)


def _round_shared_1(old: _RoundShared1) -> RoundShared:
    fields = msgspec.structs.asdict(old)
    note = fields.pop("note")
    causes = (RoundCause(RoundCode.AS_RECORDED, note=note),) if note else ()
    return RoundShared(**fields, owed_rounds_max=_OWED_ROUNDS_MAX, causes=causes)


def _round_shared_2(old: _RoundShared2) -> RoundShared:
    return RoundShared(**msgspec.structs.asdict(old), owed_rounds_max=_OWED_ROUNDS_MAX)


def _round_shared_3(old: _RoundShared3) -> RoundShared:
    return RoundShared(**msgspec.structs.asdict(old))


UPCASTERS: Final[Upcasters] = {
    _LeaseStarted1: _lease_started_2,
    _ReservationMoved1: _reservation_moved_2,
    _RoundShared1: _round_shared_1,
    _RoundShared2: _round_shared_2,
    _RoundShared3: _round_shared_3,
}
"""For each old version of an event, the function that converts it to the current version."""

# The errors that msgspec raises for bytes that are not a valid event. Most are a DecodeError. A
# text that is not UTF-8 raises UnicodeDecodeError, and bytes that nest too deeply raise
# RecursionError.
_UNREADABLE: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


class EventDecoder:
    """Reads events of every version that was ever written, and returns them in current versions."""

    def __init__(self, current: UnionType, upcasters: Upcasters) -> None:
        shapes: tuple[type[Fact], ...] = (*get_args(current), *upcasters, TaskSubmitted)
        self._upcasters = upcasters
        self._tags = frozenset(str(shape.__struct_config__.tag) for shape in shapes)
        assert len(self._tags) == len(shapes), "two shapes share a tag"
        union: Any = Union[shapes]  # noqa: UP007 - the members are known only at run time
        self._one: Decoder[Fact] = Decoder(union)
        self._many: Decoder[list[Fact]] = Decoder(list[union])
        self._raws: Decoder[list[Raw]] = Decoder(list[Raw])
        self._any: Decoder[Any] = Decoder()

    def decode(self, data: bytes | Raw, *, first_seq: int) -> list[Fact]:
        """Return the events in ``data``, one MessagePack array.

        ``first_seq`` is the sequence number of the first event; error texts use it. The method
        raises ``UnknownEventError`` for a tag of a newer Quorate, and ``CorruptLedgerError`` for
        any other data that is not an event.
        """
        return [shapes[-1] for shapes in self.shapes(data, first_seq=first_seq)]

    def shapes(self, data: bytes | Raw, *, first_seq: int) -> list[tuple[Fact, ...]]:
        """Return each event of ``data`` in its stored version and in all later versions.

        The method raises the same errors as ``decode``.
        """
        try:
            events = self._many.decode(data)
        except _UNREADABLE as error:
            raise self._diagnosis(data, first_seq, str(error)) from error
        firsts: dict[str, Run] = {}
        found: list[tuple[Fact, ...]] = []
        for seq, event in enumerate(events, start=first_seq):
            if type(event) is TaskSubmitted:
                found.append((event, _whole_task(event, firsts, seq)))
                continue
            if type(event) is RunSubmitted and event.run.array is not None:
                firsts.setdefault(event.run.array.name, event.run)
            found.append(self._since(event))
        return found

    def _since(self, event: Fact) -> tuple[Fact, ...]:
        """Return ``event`` in its own version and each later one; the last version is current."""
        found = [event]
        while (lift := self._upcasters.get(type(found[-1]))) is not None:
            found.append(lift(found[-1]))
            assert len(found) <= len(self._upcasters) + 1, event
        return tuple(found)

    def _diagnosis(
        self, data: bytes | Raw, first_seq: int, what: str
    ) -> UnknownEventError | CorruptLedgerError:
        """Return the error that says which event of ``data`` cannot be read, and why."""
        try:
            raws = self._raws.decode(data)
        except _UNREADABLE:
            return CorruptLedgerError(f"events are not readable: {what}", seq=first_seq)
        for seq, raw in enumerate(raws, start=first_seq):
            try:
                self._one.decode(raw)
            except _UNREADABLE as error:
                tag = self._tag(raw)
                if tag is not None and tag not in self._tags:
                    return UnknownEventError(tag, seq=seq)
                return CorruptLedgerError(f"event is malformed: {error}", seq=seq)
        return CorruptLedgerError(f"events are not readable: {what}", seq=first_seq)

    def _tag(self, raw: Raw) -> str | None:
        """Return the tag of ``raw``, or None if it is not an array with a tag."""
        try:
            loose = self._any.decode(raw)
        except (*_UNREADABLE, ValueError):
            return None
        match loose:
            case [str(tag), *_]:
                return tag
            case _:
                return None


_ENCODER: Final = Encoder()
_DECODER: Final = EventDecoder(Event, UPCASTERS)


def encode_events(events: Sequence[Event]) -> bytes:
    """Return ``events`` as one MessagePack array; equal events give equal bytes."""
    if any(type(event) is RunSubmitted and event.run.array is not None for event in events):
        return _ENCODER.encode(_tasks_shortened(events))
    return _ENCODER.encode(events)


def _tasks_shortened(events: Sequence[Event]) -> list[Fact]:
    """Return ``events`` with a ``TaskSubmitted`` for every task of an array but the first."""
    firsts: dict[str, Run] = {}
    found: list[Fact] = []
    for event in events:
        run = event.run if type(event) is RunSubmitted else None
        if run is None or run.array is None or run.task is None:
            found.append(event)
        elif is_alike(firsts.setdefault(run.array.name, run), run) and run.task != (
            firsts[run.array.name].task
        ):
            found.append(TaskSubmitted(event.at_ms, event.actor, run.name, run.task))
        else:
            found.append(event)
    return found


def _whole_task(stored: TaskSubmitted, firsts: Mapping[str, Run], seq: int) -> RunSubmitted:
    """Return the event that ``stored`` represents; ``firsts`` has the first task of each array."""
    first = firsts.get(stored.run.removesuffix(f"_{stored.task}"))
    if first is None:
        raise CorruptLedgerError(
            f"task {stored.run!r} comes before the first task of its array", seq=seq
        )
    return RunSubmitted(stored.at_ms, stored.actor, task_run(first, stored.task))


def decode_events(data: bytes | Raw, *, first_seq: int = 1) -> list[Event]:
    """Return the events of ``data``, a result of ``encode_events``.

    The errors are those of ``EventDecoder.decode``.
    """
    return cast("list[Event]", _DECODER.decode(data, first_seq=first_seq))


def event_shapes(data: bytes | Raw, *, first_seq: int = 1) -> list[tuple[Fact, ...]]:
    """Return each event of ``data`` in its stored version and in all later versions."""
    return _DECODER.shapes(data, first_seq=first_seq)


def event_to_json(seq: int, event: Fact) -> dict[str, Any]:
    """Return ``event`` for an export: ``seq``, ``tag``, then its named fields in order.

    Slots are written as ``{"node": name, "slots": [ordinals]}``, and all other fields as they are
    stored.
    """
    shown: dict[str, Any] = {"seq": seq, "tag": tag_of(event)}
    for name in event.__struct_fields__:
        value = getattr(event, name)
        shown[name] = _shown_slots(value) if name == "slots" else msgspec.to_builtins(value)
    return shown


def event_from_json(shown: Mapping[str, Any]) -> tuple[int, Event]:
    """Return the sequence number and the event of ``shown``, a result of ``event_to_json``.

    For an unknown tag, the function raises ``UnknownEventError``. For wrong fields, it raises a
    ``CorruptLedgerError`` that names them.
    """
    fields = dict(shown)
    seq, tag = fields.pop("seq", None), fields.pop("tag", None)
    if not isinstance(seq, int) or not isinstance(tag, str):
        raise CorruptLedgerError("an exported event needs a number `seq` and a text `tag`")
    shape = _SHAPES.get(tag)
    if shape is None:
        raise UnknownEventError(tag, seq=seq)
    if set(fields) != set(shape.__struct_fields__):
        wrong = ", ".join(sorted(set(fields) ^ set(shape.__struct_fields__)))
        raise CorruptLedgerError(
            f"{tag}: these fields are missing or not expected: {wrong}", seq=seq
        )
    try:
        if "slots" in fields:
            fields["slots"] = _stored_slots(msgspec.convert(fields["slots"], list[_ShownSlots]))
        row = [tag, *(fields[name] for name in shape.__struct_fields__)]
        return seq, cast("Event", msgspec.convert(row, shape))
    except msgspec.ValidationError as error:
        raise CorruptLedgerError(f"{tag}: {error}", seq=seq) from error


_SHAPES: Final[Mapping[str, type[Fact]]] = {
    str(shape.__struct_config__.tag): shape for shape in get_args(Event)
}


class _ShownSlots(msgspec.Struct, forbid_unknown_fields=True):
    """The slots of one node, as an export shows them."""

    node: str
    slots: list[int]


def _shown_slots(slots: Slots) -> list[dict[str, Any]]:
    """Return (node, mask) pairs as nodes, each with the sorted ordinals of the bits in its mask."""
    return [
        {"node": node, "slots": [bit for bit in range(mask.bit_length()) if mask >> bit & 1]}
        for node, mask in slots
    ]


def _stored_slots(shown: Iterable[_ShownSlots]) -> Slots:
    """Return the (node, mask) pairs from which ``_shown_slots`` made ``shown``."""
    pairs = []
    for entry in shown:
        ordinals = set(entry.slots)
        if len(ordinals) != len(entry.slots) or not ordinals <= set(range(GPUS_PER_NODE_MAX)):
            raise msgspec.ValidationError(
                f"slots of node {entry.node!r} must be different numbers in 0..63"
            )
        pairs.append((entry.node, sum(1 << ordinal for ordinal in ordinals)))
    return tuple(pairs)
