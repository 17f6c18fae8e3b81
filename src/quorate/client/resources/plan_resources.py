"""Planned starts and conflicts."""

from __future__ import annotations

from quorate.client.answer_fields import Fields
from quorate.client.resources.any_resource import Resource


class DomainShare(Fields):
    """A number of GPUs in a domain."""

    domain: str
    gpus: int


class SliceInfo(Fields):
    """The domains and GPUs of a planned start."""

    flavor: str
    gpus: int
    domains: tuple[DomainShare, ...]


class PayerShare(Fields):
    """The part of a planned start that one envelope pays for."""

    envelope: str
    tier: str
    gpus: int
    hold_ms_per_gpu: int


class NamedObject(Fields):
    """The kind and name of a resource."""

    kind: str
    name: str


class MoveCause(Fields):
    """Why a firm start was moved."""

    code: str
    objects: tuple[NamedObject, ...]
    text: str


class ReservationStatus(Fields):
    """The state of a planned start."""

    state: str
    status: str | None
    planned_start: str | None
    starts_in_ms: int | None
    natural_start: str | None
    by_conflict: bool
    slice: SliceInfo
    payers: tuple[PayerShare, ...]
    cause: MoveCause | None
    conflict: str | None
    attempts: int
    made: str | None
    sequence: int | None
    closed: str | None


class RunRef(Fields):
    """The name of the run that a reservation is for."""

    name: str


class ReservationSpec(Fields):
    """A planned start as it was first planned."""

    run_ref: RunRef
    intended_slice: SliceInfo
    paying_envelope: str | None
    earliest_start: str | None


class ReservationInfo(Resource[ReservationSpec, ReservationStatus], kw_only=True, frozen=True):
    """A planned start."""


class ConflictScope(Fields):
    """What a conflict is about: GPUs of a flavor in domains of a pool, or a limit."""

    pool: str
    flavor: str
    domains: tuple[str, ...]
    limit: str | None


class LotteryTicket(Fields):
    """A run in a lottery, and its odds as a fraction, such as ``1/3``."""

    owner: str
    run: str
    gpus: int
    nonce: str
    odds: str
    owner_odds: str


class ConflictSpec(Fields):
    """A conflict as it was declared."""

    cause: str
    scope: ConflictScope
    reservation: str | None
    deficit: int
    short: int
    size_max: int
    declared: str
    due: str
    attempt: int
    preimage_index: int
    commitment: str
    tokens: tuple[LotteryTicket, ...]


class Draw(Fields):
    """One draw of a lottery."""

    owner: str
    run: str
    spared: bool


class CutInfo(Fields):
    """The GPUs that a run loses in a conflict."""

    step: str
    run: str
    bundle: int
    gpus: int
    leases: tuple[str, ...]


class ConflictStatus(Fields):
    """The result of a conflict; until the conflict is resolved, only ``outcome`` is set."""

    outcome: str
    resolved: str | None
    preimage: str | None
    beacon: str | None
    seed: str | None
    draws: tuple[Draw, ...]
    cuts: tuple[CutInfo, ...]
    lost_gpu_ms: int | None


class ConflictInfo(Resource[ConflictSpec, ConflictStatus], kw_only=True, frozen=True):
    """A conflict and its result."""
