"""Planned starts, and conflicts."""

from __future__ import annotations

from quorate.client.answer_fields import Fields
from quorate.client.resources.any_resource import Resource


class DomainShare(Fields):
    """GPUs in a domain."""

    domain: str
    gpus: int


class SliceInfo(Fields):
    """Where a planned start goes."""

    flavor: str
    gpus: int
    domains: tuple[DomainShare, ...]


class PayerShare(Fields):
    """What one envelope pays for a planned start."""

    envelope: str
    tier: str
    gpus: int
    hold_ms_per_gpu: int


class NamedObject(Fields):
    """A resource that is named."""

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
    """The run that is meant."""

    name: str


class ReservationSpec(Fields):
    """A planned start as it was planned first."""

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
    """A run that may be drawn, and its odds as a fraction: ``1/3``."""

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
    """What a run has to give."""

    step: str
    run: str
    bundle: int
    gpus: int
    leases: tuple[str, ...]


class ConflictStatus(Fields):
    """How a conflict came out; only ``outcome`` is there until it is resolved."""

    outcome: str
    resolved: str | None
    preimage: str | None
    beacon: str | None
    seed: str | None
    draws: tuple[Draw, ...]
    cuts: tuple[CutInfo, ...]
    lost_gpu_ms: int | None


class ConflictInfo(Resource[ConflictSpec, ConflictStatus], kw_only=True, frozen=True):
    """A conflict, and how it came out."""
