"""Requests and responses of operations on resources of every kind."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Final

from msgspec import UNSET, Meta, Struct, UnsetType

from quorate.operations import common_responses
from quorate.operations.caller import (
    ADMINS,
    ANYBODY,
    ANYBODY_AND_ACCOUNTING,
    MANAGERS,
    SUBMITTERS,
    Role,
)
from quorate.operations.common_requests import (
    DOCUMENTS_MAX,
    PAGE_MAX,
    Asked,
    KeyedWrite,
    Name,
    Note,
    Tree,
    Write,
)
from quorate.operations.common_responses import Given
from quorate.operations.operation import Area, Effect, Operation, Repeat

NAMES_MAX: Final = 200
"""The most names in one request."""


class ListThings(Asked, kw_only=True, frozen=True):
    """At most ``limit`` resources after ``cursor``, which is the ``next`` of an earlier answer.

    ``names`` selects resources by name; ``at`` asks for the state at a past instant.
    """

    names: Annotated[tuple[Name, ...], Meta(max_length=NAMES_MAX)] = ()
    limit: Annotated[int, Meta(ge=1, le=PAGE_MAX)] | None = None
    cursor: Annotated[str, Meta(max_length=600)] | None = None
    at: str | None = None


class ListRuns(ListThings, kw_only=True, frozen=True):
    """Runs, or only the runs of one owner or in one phase; the last ones if ``newest``.

    If ``newest``, the first page has the newest runs, and ``next`` is the cursor of the page with
    older runs. A page always lists its oldest run first. If ``grouped``, an array is listed once,
    instead of each of its tasks.
    """

    owner: Name | None = None
    phase: str | None = None
    newest: bool = False
    grouped: bool = False


class GetThing(Asked, kw_only=True, frozen=True):
    """The resource with the name ``name``; the part before a ``/`` or ``@`` is enough."""

    name: Name
    at: str | None = None


class GetSystem(Asked, kw_only=True, frozen=True):
    """The one System document."""

    at: str | None = None


class Apply(KeyedWrite, kw_only=True, frozen=True):
    """Documents as users write them. Each is a tree with apiVersion, kind, metadata and spec."""

    documents: Annotated[tuple[Tree, ...], Meta(min_length=1, max_length=DOCUMENTS_MAX)]


class PutDocument(Write, kw_only=True, frozen=True):
    """The document with the name ``name``. If given, ``if_match`` must be its present version."""

    name: Name
    document: Tree
    if_match: str | None = None


class PutSystem(Write, kw_only=True, frozen=True):
    """The System document. If given, ``if_match`` must be its present version."""

    document: Tree
    if_match: str | None = None


class PatchSystem(Write, kw_only=True, frozen=True):
    """Fields to set in the System document: ``PATH=VALUE``."""

    assignments: Annotated[tuple[str, ...], Meta(min_length=1, max_length=200)]
    if_match: str | None = None


class PatchDocument(Write, kw_only=True, frozen=True):
    """Fields to set in the document with the name ``name``: ``PATH=VALUE``."""

    name: Name
    assignments: Annotated[tuple[str, ...], Meta(min_length=1, max_length=200)]
    if_match: str | None = None


class DeleteThing(KeyedWrite, kw_only=True, frozen=True):
    """The name of the resource to remove. No running work may depend on this resource."""

    name: Name
    reason: Note = ""
    if_match: str | None = None


class Thing(Given, kw_only=True, frozen=True):
    """One resource as a document: its declaration as ``spec``, its state as ``status``."""

    api_version: str
    kind: str
    metadata: Tree
    spec: Tree | UnsetType = UNSET
    status: Tree | UnsetType = UNSET


class Found(Given, kw_only=True, frozen=True):
    """One resource as a document. If several resources match the name, a List of ``items``."""

    api_version: str
    kind: str
    metadata: Tree | UnsetType = UNSET
    spec: Tree | UnsetType = UNSET
    status: Tree | UnsetType = UNSET
    items: tuple[Thing, ...] | UnsetType = UNSET


class Listing(Given, kw_only=True, frozen=True):
    """Resources in order. If there are more, use ``next`` as ``cursor`` of the next request."""

    api_version: str
    kind: str
    items: tuple[Thing, ...]
    next: str | UnsetType = UNSET


class Description(Given, kw_only=True, frozen=True):
    """The description of one resource, as the command line prints it."""

    kind: str
    name: str
    sections: tuple[str, ...]


class _Kind(Struct, frozen=True):
    """A kind of resource: its name in documents (``kind``), in paths, and its ``plural``.

    ``listed_by``, ``shown_by`` and ``described_by`` are the commands that list, show and describe
    its resources. A tenant is an owner under its administrative name, and has its own commands.
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
"""The kinds whose description has the whole history of the resource, which is read from the ledger.
"""
_OF_EVERY_RUN: Final = ("charge",)
"""The kinds whose list has an entry for every run ever submitted, so that a list reads all runs."""
_DELETED: Final = ("node", "pool", "budget")
"""The documents that are removed by name. Owners are not among them: an owner is removed as a
tenant."""
_NAMES_OTHERS: Final = ("owner", "budget")
"""The documents that name other resources. If such a resource does not exist, the request is
refused."""


def _of(kind: _Kind) -> Iterator[Operation]:
    takes = ListRuns if kind.kind in _LISTED_AS_RUNS else ListThings
    yield Operation(
        name=f"list-{kind.title}",
        area=kind.area,
        summary=f"List {kind.title}."
        if kind.kind != "queue"
        else "List the waiting runs, in order.",
        takes=takes,
        gives=Listing,
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
            takes=GetThing,
            gives=Found,
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
            summary=f"Describe one {kind.kind} completely.",
            takes=GetThing,
            gives=Description,
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
    if kind.kind in _DELETED:
        yield Operation(
            name=f"delete-{kind.kind}",
            area=kind.area,
            summary=f"Remove one {kind.kind} that is not in use.",
            takes=DeleteThing,
            gives=common_responses.Outcome,
            roles=ADMINS,
            method="DELETE",
            path=f"/{kind.path}/{{name}}",
            handler="quorate.operations.resources.applying:delete_thing",
            effect=Effect.WRITE,
            repeat=Repeat.KEYED,
            refusals=("invalid", "unknown-name", "conflict", "stale-version", "key-reused"),
            about=kind.kind,
            cli=("delete",),
        )


def _changes(kind: _Kind) -> Iterator[Operation]:
    yield Operation(
        name=f"put-{kind.kind}",
        area=kind.area,
        summary=f"Create or replace one {kind.kind}.",
        takes=PutDocument,
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
        takes=PatchDocument,
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
        takes=GetSystem,
        gives=Thing,
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
        summary="Describe the settings of the installation.",
        takes=GetSystem,
        gives=Description,
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
        takes=PutSystem,
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
        takes=PatchSystem,
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
_APPLY: Final = Operation(
    name="apply",
    area=Area.SERVICE,
    summary="Create or update resources from documents: all of them, or none.",
    takes=Apply,
    gives=common_responses.Outcome,
    roles=SUBMITTERS,
    method="POST",
    path="/apply",
    handler="quorate.operations.resources.applying:apply_documents",
    effect=Effect.WRITE,
    repeat=Repeat.KEYED,
    refusals=("invalid", "unknown-name", "already-exists", "conflict", "key-reused"),
    cli=("apply",),
    is_for_any_scope=True,
)
OPERATIONS: Final = (*(each for kind in _KINDS for each in _of(kind)), *_SYSTEM, _APPLY)
