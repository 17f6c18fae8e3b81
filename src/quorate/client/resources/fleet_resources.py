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
    """The claim that has the node now, or the ended claim after which the node must be wiped."""

    name: str
    user: str
    state: str
    note: str | None


class NodeStatus(Fields):
    """The state of a node. ``leases`` are the leases that the caller may see.

    ``other_leases`` is the number of all other leases.
    """

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
    """The settings of a pool; a setting that has its default value is None."""

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
    """The nodes and GPUs of a pool."""

    nodes: int
    total_gpus: int
    free_gpus: int


class PoolInfo(Resource[PoolSpec, PoolStatus], kw_only=True, frozen=True):
    """A pool."""


class SystemWeights(Fields):
    """The weights of the terms from which an owner's share is computed."""

    instant_share: Number | None


class SystemSpec(Fields):
    """The settings of the installation; a setting that has its default value is None."""

    sensitive_pool_size: int | None
    budget_period_days: int | None
    half_life: str | None
    weights: SystemWeights


class SystemStatus(Fields):
    """The id of the ledger, and its head."""

    ledger_id: str
    public_key: str
    sequence: int


class SystemInfo(Resource[SystemSpec, SystemStatus], kw_only=True, frozen=True):
    """The installation."""
