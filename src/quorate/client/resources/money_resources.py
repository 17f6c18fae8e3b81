"""Budgets, envelopes, caps and charges."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from quorate.client.answer_fields import Fields
from quorate.client.resources.any_resource import NoSpec, Number, Resource


class PreActivation(Fields):
    """What an envelope may be used for before its window starts."""

    allow_reservations: bool | None
    allow_admission: bool | None


class Recall(Fields):
    """The notice with which a lender may recall its GPUs."""

    notice: str | None


class LendingSpec(Fields):
    """The owners that an envelope lends to, and the limits of its loans."""

    allow: bool | None
    to: tuple[str, ...]
    max_concurrency: int | None
    max_gpu_hours: Number | None
    recall: Recall


class EnvelopeSpec(Fields):
    """GPUs of one flavor in a window of time."""

    name: str
    flavor: str
    selector: Mapping[str, Any]
    start: str
    end: str
    concurrency: int
    max_gpu_hours: Number | None
    pre_activation: PreActivation
    sharing: str | None
    lending: LendingSpec


class EnvelopeStatus(Fields):
    """The GPUs for which an envelope pays, and the amounts that it has spent and reserved."""

    owner: str
    active_gpus: int
    reserved_gpus: int
    lent_gpus: int
    granted_gpu_ms: int
    spent_gpu_ms: int
    held_gpu_ms: int
    free_gpu_ms: int
    lent_gpu_ms: int
    open: bool
    usable: bool


class EnvelopeInfo(Resource[EnvelopeSpec, EnvelopeStatus], kw_only=True, frozen=True):
    """An envelope of a budget."""


class CapSpec(Fields):
    """A limit on several envelopes together."""

    name: str
    flavor: str
    envelopes: tuple[str, ...]
    max_concurrency: int | None
    max_gpu_hours: Number | None


class CapStatus(Fields):
    """The usage that counts against a cap."""

    active_gpus: int
    reserved_gpus: int
    committed_gpu_ms: int
    max_gpu_ms: int | None


class CapInfo(Resource[CapSpec, CapStatus], kw_only=True, frozen=True):
    """A cap of a budget."""


class BudgetSpec(Fields):
    """The envelopes and caps of an owner."""

    owner: str
    envelopes: tuple[EnvelopeSpec, ...]
    aggregate_caps: tuple[CapSpec, ...]


class EnvelopeOfBudget(EnvelopeStatus):
    """An envelope in the status of its budget."""

    name: str


class CapOfBudget(CapStatus):
    """A cap in the status of its budget."""

    name: str


class BudgetStatus(Fields):
    """Each envelope and cap of a budget."""

    envelopes: tuple[EnvelopeOfBudget, ...]
    aggregate_caps: tuple[CapOfBudget, ...]


class BudgetInfo(Resource[BudgetSpec, BudgetStatus], kw_only=True, frozen=True):
    """A budget."""


class ChargeStatus(Fields):
    """The part of one run that one envelope pays for."""

    run: str
    owner: str
    payer: str
    payer_owner: str
    tier: str
    active_gpus: int
    spent_gpu_ms: int


class ChargeInfo(Resource[NoSpec, ChargeStatus], kw_only=True, frozen=True):
    """A charge."""
