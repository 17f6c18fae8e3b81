"""What is asked of nodes, claims, conflicts and passing time, and what is given."""

from __future__ import annotations

from typing import Annotated, Final

from msgspec import UNSET, Meta, UnsetType, field

from quorate.operations import common_responses
from quorate.operations.caller import ADMINS, SUBMITTERS
from quorate.operations.common_requests import KeyedWrite, Name, Note, Write
from quorate.operations.common_responses import Change, Given, Place, Tree
from quorate.operations.operation import Area, Effect, Operation, Repeat

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
    BUDGET/CAP, replaces flavor, domains and pool: then GPUs are freed that it bounds. Without a
    ``pool`` it is ``default``, or the only one that has the flavor.
    """

    deficit: Count
    flavor: Name | None = None
    domains: Annotated[tuple[Name, ...], Meta(max_length=DOMAINS_MAX)] = ()
    pool: Name | None = None
    regions: Annotated[tuple[Name, ...], Meta(max_length=DOMAINS_MAX)] = ()
    clusters: Annotated[tuple[Name, ...], Meta(max_length=DOMAINS_MAX)] = ()
    cap: Name | None = None


class Tick(Write, kw_only=True, frozen=True):
    """Do what time has made due."""


class Resolution(Given, kw_only=True, frozen=True):
    """The result of freeing GPUs by hand.

    A dry run has only the ``contest``: what would be cut, who would enter with which odds, and a
    dummy draw. Otherwise it has all fields of an outcome.
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
            ("fail", "Record that a node is lost with all that ran on it.", ("unknown-name",)),
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
                "Let a cordoned node be given work again.",
                ("unknown-name", "conflict"),
            ),
            ("drain", "Cordon a node and stop what is on it.", ("unknown-name",)),
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
        summary="Take whole nodes for one user and sensitive work, until a stated end.",
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
        summary="Give the nodes of a claim back before its end.",
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
        summary="Make room in a scope, one notice from now.",
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
        summary="Do what time has made due.",
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
