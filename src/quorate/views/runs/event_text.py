"""Events for people: time, sequence number, actor, and a sentence."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final, assert_never

from quorate.documents.times import time_text
from quorate.ledger.chain import GENESIS, Block, Head, open_blocks
from quorate.ledger.codec import event_to_json
from quorate.model.amounts import PPM, hours_text
from quorate.model.cause_text import cause_text, round_text
from quorate.model.closed_words import counted
from quorate.model.events import (
    BackfillNoted,
    BudgetApplied,
    BudgetFellBack,
    BudgetRemoved,
    BudgetReported,
    ConflictAnnounced,
    ConflictDeclared,
    ConflictDeferred,
    ConflictResolved,
    ConflictWithdrawn,
    Event,
    HoldExtended,
    LeaseEnded,
    LeaseEnding,
    LeaseStarted,
    LedgerOpened,
    LoanRecalled,
    LotteryCommitted,
    LotterySealed,
    NodeApplied,
    NodeMarked,
    NodeRemoved,
    NodesClaimed,
    NodeWiped,
    OwnerApplied,
    OwnerRemoved,
    PledgeClosed,
    PoolApplied,
    PoolRemoved,
    RecallWithdrawn,
    RequestKept,
    ReservationClosed,
    ReservationMade,
    ReservationMoved,
    RoundShared,
    RunEnded,
    RunRefused,
    RunRequeued,
    RunResized,
    RunStopping,
    RunSubmitted,
    SpareFilled,
    StepsCounted,
    SystemApplied,
    ThresholdCrossed,
    TokenIssued,
    TokenRevoked,
    lease_gpus,
    tag_of,
)
from quorate.model.refusal import sentence
from quorate.ports.store_port import EventStore
from quorate.views.runs.reason_words import (
    began,
    bundle_words,
    ended,
    lease_stopping,
    run_stopping,
)
from quorate.views.table import Column, right, wide
from quorate.views.word_forms import IF_DECLARED, gpus, hours, one_line, percent, slots, told_text

COLUMNS = (
    right("SEQ"),
    Column("TIME"),
    Column("ACTOR"),
    Column("EVENT"),
    Column("WHAT"),
    right("BLOCK", wide=True),
    wide("HASH"),
)


@dataclass(frozen=True, slots=True)
class Entry:
    """An event, its sequence number, and the block that holds it."""

    seq: int
    head: Head
    event: Event


def entries(blocks: Iterable[Block], *, after: Head = GENESIS) -> Iterator[Entry]:
    """Yield every event of ``blocks``, which follow the head ``after``; checks all hashes."""
    for head, events in open_blocks(blocks, after=after):
        first = head.seq - len(events) + 1
        for seq, event in enumerate(events, start=first):
            yield Entry(seq, head, event)


def run_of(event: Event) -> str | None:  # noqa: PLR0911 - one answer per kind
    """Return the run that ``event`` is about; None if it is about no run."""
    match event:
        case RunSubmitted():
            return event.run.name
        case (
            BackfillNoted()
            | LoanRecalled()
            | RecallWithdrawn()
            | ReservationMade()
            | ConflictDeferred()
            | RunRefused()
            | RunStopping()
            | RunResized()
            | RunRequeued()
            | RunEnded()
            | LeaseStarted()
        ):
            return event.run
        case LeaseEnding() | LeaseEnded() | HoldExtended():
            # A lease's name begins with its run's name, which has no slash.
            return event.lease.partition("/")[0]
        case ReservationMoved() | ReservationClosed():
            # A reservation's name begins with its run's name, too.
            return event.reservation.rpartition("@")[0]
        case SpareFilled():
            return event.filler
        case NodesClaimed() | NodeWiped():
            return event.claim
        case _:
            return None


def reservation_of(event: Event) -> str | None:
    """Return the reservation that ``event`` is about; None if it is about no reservation."""
    match event:
        case (
            ReservationMade()
            | ReservationMoved()
            | ReservationClosed()
            | ConflictDeclared()
            | ConflictAnnounced()
            | ConflictWithdrawn()
            | BackfillNoted()
        ):
            return event.reservation or None
        case _:
            return None


def conflict_of(event: Event) -> str | None:
    """Return the conflict that ``event`` declares or settles; None if it does neither."""
    match event:
        case ConflictDeclared() | ConflictResolved():
            return event.conflict
        case _:
            return None


def moves_of(store: EventStore, reservation: str) -> list[ReservationMoved]:
    """Return the moves of a reservation, in order; reads the whole ledger."""
    return [
        entry.event
        for entry in entries(store.blocks())
        if isinstance(entry.event, ReservationMoved) and entry.event.reservation == reservation
    ]


def nodes_of(event: Event) -> tuple[str, ...]:
    """Return the nodes that ``event`` declares, marks, removes, claims or records as wiped."""
    match event:
        case NodeApplied():
            return (event.node.name,)
        case NodeMarked() | NodeRemoved() | NodeWiped():
            return (event.node,)
        case NodesClaimed():
            return event.nodes
        case _:
            return ()


ABOUT: Final[dict[str, Callable[[Event, str], bool]]] = {
    "run": lambda event, name: run_of(event) == name,
    "claim": lambda event, name: run_of(event) == name,
    "node": lambda event, name: name in nodes_of(event),
    "reservation": lambda event, name: reservation_of(event) == name,
    "resolveroutcome": lambda event, name: conflict_of(event) == name,
}
"""Maps a kind to a function that tells whether an event is about the named resource."""


def entry_tree(entry: Entry) -> dict[str, Any]:
    """Return ``entry`` with named fields, for programs."""
    block = {"height": entry.head.height, "hash": entry.head.hash.hex()}
    told = event_to_json(entry.seq, entry.event)
    return {**told, "text": format_event(entry.event), "block": block}


def row(entry: Entry) -> tuple[str, ...]:
    """Return the cells of ``COLUMNS`` for ``entry``."""
    event = entry.event
    return (
        str(entry.seq),
        time_text(event.at_ms),
        event.actor,
        tag_of(event),
        format_event(event),
        str(entry.head.height),
        entry.head.hash.hex(),
    )


def format_event(event: Event) -> str:  # noqa: C901, PLR0911, PLR0912 - one line per event, nothing else
    """Return ``event`` as a sentence on one line."""
    match event:
        case LedgerOpened():
            return f"ledger {event.ledger_id}"
        case SystemApplied():
            return "system"
        case PoolApplied():
            return f"pool/{event.pool.name}"
        case NodeApplied():
            node = event.node
            return f"node/{node.name}: {node.gpus} {node.flavor} in {node.domain_key}"
        case NodeMarked():
            return f"node/{event.node} {event.status}{_noted(event.note)}"
        case NodeRemoved():
            return f"node/{event.node} removed{_noted(event.reason)}"
        case PoolRemoved():
            return f"pool/{event.pool} removed{_noted(event.reason)}"
        case NodesClaimed():
            return (
                f"claim/{event.claim} of {event.user}: {', '.join(event.nodes)} until "
                f"{time_text(event.end_ms)}"
            )
        case NodeWiped():
            how = "wiped" if event.is_clean else "quarantined: it could not be wiped"
            return f"node/{event.node} {how} after claim/{event.claim}{_noted(event.note)}"
        case OwnerApplied():
            return f"owner/{event.owner.name}{_noted(event.reason)}"
        case OwnerRemoved():
            return f"owner/{event.owner} removed{_noted(event.reason)}"
        case ThresholdCrossed():
            where = "has used" if event.is_above else "is clearly below"
            return f"owner/{event.owner} {where} {event.percent} % of a soft budget"
        case BudgetReported():
            return f"owner/{event.owner}: {event.source} reports {told_text(event.gpu, event.node)}"
        case BudgetFellBack():
            if not event.is_linked:
                return (
                    f"owner/{event.owner}: no longer linked to {event.source}, so the ledger's own "
                    "figures count"
                )
            return (
                f"owner/{event.owner}: {event.source} does not report what is left, so the "
                f"ledger's own figures count{_noted(event.note)}"
            )
        case BudgetApplied():
            budget = event.budget
            return f"budget/{budget.name} of {budget.owner}: " + counted(
                len(budget.envelopes), "envelope"
            )
        case BudgetRemoved():
            return f"budget/{event.budget} of {event.owner} removed{_noted(event.reason)}"
        case RunSubmitted():
            run = event.run
            return f"run/{run.name} of {run.owner}: {gpus(run.gpus)}, {'|'.join(run.flavors)}"
        case RunRefused():
            return f"run/{event.run} waits: {sentence(event.refusal)} ({event.refusal.code})"
        case LeaseStarted():
            return (
                f"lease/{event.lease} {began(event.reason)}: {gpus(lease_gpus(event.slots))} on "
                f"{slots(event.slots, most=2)}, paid from {event.payer} ({event.tier})"
            )
        case HoldExtended():
            return f"lease/{event.lease}: {hours(event.gpu_ms)} GPU-hours more held"
        case LeaseEnding():
            return f"lease/{event.lease} {lease_stopping(event)}"
        case LeaseEnded():
            return (
                f"lease/{event.lease} {ended(event.reason)}: "
                f"charged up to {time_text(event.end_ms)}"
            )
        case RunStopping():
            return run_stopping(event)
        case RunResized():
            return f"run/{event.run} has a width of {gpus(event.gpus)} from now on"
        case RunRequeued():
            return f"run/{event.run} waits again: {ended(event.reason)}"
        case RunEnded():
            return f"run/{event.run} {event.outcome}{_noted(event.note)}"
        case RequestKept() | TokenIssued() | TokenRevoked():
            return _text_of_requests(event)
        case RoundShared() | StepsCounted():
            return _text_of_rounds(event)
        case _:
            return _text_of_plans(event)


def _text_of_requests(event: RequestKept | TokenIssued | TokenRevoked) -> str:
    match event:
        case RequestKept():
            return f"request/{event.key} carried out by {counted(event.count, 'event')}"
        case TokenIssued():
            whose = ", ".join(part for part in (event.tenant, event.user) if part)
            until = "" if event.expires_ms is None else f", until {time_text(event.expires_ms)}"
            of = f" for {whose}" if whose else ""
            return f"token/{event.token} issued: {event.role}{of}{until}{_noted(event.note)}"
        case TokenRevoked():
            return f"token/{event.token} revoked{_noted(event.note)}"
        case _:
            assert_never(event)


def _text_of_rounds(event: RoundShared | StepsCounted) -> str:
    if isinstance(event, StepsCounted):
        steps = sum(count.steps for count in event.counts)
        runs = counted(len(event.counts), "run")
        return f"pool/{event.pool}: {counted(steps, 'step')} more done by {runs}"
    stay = sum(grant.stays for grant in event.grants)
    return (
        f"pool/{event.pool} begins round {event.number} by {event.policy}: "
        f"{counted(len(event.grants), 'run')} of {len(event.shares)} with GPUs, {stay} on the "
        f"same GPUs as before, until {time_text(event.until_ms)}{_noted(round_text(event))}"
    )


def _text_of_plans(  # noqa: C901, PLR0911, PLR0912 - one line per event, nothing else
    event: LotteryCommitted
    | LotterySealed
    | BackfillNoted
    | LoanRecalled
    | RecallWithdrawn
    | SpareFilled
    | PledgeClosed
    | ReservationMade
    | ReservationMoved
    | ReservationClosed
    | ConflictDeclared
    | ConflictResolved
    | ConflictDeferred
    | ConflictAnnounced
    | ConflictWithdrawn,
) -> str:
    match event:
        case LotteryCommitted():
            return f"lottery: a chain of {event.length} links, {event.commitment}"
        case LotterySealed():
            chain = f"a chain of {event.length} links, {event.commitment}"
            return f"lottery: the secret of {chain}, sealed"
        case BackfillNoted():
            return (
                f"run/{event.run} uses GPUs of reservation/{event.reservation} and has to end by "
                f"{time_text(event.vacate_ms)}"
            )
        case LoanRecalled():
            return (
                f"run/{event.run}: {bundle_words(event.bundle)} recalled by {event.payer} for "
                f"run/{event.waiting_run}; it continues until {time_text(event.due_ms)}"
            )
        case RecallWithdrawn():
            return (
                f"run/{event.run}: {bundle_words(event.bundle)} continues, its recall is withdrawn"
            )
        case SpareFilled():
            return f"lease/{event.lease}, a spare, gives its slots to run/{event.filler}"
        case PledgeClosed():
            return f"spare {event.pledge} is no longer filled"
        case ReservationMade():
            how = "by a conflict" if event.by_conflict else IF_DECLARED
            return (
                f"reservation/{event.reservation}: {gpus(event.slice.gpus)} at "
                f"{time_text(event.planned_start_ms)}, {how}"
            )
        case ReservationMoved():
            when = (
                "without a start"
                if event.planned_start_ms is None
                else f"to {time_text(event.planned_start_ms)}"
            )
            return (
                f"reservation/{event.reservation} {event.status}, {when}: {cause_text(event.cause)}"
            )
        case ReservationClosed():
            return f"reservation/{event.reservation} {event.outcome}"
        case ConflictDeclared():
            return (
                f"conflict/{event.conflict} over {gpus(event.deficit)} of {event.scope.flavor} for "
                f"{event.reservation or event.scope.limit or 'an operator'}: "
                f"{counted(len(event.tokens), 'token')}, due {time_text(event.due_ms)}"
            )
        case ConflictResolved():
            runs = ", ".join(cut.run for cut in event.cuts) or "no run"
            return f"conflict/{event.conflict} {event.outcome}: cut {runs}"
        case ConflictDeferred():
            return (
                f"run/{event.run} may not call a conflict before {time_text(event.covered_ms)}: "
                "its "
                f"owner's disruption account in pool/{event.pool} has "
                f"{hours_text(event.has_gpu_ms)} GPU-hours, and the conflict may cost "
                f"{hours_text(event.costs_gpu_ms, up=True)}"
            )
        case ConflictAnnounced():
            runs = ", ".join(f"{each.run} ({percent(each.ppm, PPM)})" for each in event.runs)
            return (
                f"a conflict for reservation/{event.reservation} is planned for "
                f"{time_text(event.due_ms)} and may end {runs}"
            )
        case ConflictWithdrawn():
            runs = ", ".join(event.runs) or "no run"
            return (
                f"the conflict for reservation/{event.reservation} planned for "
                f"{time_text(event.due_ms)} is cancelled; it could have ended {runs}"
            )
        case _:
            assert_never(event)


def _noted(note: str) -> str:
    """Return a note on one line; notes of older ledgers may contain control characters."""
    return f": {one_line(note)}" if note else ""
