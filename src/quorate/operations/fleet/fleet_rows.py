"""The operations on nodes, claims, conflicts and passing time."""

from __future__ import annotations

from typing import Final

from quorate.operations import common_responses
from quorate.operations.caller import ADMINS, SUBMITTERS
from quorate.operations.fleet import fleet_requests, fleet_responses
from quorate.operations.operation import Area, Effect, Operation, Repeat

_NODES: Final = (
    *(
        Operation(
            name=f"{verb}-node",
            area=Area.FLEET,
            summary=summary,
            takes=fleet_requests.MarkNode,
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
        takes=fleet_requests.NodeWiped,
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
        takes=fleet_requests.ClaimNodes,
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
        takes=fleet_requests.ReleaseClaim,
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
        takes=fleet_requests.Resolve,
        gives=fleet_responses.Resolution,
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
        takes=fleet_requests.Tick,
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
FLEET: Final = (*_NODES, *_CLAIMS, *_TIME)
