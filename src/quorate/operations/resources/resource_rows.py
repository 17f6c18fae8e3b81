"""The operations that list, show, describe, put and patch things: the same for every kind."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from quorate.operations import common_requests, common_responses
from quorate.operations.caller import ADMINS, ANYBODY, ANYBODY_AND_ACCOUNTING, MANAGERS, Role
from quorate.operations.operation import Area, Effect, Operation, Repeat


@dataclass(frozen=True, slots=True)
class _Kind:
    """``kind`` is its name in documents, ``path`` and ``plural`` its names in requests.

    The last three are its commands. A tenant is an owner under its administrative name, and has
    commands of its own.
    """

    kind: str
    path: str
    area: Area
    plural: str = ""
    putters: frozenset[Role] = frozenset()
    listed_by: tuple[str, ...] = ("get",)
    shown_by: tuple[str, ...] = ("get",)
    described_by: tuple[str, ...] = ("describe",)

    @property
    def title(self) -> str:
        return self.plural or f"{self.kind}s"


_KINDS: Final = (
    _Kind("node", "nodes", Area.FLEET, putters=ADMINS),
    _Kind("domain", "domains", Area.FLEET),
    _Kind("pool", "pools", Area.FLEET, putters=ADMINS),
    _Kind("owner", "owners", Area.TENANTS, putters=ADMINS),
    _Kind(
        "tenant",
        "tenants",
        Area.TENANTS,
        listed_by=("admin tenant get", "admin tenant list"),
        shown_by=("admin tenant get",),
        described_by=("admin tenant get",),
    ),
    _Kind("budget", "budgets", Area.MONEY, putters=MANAGERS),
    _Kind("envelope", "envelopes", Area.MONEY),
    _Kind("cap", "caps", Area.MONEY),
    _Kind("run", "runs", Area.RUNS),
    _Kind("queue", "queue", Area.RUNS, plural="queue", listed_by=("get", "queue")),
    _Kind("reservation", "reservations", Area.RUNS),
    _Kind("resolveroutcome", "resolver/outcomes", Area.CONTENTION),
    _Kind("lease", "leases", Area.RUNS),
    _Kind("claim", "claims", Area.RUNS),
    _Kind("charge", "charges", Area.MONEY),
)
_LISTED_AS_RUNS: Final = ("run", "queue")
_HAVE_TIMELINES: Final = ("run", "claim", "node", "reservation", "resolveroutcome")
"""Whose description tells all that happened to them, for which the ledger is read: ``ABOUT``."""
_OF_EVERY_RUN: Final = ("charge",)
"""Whose list has entries of every run that ever was, so that all of them are read."""
_NAMES_OTHERS: Final = ("owner", "budget")
"""Documents that name others, which may not be there."""


def _of(kind: _Kind) -> Iterator[Operation]:
    takes = common_requests.ListRuns if kind.kind in _LISTED_AS_RUNS else common_requests.ListThings
    yield Operation(
        name=f"list-{kind.title}",
        area=kind.area,
        summary=f"List {kind.title}."
        if kind.kind != "queue"
        else "List the waiting runs, in order.",
        takes=takes,
        gives=common_responses.Listing,
        roles=ANYBODY,
        method="GET",
        path=f"/{kind.path}",
        handler="quorate.operations.resources.listing:list_things",
        refusals=("stale-cursor", "unknown-name"),
        about=kind.kind,
        cli=kind.listed_by,
        is_long=kind.kind in _OF_EVERY_RUN,
    )
    if kind.kind != "queue":
        yield Operation(
            name=f"get-{kind.kind}",
            area=kind.area,
            summary=f"Show one {kind.kind}.",
            takes=common_requests.GetThing,
            gives=common_responses.Found,
            roles=ANYBODY_AND_ACCOUNTING if kind.kind == "tenant" else ANYBODY,
            method="GET",
            path=f"/{kind.path}/{{name}}",
            handler="quorate.operations.resources.listing:get_thing",
            refusals=("unknown-name",),
            about=kind.kind,
            cli=kind.shown_by,
        )
        yield Operation(
            name=f"describe-{kind.kind}",
            area=kind.area,
            summary=f"Describe one {kind.kind} in full.",
            takes=common_requests.GetThing,
            gives=common_responses.Description,
            roles=ANYBODY,
            method="GET",
            path=f"/{kind.path}/{{name}}/description",
            handler="quorate.operations.resources.listing:describe_thing",
            refusals=("unknown-name",),
            about=kind.kind,
            cli=kind.described_by,
            is_long=kind.kind in _HAVE_TIMELINES,
        )
    if kind.putters:
        yield from _changes(kind)


def _changes(kind: _Kind) -> Iterator[Operation]:
    yield Operation(
        name=f"put-{kind.kind}",
        area=kind.area,
        summary=f"Create or replace one {kind.kind}.",
        takes=common_requests.PutDocument,
        gives=common_responses.Outcome,
        roles=kind.putters,
        method="PUT",
        path=f"/{kind.path}/{{name}}",
        handler="quorate.operations.resources.applying:put_document",
        effect=Effect.WRITE,
        repeat=Repeat.SAME,
        refusals=(
            "invalid",
            *(("unknown-name",) if kind.kind in _NAMES_OTHERS else ()),
            "conflict",
            "stale-version",
        ),
        about=kind.kind,
        cli=("apply",),
    )
    yield Operation(
        name=f"patch-{kind.kind}",
        area=kind.area,
        summary=f"Change fields of one {kind.kind}.",
        takes=common_requests.PatchDocument,
        gives=common_responses.Outcome,
        roles=kind.putters,
        method="PATCH",
        path=f"/{kind.path}/{{name}}",
        handler="quorate.operations.resources.applying:patch_document",
        effect=Effect.WRITE,
        repeat=Repeat.SAME,
        refusals=("invalid", "unknown-name", "conflict", "stale-version"),
        about=kind.kind,
        cli=("patch",),
    )


_SYSTEM: Final = (
    Operation(
        name="get-system",
        area=Area.SERVICE,
        summary="Show the settings of the installation.",
        takes=common_requests.GetSystem,
        gives=common_responses.Thing,
        roles=ANYBODY,
        method="GET",
        path="/system",
        handler="quorate.operations.resources.listing:get_system",
        refusals=("unknown-name",),
        about="system",
        cli=("get",),
    ),
    Operation(
        name="describe-system",
        area=Area.SERVICE,
        summary="Describe the settings of the installation in full.",
        takes=common_requests.GetSystem,
        gives=common_responses.Description,
        roles=ANYBODY,
        method="GET",
        path="/system/description",
        handler="quorate.operations.resources.listing:describe_system",
        refusals=("unknown-name",),
        about="system",
        cli=("describe",),
    ),
    Operation(
        name="put-system",
        area=Area.SERVICE,
        summary="Replace the settings of the installation.",
        takes=common_requests.PutSystem,
        gives=common_responses.Outcome,
        roles=ADMINS,
        method="PUT",
        path="/system",
        handler="quorate.operations.resources.applying:put_system",
        effect=Effect.WRITE,
        repeat=Repeat.SAME,
        refusals=("invalid", "stale-version"),
        about="system",
        cli=("apply",),
    ),
    Operation(
        name="patch-system",
        area=Area.SERVICE,
        summary="Change settings of the installation.",
        takes=common_requests.PatchSystem,
        gives=common_responses.Outcome,
        roles=ADMINS,
        method="PATCH",
        path="/system",
        handler="quorate.operations.resources.applying:patch_system",
        effect=Effect.WRITE,
        repeat=Repeat.SAME,
        refusals=("invalid", "stale-version"),
        about="system",
        cli=("patch",),
    ),
)
THINGS: Final = (*(each for kind in _KINDS for each in _of(kind)), *_SYSTEM)
