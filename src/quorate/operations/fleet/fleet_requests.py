"""What operations on nodes, claims, conflicts and passing time take."""

from __future__ import annotations

from typing import Annotated, Final

from msgspec import Meta, field

from quorate.operations.common_requests import KeyedWrite, Name, Note, Write

GPUS_MAX: Final = 1_000_000
"""How many GPUs, or nodes, may be asked for at once."""
LABELS_MAX: Final = 64
"""How many labels a claim may be limited to."""
DOMAINS_MAX: Final = 1_000
"""How many domains one conflict may be over."""

Count = Annotated[int, Meta(ge=1, le=GPUS_MAX)]
Duration = Annotated[str, Meta(min_length=1, max_length=64)]


class MarkNode(Write, kw_only=True, frozen=True):
    """The node, and why."""

    node: Name
    note: Note = ""


class NodeWiped(Write, kw_only=True, frozen=True):
    """A node that is clean, or with ``failed`` could not be wiped.

    With ``after`` only if that claim was the last one on it: a late report frees nothing then.
    """

    node: Name
    failed: bool = False
    after: Name | None = None
    note: Note = ""


class ClaimNodes(KeyedWrite, kw_only=True, frozen=True):
    """So many whole ``nodes``, or ``gpus`` that make up whole ones, for a ``duration``: 8h, 2d.

    ``owner`` and ``user`` are those of the token where they are left out, ``name`` is made up.
    """

    flavor: Name
    duration: Duration
    owner: Name | None = None
    name: Name | None = None
    nodes: Count | None = None
    gpus: Count | None = None
    user: Name | None = None
    pool: Name | None = None
    selector: Annotated[dict[str, str], Meta(max_length=LABELS_MAX)] = field(default_factory=dict)
    one_domain: bool = False
    checkpoint: Duration | None = None


class ReleaseClaim(Write, kw_only=True, frozen=True):
    """The claim, and why."""

    claim: Name
    note: Note = ""


class Resolve(KeyedWrite, kw_only=True, frozen=True):
    """How many GPUs to free, beside the free ones, and where; no domains means all.

    A domain is given by its key, region/cluster/domain, or its last part where that is clear.
    ``regions`` and ``clusters`` leave only domains that are in one of them. A ``cap``, given as
    BUDGET/CAP, replaces flavor, domains and pool: then GPUs are freed that it bounds.
    """

    deficit: Count
    flavor: Name | None = None
    domains: Annotated[tuple[Name, ...], Meta(max_length=DOMAINS_MAX)] = ()
    pool: Name = "default"
    regions: Annotated[tuple[Name, ...], Meta(max_length=DOMAINS_MAX)] = ()
    clusters: Annotated[tuple[Name, ...], Meta(max_length=DOMAINS_MAX)] = ()
    cap: Name | None = None


class Tick(Write, kw_only=True, frozen=True):
    """Do what time has made due."""
