"""Requests and responses of operations on the ledger itself."""

from __future__ import annotations

from typing import Annotated, Any, Final

from msgspec import Meta, Struct, field

from quorate.operations import common_requests
from quorate.operations.caller import ADMINS, ANYBODY, OVERSEERS
from quorate.operations.common_requests import PAGE_MAX, Asked, Name, Tree
from quorate.operations.common_responses import Given
from quorate.operations.ledger.plan_operations import PictureRequest
from quorate.operations.operation import EVENT_STREAM, JSON_LINES, Area, Effect, Operation

CHECKPOINTS_MAX: Final = 100
"""The most checkpoints, and the most receipts, in one request."""
Seq = Annotated[int, Meta(ge=1, le=2**53)]
"""The sequence number of an event. The limit is the largest integer that every JSON parser reads
exactly.
"""


class WatchEvents(PictureRequest, kw_only=True, frozen=True):
    """Events from the event ``from`` on. Without ``from``, the events recorded from now on."""

    first: Seq | None = field(default=None, name="from")


class ListEvents(Asked, kw_only=True, frozen=True):
    """At most ``limit`` events: those from the event ``from`` on or, without ``from``, the last.

    To read on, set ``from`` to ``next`` of the answer, until ``next`` is beyond the ledger's end.
    ``run`` selects the events about one run. ``about`` selects the events about one resource, given
    as ``KIND/NAME``, with the kind run, claim, node, reservation or resolveroutcome.
    """

    first: Seq | None = field(default=None, name="from")
    limit: Annotated[int, Meta(ge=1, le=PAGE_MAX)] | None = None
    run: Name | None = None
    about: Annotated[str, Meta(min_length=3, max_length=300)] | None = None


class VerifyLedger(Asked, kw_only=True, frozen=True):
    """Which checks to make. ``deep`` also checks every event and invariant.

    Every ``receipt`` (BLOCK:HASH) must match the ledger.
    """

    deep: bool = False
    receipts: Annotated[tuple[str, ...], Meta(max_length=CHECKPOINTS_MAX)] = field(
        default=(), name="receipt"
    )


class KeptCheckpoint(Asked, kw_only=True, frozen=True):
    """A signed checkpoint, and the name of its file."""

    checkpoint: Tree
    file: Annotated[str, Meta(min_length=1, max_length=4_096)] = "the checkpoint"


class VerifyAgainst(VerifyLedger, kw_only=True, frozen=True):
    """A verification against ``checkpoints`` that were kept elsewhere. Each of them must agree."""

    checkpoints: Annotated[
        tuple[KeptCheckpoint, ...], Meta(min_length=1, max_length=CHECKPOINTS_MAX)
    ]


class Calculate(Asked, kw_only=True, frozen=True):
    """A world as JSON, and the ``kind`` of result to compute from it."""

    kind: Name
    world: Any


class EventTold(Struct, kw_only=True, frozen=True):
    """One event. Its ``tag`` determines its further fields: docs/reference/events.md."""

    seq: int
    tag: str
    at_ms: int
    actor: str


class InBlock(Given, kw_only=True, frozen=True):
    """The block that holds an event."""

    height: int
    hash: str


class EventListed(EventTold, kw_only=True, frozen=True):
    """One event, its sentence, and the block that holds it."""

    text: str
    block: InBlock


class Events(Given, kw_only=True, frozen=True):
    """Events in order; to read on, set ``from`` to ``next``.

    An empty or short page need not be the last page: for each page, a limited number of events is
    read, and the caller may not see all of these.
    """

    items: tuple[EventListed, ...]
    next: int


class Head(Given, kw_only=True, frozen=True):
    """The end of the ledger."""

    height: int
    sequence: int
    hash: str


class Agreed(Given, kw_only=True, frozen=True):
    """A checkpoint that agrees with the ledger."""

    file: str
    sequence: int
    hash: str


class Verification(Given, kw_only=True, frozen=True):
    """The result if everything that was checked is correct; otherwise the answer is an error.

    ``end_known`` is false if the ledger's end is recorded nowhere but in the ledger. A ledger that
    was cut short would then still verify.
    """

    verifies: bool
    deep: bool
    events: int
    blocks: int
    head: Head
    checkpoints: tuple[Agreed, ...]
    receipts: tuple[str, ...]
    end_known: bool


class Checkpoint(Struct, kw_only=True, frozen=True):
    """The signed end of the ledger. Keep it where the ledger's operator cannot change the file."""

    kind: str
    ledger_id: str
    height: int
    seq: int
    hash: str
    at_ms: int
    public_key: str
    signature: str


class ExportedBlock(Struct, kw_only=True, frozen=True):
    """One line of an export: docs/reference/export.md."""

    format: str
    height: int
    first_seq: int
    count: int
    prev_hash: str
    hash: str
    body: str
    events: tuple[EventTold, ...]


