"""Requests and responses of operations on nodes, claims, conflicts and due changes."""

from __future__ import annotations

from typing import Annotated, Final

from msgspec import UNSET, Meta, UnsetType, field

from quorate.operations import common_responses
from quorate.operations.caller import ADMINS, SUBMITTERS
from quorate.operations.common_requests import KeyedWrite, Name, Note, Write
from quorate.operations.common_responses import Change, Given, Place, Tree
from quorate.operations.operation import Area, Effect, Operation, Repeat

GPUS_MAX: Final = 1_000_000
"""The most GPUs, or nodes, in one request."""
LABELS_MAX: Final = 64
"""The most labels in the selector of a claim."""
DOMAINS_MAX: Final = 1_000
"""The most domains that one conflict may cover."""
Count = Annotated[int, Meta(ge=1, le=GPUS_MAX)]
Duration = Annotated[str, Meta(min_length=1, max_length=64)]


class MarkNode(Write, kw_only=True, frozen=True):
    """A node, and the reason for its new status."""

    node: Name
    note: Note = ""


class NodeWiped(Write, kw_only=True, frozen=True):
    """A report that a node is clean or, if ``failed``, could not be wiped.

    If ``after`` names a claim, the report is ignored unless this claim was the last claim on the
    node. So a late report does not free a node that was claimed again.
    """

    node: Name
    failed: bool = False
    after: Name | None = None
    note: Note = ""


class ClaimNodes(KeyedWrite, kw_only=True, frozen=True):
    """A claim of ``nodes`` whole nodes, or of ``gpus`` GPUs of whole nodes, for a ``duration``.

    A duration is a text such as 8h or 2d. Without ``owner`` and ``user``, the claim is for the
    tenant and the user of the token. Without ``name``, a name is generated.
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
    """A claim, and the reason for its release."""

    claim: Name
    note: Note = ""


class Resolve(KeyedWrite, kw_only=True, frozen=True):
    """How many GPUs to free, in addition to GPUs that are free already, and in which scope.

    If no domains are given, the scope has all domains. A domain is given by its key,
    region/cluster/domain, or by the last part of the key if no other domain has the same last part.
    ``regions`` and ``clusters`` limit the scope to domains in these regions and clusters. If a
    ``cap`` is given, as BUDGET/CAP, the scope is the GPUs that this cap limits; do not give a
    flavor, domains or a pool then. Without ``pool``, the pool is ``default`` if it has nodes of the
    flavor, else the only pool that has such nodes.
    """

    deficit: Count
    flavor: Name | None = None
    domains: Annotated[tuple[Name, ...], Meta(max_length=DOMAINS_MAX)] = ()
    pool: Name | None = None
    regions: Annotated[tuple[Name, ...], Meta(max_length=DOMAINS_MAX)] = ()
    clusters: Annotated[tuple[Name, ...], Meta(max_length=DOMAINS_MAX)] = ()
    cap: Name | None = None


class Tick(Write, kw_only=True, frozen=True):
    """Record everything that is due by now."""


class Resolution(Given, kw_only=True, frozen=True):
    """The result of freeing GPUs by hand.

    The answer to a dry run has only the ``contest``: the cuts, the runs that would enter the
    lottery, with their odds, and a simulated draw. Any other answer has all fields of an outcome.
    """

    dry_run: bool
    contest: Tree | UnsetType = UNSET
    changes: tuple[Change, ...] | UnsetType = UNSET
    warnings: tuple[str, ...] | UnsetType = UNSET
    events: tuple[Tree, ...] | UnsetType = UNSET
    head: Place | UnsetType = UNSET


_NODES: Final = (
    *(
        Operation(
            name=f"{verb}-node",
            area=Area.FLEET,
            summary=summary,
            takes=MarkNode,
            gives=common_responses.Outcome,
            roles=ADMINS,
            method="POST",
            path=f"/nodes/{{node}}/{verb}",
            handler="quorate.operations.fleet.node_handlers:mark_node",
            effect=Effect.WRITE,
            repeat=Repeat.SAME,
            refusals=refusals,
            about=verb,
            cli=(f"node {verb}",),
        )
        for verb, summary, refusals in (
            ("fail", "Record that a node has failed, with all work on it.", ("unknown-name",)),
            (
                "recover",
                "Record that a failed node works again.",
                ("unknown-name", "conflict"),
            ),
            (
                "cordon",
                "Cordon a node: its work continues, and nothing new is placed on it.",
                ("unknown-name",),
            ),
            (
                "uncordon",
                "Uncordon a node: new work may be placed on it again.",
                ("unknown-name", "conflict"),
            ),
            ("drain", "Cordon a node and stop the work on it.", ("unknown-name",)),
        )
    ),
    Operation(
        name="mark-node-wiped",
        area=Area.FLEET,
        summary="Record that a node is clean after a claim, or could not be wiped.",
        takes=NodeWiped,
        gives=common_responses.Outcome,
        roles=ADMINS,
        method="POST",
        path="/nodes/{node}/wiped",
        handler="quorate.operations.fleet.node_handlers:node_wiped",
        effect=Effect.WRITE,
        repeat=Repeat.SAME,
        refusals=("unknown-name", "conflict"),
        cli=("node wiped",),
    ),
)
_CLAIMS: Final = (
    Operation(
        name="claim-nodes",
        area=Area.RUNS,
        summary="Claim whole nodes for one user's sensitive work, until a stated end.",
        takes=ClaimNodes,
        gives=common_responses.Outcome,
        roles=SUBMITTERS,
        method="POST",
        path="/claims",
        handler="quorate.operations.fleet.claim_handlers:claim_nodes",
        effect=Effect.WRITE,
        repeat=Repeat.KEYED,
        refusals=(
            "invalid",
            "unknown-name",
            "already-exists",
            "conflict",
            "no-nodes",
            "no-envelope",
            "insufficient-funds",
            "insufficient-capacity",
            "no-single-domain",
            "funds-elsewhere",
            "reserved",
            "max-nodes",
            "sensitive-pool-size",
            "key-reused",
        ),
        cli=("claim",),
    ),
    Operation(
        name="release-claim",
        area=Area.RUNS,
        summary="Release the nodes of a claim before its end.",
        takes=ReleaseClaim,
        gives=common_responses.Outcome,
        roles=SUBMITTERS,
        method="POST",
        path="/claims/{claim}/release",
        handler="quorate.operations.fleet.claim_handlers:release_claim",
        effect=Effect.WRITE,
        repeat=Repeat.SAME,
        refusals=("unknown-name", "not-running", "conflict"),
        cli=("release",),
    ),
)
_TIME: Final = (
    Operation(
        name="resolve",
        area=Area.CONTENTION,
        summary="Free GPUs in a scope by hand, after the notice period.",
        takes=Resolve,
        gives=Resolution,
        roles=ADMINS,
        method="POST",
        path="/resolver/conflicts",
        handler="quorate.operations.fleet.resolving:resolve",
        effect=Effect.WRITE,
        repeat=Repeat.KEYED,
        refusals=("unknown-name", "not-resolvable", "key-reused"),
        cli=("resolve",),
    ),
    Operation(
        name="tick",
        area=Area.SERVICE,
        summary="Record everything that is due by now.",
        takes=Tick,
        gives=common_responses.Outcome,
        roles=ADMINS,
        method="POST",
        path="/tick",
        handler="quorate.operations.fleet.resolving:tick",
        effect=Effect.WRITE,
        repeat=Repeat.SAME,
        cli=("tick",),
    ),
)
OPERATIONS: Final = (*_NODES, *_CLAIMS, *_TIME)
