"""What the operations take that plan, explain, watch, and read the ledger itself."""

from __future__ import annotations

from typing import Annotated, Any, Final

from msgspec import Meta, field

from quorate.operations.common_requests import PAGE_MAX, Asked, Name, Tree

PLANNED_MAX: Final = 50
"""How many runs one request may have planned: each is decided after all that are before it."""
CHECKPOINTS_MAX: Final = 100
"""How many checkpoints, and how many receipts, one request may carry."""

Seq = Annotated[int, Meta(ge=1, le=2**53)]
"""Of an event; the largest is one that every JSON reader has exactly."""


class AboutRun(Asked, kw_only=True, frozen=True):
    """A run that was submitted.

    With ``exact`` its start is searched beyond the runs that the pool plans: all that wait before
    it are planned for this answer, up to a bound, which the answer states.
    """

    run: Name
    exact: bool = False


class PlanRuns(Asked, kw_only=True, frozen=True):
    """Run documents that are not submitted, in the order in which they would be.

    ``source`` is what their file is called in the commands that are proposed. With ``exact``, which
    is for one document, its start is searched beyond the runs that the pool plans.
    """

    documents: Annotated[tuple[Tree, ...], Meta(min_length=1, max_length=PLANNED_MAX)]
    source: Annotated[str, Meta(min_length=1, max_length=4_096)] = "FILE"
    exact: bool = False


class Picture(Asked, kw_only=True, frozen=True):
    """One run; or the firm starts, or everything, in one pool or in all of them."""

    run: Name | None = None
    pool: Name | None = None
    reservations: bool = False


class WatchEvents(Picture, kw_only=True, frozen=True):
    """From the event ``from`` on; without it what is recorded from now on."""

    first: Seq | None = field(default=None, name="from")


class ListEvents(Asked, kw_only=True, frozen=True):
    """``limit`` at most: the first from the event ``from`` on, else the last ones.

    To read on, ask from ``next`` of the answer, until that is beyond the ledger's end. ``run`` and
    ``about`` (``KIND/NAME``: a run, claim, node, reservation or resolveroutcome) choose among them.
    """

    first: Seq | None = field(default=None, name="from")
    limit: Annotated[int, Meta(ge=1, le=PAGE_MAX)] | None = None
    run: Name | None = None
    about: Annotated[str, Meta(min_length=3, max_length=300)] | None = None


class VerifyLedger(Asked, kw_only=True, frozen=True):
    """With ``deep`` every event and invariant; each ``receipt`` (``BLOCK:HASH``) is looked up."""

    deep: bool = False
    receipts: Annotated[tuple[str, ...], Meta(max_length=CHECKPOINTS_MAX)] = field(
        default=(), name="receipt"
    )


class KeptCheckpoint(Asked, kw_only=True, frozen=True):
    """A checkpoint as it was signed, and the name of its file."""

    checkpoint: Tree
    file: Annotated[str, Meta(min_length=1, max_length=4_096)] = "the checkpoint"


class VerifyAgainst(VerifyLedger, kw_only=True, frozen=True):
    """With ``checkpoints`` that were kept elsewhere, each of which must agree."""

    checkpoints: Annotated[
        tuple[KeptCheckpoint, ...], Meta(min_length=1, max_length=CHECKPOINTS_MAX)
    ]


class Calculate(Asked, kw_only=True, frozen=True):
    """A world as JSON, and what to compute about it."""

    kind: Name
    world: Any