class Lottery(Given, kw_only=True, frozen=True):
    """The committed chain, and how much of the chain has been revealed.

    ``commitment`` is null if the ledger has no lottery.
    """

    commitment: str | None
    length: int
    next_index: int | None
    link: str | None
    revealed: int
    open_conflicts: tuple[str, ...]


class Redrawn(Given, kw_only=True, frozen=True):
    """The answer if every lottery gives the published result; otherwise the answer is an error."""

    verifies: bool
    events: int
    conflicts: int
    lotteries: int
    draws: int


Calculated = dict[str, Any]
"""The result of a calculation: docs/reference/calc.md."""
_LEDGER: Final = (
    Operation(
        name="watch-events",
        area=Area.LEDGER,
        summary="Follow the events of the ledger, from a sequence on.",
        takes=WatchEvents,
        gives=EventTold,
        roles=ANYBODY,
        method="GET",
        path="/watch",
        handler="quorate.operations.ledger.following:watch_events",
        effect=Effect.STREAM,
        refusals=("unknown-name", "stale-cursor"),
        cli=("watch",),
        media=EVENT_STREAM,
    ),
    Operation(
        name="list-events",
        area=Area.LEDGER,
        summary="List events: the first from a sequence on, or the last.",
        takes=ListEvents,
        gives=Events,
        roles=ANYBODY,
        method="GET",
        path="/ledger/events",
        handler="quorate.operations.ledger.ledger_history:list_events",
        refusals=("unknown-name",),
        cli=("ledger log",),
        is_long=True,
    ),
    Operation(
        name="verify-ledger",
        area=Area.LEDGER,
        summary="Check that the ledger was not changed after it was written.",
        takes=VerifyLedger,
        gives=Verification,
        roles=ANYBODY,
        method="GET",
        path="/ledger/verification",
        handler="quorate.operations.ledger.verification:verify_ledger",
        refusals=("unsound",),
        cli=("ledger verify",),
        of_blocks=True,
        is_long=True,
    ),
    Operation(
        name="verify-ledger-against",
        area=Area.LEDGER,
        summary="Check the ledger against checkpoints that were kept elsewhere.",
        takes=VerifyAgainst,
        gives=Verification,
        roles=ANYBODY,
        method="POST",
        path="/ledger/verification",
        handler="quorate.operations.ledger.verification:verify_ledger",
        refusals=("invalid", "unsound"),
        cli=("ledger verify",),
        of_blocks=True,
        is_long=True,
    ),
    Operation(
        name="sign-checkpoint",
        area=Area.LEDGER,
        summary="Sign a checkpoint of the ledger's end.",
        takes=common_requests.Nothing,
        gives=Checkpoint,
        roles=ADMINS,
        method="POST",
        path="/ledger/checkpoints",
        handler="quorate.operations.ledger.ledger_history:sign_checkpoint",
        refusals=("no-key", "unsound"),
        cli=("ledger checkpoint",),
        of_blocks=True,
        is_long=True,
    ),
    Operation(
        name="export-ledger",
        area=Area.LEDGER,
        summary="Write the whole ledger as JSON lines, one for each block.",
        takes=common_requests.Nothing,
        gives=ExportedBlock,
        roles=OVERSEERS,
        method="GET",
        path="/ledger/export",
        handler="quorate.operations.ledger.ledger_history:export_ledger",
        cli=("ledger export",),
        media=JSON_LINES,
        of_blocks=True,
        is_long=True,
    ),
)
_LOTTERY: Final = (
    Operation(
        name="show-lottery",
        area=Area.CONTENTION,
        summary="Show the lottery's commitment, and how far its chain is revealed.",
        takes=common_requests.Nothing,
        gives=Lottery,
        roles=ANYBODY,
        method="GET",
        path="/lottery",
        handler="quorate.operations.ledger.lottery_handlers:show_lottery",
        cli=("lottery show",),
    ),
    Operation(
        name="verify-lottery",
        area=Area.CONTENTION,
        summary="Draw every lottery of the ledger again.",
        takes=common_requests.Nothing,
        gives=Redrawn,
        roles=ANYBODY,
        method="GET",
        path="/lottery/verification",
        handler="quorate.operations.ledger.lottery_handlers:verify_lottery",
        refusals=("unsound",),
        cli=("lottery verify",),
        of_blocks=True,
        is_long=True,
    ),
    Operation(
        name="calc",
        area=Area.SERVICE,
        summary="Compute one decision on a world given as JSON.",
        takes=Calculate,
        gives=Calculated,
        roles=ANYBODY,
        method="POST",
        path="/calc/{kind}",
        handler="quorate.operations.ledger.calculating:calculate",
        refusals=("invalid",),
        cli=("calc",),
        of_blocks=True,
        is_long=True,
        is_apart=True,
        of_queue=True,
    ),
)
OPERATIONS: Final = (*_LEDGER, *_LOTTERY)
