"""Owners, tenants and their shares."""

from __future__ import annotations

from quorate.client.answer_fields import Fields
from quorate.client.resources.any_resource import Number, Resource


class QuotaSpec(Fields):
    """The limits of an owner; a limit that is not set is None."""

    max_nodes: int | None
    max_concurrent_runs: int | None
    gpu_hours_budget: Number | None
    node_hours_budget: Number | None
    fair_share_target: Number | None
    burst_allowance: Number | None


class OwnerSpec(Fields):
    """An owner of runs and budgets."""

    parents: tuple[str, ...]
    quota: QuotaSpec


class ShareTerms(Fields):
    """The terms of an owner's share, which orders the queue (docs/queue.md)."""

    flavor: str
    budget_used: Number | None
    over_budget: bool
    penalty: Number
    instant_share: Number
    decayed_share: Number
    share: Number
    target: Number
    utilisation: Number
    effective_target: Number
    score: Number
    step: int


class HoursAllowed(Fields):
    """The hours that an accounting system grants, and the hours that are left."""

    granted: Number
    remaining: Number


class BudgetReport(Fields):
    """The budget of a linked owner, as its accounting system reports it."""

    linked_to: str
    source: str
    since: str
    last_change: str | None
    gpu_hours: HoursAllowed | None
    node_hours: HoursAllowed | None
    note: str


class OwnerStatus(Fields):
    """The usage of an owner, and how it compares with its target share."""

    children: tuple[str, ...]
    budgets: tuple[str, ...]
    running: tuple[str, ...]
    pending: tuple[str, ...]
    active_gpus: int
    target: Number
    target_stated: bool
    budget_used: Number | None
    budget_report: BudgetReport | None
    threshold_crossed: int | None
    shares: tuple[ShareTerms, ...]


class OwnerInfo(Resource[OwnerSpec, OwnerStatus], kw_only=True, frozen=True):
    """An owner."""


class TenantStatus(Fields):
    """The usage of a tenant, and its version, which an update takes as ``if_match``."""

    version: int
    nodes: int
    running: int
    waiting: int
    children: tuple[str, ...]
    budgets: tuple[str, ...]


class TenantInfo(Resource[OwnerSpec, TenantStatus], kw_only=True, frozen=True):
    """An owner, in the form of the tenant API."""
