"""What operations take. Names on the wire are those here in camel case, unless said otherwise."""

from __future__ import annotations

from typing import Annotated, Any, Final, TypeVar

from msgspec import UNSET, Meta, Struct, UnsetType
from msgspec.structs import replace

PAGE_MAX: Final = 1_000
"""How many things one answer lists at most, where a service is asked."""
NAMES_MAX: Final = 200
"""How many things one request may ask for by name."""
MORE: Final = (
    f"note: there are more than these {PAGE_MAX}; narrow the question, or have all: -o json"
)
"""What is said where an answer is cut at the most that a service lists."""
DOCUMENTS_MAX: Final = 10_000
"""How many documents one request may carry."""
NOTE_CHARS_MAX: Final = 1_000

_LIMIT: Final = "limit"
Asked_ = TypeVar("Asked_", bound=Struct)
Name = Annotated[str, Meta(min_length=1, max_length=253)]
Note = Annotated[str, Meta(max_length=NOTE_CHARS_MAX)]
Tree = dict[str, Any]
Number = int | float | str | None | UnsetType
"""A number, or one in digits where it must be exact; null takes it away."""


class Asked(Struct, kw_only=True, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """Anything that is asked. Unknown fields are refused, so that none is silently ignored."""


def within_a_page(asked: Asked_) -> Asked_:
    """Return ``asked`` with the limit of a page where it has none; a service lists no more at once.

    However it was left out: not sent, or sent as null.
    """
    if getattr(asked, _LIMIT, UNSET) is None:
        return replace(asked, **{_LIMIT: PAGE_MAX})
    return asked


class Nothing(Asked, kw_only=True, frozen=True):
    """A question without parameters."""


class ListThings(Asked, kw_only=True, frozen=True):
    """``limit`` at most, from after ``cursor`` on, which an earlier answer gave as ``next``.

    With ``names`` only those; ``at`` reads the ledger as it stood at an instant.
    """

    names: Annotated[tuple[Name, ...], Meta(max_length=NAMES_MAX)] = ()
    limit: Annotated[int, Meta(ge=1, le=PAGE_MAX)] | None = None
    cursor: Annotated[str, Meta(max_length=600)] | None = None
    at: str | None = None


class ListRuns(ListThings, kw_only=True, frozen=True):
    """Of one owner, in one phase; with ``newest`` the last ones, where there are more."""

    owner: Name | None = None
    phase: str | None = None
    newest: bool = False


class GetThing(Asked, kw_only=True, frozen=True):
    """The thing called ``name``; what is before a ``/`` or ``@`` will do."""

    name: Name
    at: str | None = None


class GetSystem(Asked, kw_only=True, frozen=True):
    """The one System there is."""

    at: str | None = None


class Write(Asked, kw_only=True, frozen=True):
    """Anything that changes something; a ``dry_run`` says what it would do, and does not."""

    dry_run: bool = False


class KeyedWrite(Write, kw_only=True, frozen=True):
    """Repeating it with the same key returns the first answer, for a day."""

    idempotency_key: Annotated[str, Meta(min_length=1, max_length=255)] | None = None


class Apply(KeyedWrite, kw_only=True, frozen=True):
    """Documents as users write them, each a tree of apiVersion, kind, metadata and spec."""

    documents: Annotated[tuple[Tree, ...], Meta(min_length=1, max_length=DOCUMENTS_MAX)]


class PutDocument(Write, kw_only=True, frozen=True):
    """The document called ``name``; with ``if_match`` only if it is still at that version."""

    name: Name
    document: Tree
    if_match: str | None = None


class PutSystem(Write, kw_only=True, frozen=True):
    """The System document; with ``if_match`` only if it is still at that version."""

    document: Tree
    if_match: str | None = None


class PatchSystem(Write, kw_only=True, frozen=True):
    """Fields of the System to set: ``PATH=VALUE``."""

    assignments: Annotated[tuple[str, ...], Meta(min_length=1, max_length=200)]
    if_match: str | None = None


class PatchDocument(Write, kw_only=True, frozen=True):
    """Fields of the document called ``name`` to set: ``PATH=VALUE``."""

    name: Name
    assignments: Annotated[tuple[str, ...], Meta(min_length=1, max_length=200)]
    if_match: str | None = None


class SubmitRun(KeyedWrite, kw_only=True, frozen=True):
    """A Run document, or a copy of the run ``like`` called ``name``, with fields set."""

    document: Tree | None = None
    like: Name | None = None
    name: Name | None = None
    assignments: Annotated[tuple[str, ...], Meta(max_length=200)] = ()


class SubmitRuns(KeyedWrite, kw_only=True, frozen=True):
    """Run documents that are accepted together, or not at all.

    A service takes as many as have 1,000 widths in all: a malleable run has one for each step.
    """

    documents: Annotated[tuple[Tree, ...], Meta(min_length=1, max_length=DOCUMENTS_MAX)]


class EndRun(Write, kw_only=True, frozen=True):
    """The run, and why."""

    run: Name
    note: Note = ""


class ShrinkRun(Write, kw_only=True, frozen=True):
    """The run, and on how many GPUs it is to go on, or by how many fewer."""

    run: Name
    gpus: Annotated[int, Meta(ge=1, le=1_000_000)] | None = None
    by: Annotated[int, Meta(ge=1, le=1_000_000)] | None = None


class _TenantFields(Write, kw_only=True, frozen=True, rename=None):
    """Fields of a tenant, called as administrators know them. What is not given is left alone."""

    id: Name
    max_nodes: Number = UNSET
    max_concurrent_allocations: Number = UNSET
    gpu_hours_budget: Number = UNSET
    node_hours_budget: Number = UNSET
    fair_share_target: Number = UNSET
    burst_allowance: Number = UNSET
    parents: tuple[Name, ...] | UnsetType = UNSET
    reason: Note = ""


class CreateTenant(_TenantFields, kw_only=True, frozen=True, rename=None):
    """A tenant called ``id``, with the limits that are given."""


class UpdateTenant(_TenantFields, kw_only=True, frozen=True, rename=None):
    """Limits to set; null takes one away, and ``parents`` replaces all of them."""

    if_match: str | None = None


class DeleteTenant(Write, kw_only=True, frozen=True):
    """A tenant that holds nothing."""

    id: Name
    reason: Note = ""
    if_match: str | None = None
