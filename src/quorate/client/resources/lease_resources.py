"""Leases and claims."""

from __future__ import annotations

from quorate.client.answer_fields import Fields
from quorate.client.resources.any_resource import NoSpec, Number, Resource


class Turn(Fields):
    """The share of a run in the rounds of its pool, for one flavor."""

    flavor: str
    share: Number
    owed_seconds: Number
    priority: Number


class NodeSlots(Fields):
    """The slots of a lease on a node; if a cluster chooses the slots, only their number."""

    node: str
    slots: tuple[int, ...]
    gpus: int | None


class LoanInfo(Fields):
    """When the lender may recall borrowed GPUs, and when the run must return them."""

    recall_notice: str | None
    due: str | None


class LeaseRound(Fields):
    """The round that a lease in a rounds pool belongs to."""

    number: int
    policy: str
    until: str
    max_steps: int
    max_duration_seconds: Number
    turns: tuple[Turn, ...]


class LeaseStatus(Fields):
    """The GPUs of a run that one envelope pays for."""

    run: str
    part: str
    bundle: int
    role: str
    gpus: int
    slots: tuple[NodeSlots, ...]
    payer: str
    tier: str
    start: str
    start_reason: str
    hold_gpu_ms: int
    hold_ends: str
    used_gpu_ms: int
    ending: bool
    end_reason: str | None
    deadline: str | None
    loan: LoanInfo | None
    round: LeaseRound | None


class LeaseInfo(Resource[NoSpec, LeaseStatus], kw_only=True, frozen=True):
    """A lease."""


class ClaimedNode(Fields):
    """A node of a claim that has not been wiped yet."""

    name: str
    state: str
    note: str | None


class ClaimStatus(Fields):
    """The nodes that one user has for sensitive work."""

    state: str
    owner: str
    user: str
    since: str
    until: str
    ended: str | None
    gpus: int
    nodes: tuple[ClaimedNode, ...]
    note: str | None


class ClaimInfo(Resource[NoSpec, ClaimStatus], kw_only=True, frozen=True):
    """A claim."""
