"""Nodes, domains, pools and the system."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from quorate.client.answer_fields import Fields
from quorate.client.resources.any_resource import NoSpec, Number, Resource


class NodeSpec(Fields):
    """A machine with GPUs."""

    flavor: str
    gpus: int


class NodeClaim(Fields):
    """The claim that a node is set apart for, or is to be wiped after."""

    name: str
    user: str
    state: str
    note: str | None


class NodeStatus(Fields):
    """``leases`` are those that the caller may see, ``other_leases`` counts the others."""

    status: str
    domain: str
    pool: str
    free_gpus: int
    leases: tuple[str, ...]
    other_leases: int | None
    claim: NodeClaim | None


class NodeInfo(Resource[NodeSpec, NodeStatus], kw_only=True, frozen=True):
    """A node."""


class DomainStatus(Fields):
    """GPUs of one flavor in one domain."""

    domain: str
    flavor: str
    pool: str
    free_gpus: int
    total_gpus: int
    out_of_service_gpus: int
    nodes: int
    nodes_cordoned: int
    nodes_failed: int
    whole_nodes_free: int
    largest_gang_gpus: int


class DomainInfo(Resource[NoSpec, DomainStatus], kw_only=True, frozen=True):
    """A domain."""


class PoolSpec(Fields):
    """How the nodes of a pool are shared; what is at its default is None."""

    selector: Mapping[str, Any]
    discipline: str | None
    policy: str | None
    round_length: str | None
    placement: str | None
    whole_nodes: bool | None
    reservation_notice: str | None
    min_runtime: str | None
    cool_down: str | None
    max_grace: str | None
    disruption_rate: Number | None
    max_collateral: int | None
    default_expected_duration: str | None
    reservation_depth: int | None
    firm_horizon: str | None
    throughputs: Mapping[str, Any]
    costs: Mapping[str, Any]
    executor: str | None
    cluster: str | None


class PoolStatus(Fields):
    """What a pool has."""

    nodes: int
    total_gpus: int
    free_gpus: int


class PoolInfo(Resource[PoolSpec, PoolStatus], kw_only=True, frozen=True):
    """A pool."""


class SystemWeights(Fields):
    """How much each part of a share counts."""

    instant_share: Number | None


class SystemSpec(Fields):
    """Settings of the installation; what is at its default is None."""

    sensitive_pool_size: int | None
    budget_period_days: int | None
    half_life: str | None
    weights: SystemWeights


class SystemStatus(Fields):
    """Which ledger this is, and how far it goes."""

    ledger_id: str
    public_key: str
    sequence: int


class SystemInfo(Resource[SystemSpec, SystemStatus], kw_only=True, frozen=True):
    """The installation."""
