"""Finds the inputs of a ledger: the commands from outside, each with its instant.

All other events follow from these commands, from the work of runs, and from time.
``recorded_work.py`` has the duration of work, so a run that starts earlier in the fork also ends
earlier. A run that was cancelled is cancelled at the same instant in the fork, even if the run has
another phase then.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from msgspec.structs import asdict

from quorate.core.commands import (
    Apply,
    Cancel,
    Command,
    CreateOwner,
    Drain,
    FallBack,
    IssueToken,
    Keyed,
    MarkNode,
    Release,
    Removable,
    Remove,
    RemoveOwner,
    ReportBudget,
    Resolve,
    RevokeToken,
    Shrink,
    Submit,
    Tick,
    UpdateOwner,
)
from quorate.loop.driver import ACTOR as CLOCK_ACTOR
from quorate.loop.driver import EXECUTOR_ACTOR
from quorate.loop.due_work import DRAW_ACTOR, ROUND_ACTOR
from quorate.model import events as e
from quorate.model.specs import Budget, Node, Owner, Pool, System
from quorate.sim.whatif.recorded_claims import RecordedClaims

# Each type of event must be in exactly one of these lists. So a fork cannot overlook the requests
# of a type that is added later.
DECLARED = e.SystemApplied | e.PoolApplied | e.NodeApplied | e.OwnerApplied | e.BudgetApplied
"""Events that record a document (the YAML that a user applied), or a request about an owner."""

REQUESTS = (
    e.BudgetFellBack
    | e.BudgetRemoved
    | e.BudgetReported
    | e.NodeRemoved
    | e.OwnerRemoved
    | e.PoolRemoved
    | e.TokenIssued
    | e.TokenRevoked
)
"""Events that record a request."""

ACTS = (
    e.ConflictDeclared
    | e.LeaseEnding
    | e.NodeMarked
    | e.RunEnded
    | e.RunResized
    | e.RunStopping
    | e.RunSubmitted
)
"""Events that either record a command or follow from other events. The fields of the event, and
the other events of its block, show which."""

FOLLOWING = (
    e.BackfillNoted
    | e.ConflictAnnounced
    | e.ConflictDeferred
    | e.ConflictResolved
    | e.ConflictWithdrawn
    | e.HoldExtended
    | e.LeaseEnded
    | e.LeaseStarted
    | e.LedgerOpened
    | e.LoanRecalled
    | e.LotteryCommitted
    | e.LotterySealed
    | e.NodesClaimed
    | e.NodeWiped
    | e.PledgeClosed
    | e.RecallWithdrawn
    | e.RequestKept
    | e.ReservationClosed
    | e.ReservationMade
    | e.ReservationMoved
    | e.RoundShared
    | e.RunRefused
    | e.RunRequeued
    | e.SpareFilled
    | e.StepsCounted
    | e.ThresholdCrossed
)
"""Events that record no command, but follow from other events, from time, or from the driver.

``recorded_claims.py`` reads ``NodesClaimed``. A ``RequestKept`` has the idempotency key of the
command before it.
"""

_BY_ITSELF = CLOCK_ACTOR, EXECUTOR_ACTOR, ROUND_ACTOR, DRAW_ACTOR
"""The actors of events that a driver causes."""


class CannotForkError(ValueError):
    """The ledger cannot be played again; the message names the event that prevents it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedInput:
    """A command from outside, its instant, its actor, and the number of its first event."""

    at_ms: int
    seq: int
    command: Command
    actor: str


@dataclass(slots=True)
class _Known:
    """The state while blocks are read: the claims, the owners, and the ended runs."""

    claims: RecordedClaims
    owners: set[str]
    over: set[str] = field(default_factory=set)


def inputs_of(
    blocks: Iterable[tuple[int, Sequence[e.Event]]],
    claims: RecordedClaims,
    owners: Iterable[str],
    *,
    has_driver: bool,
) -> list[RecordedInput]:
    """Return the commands that caused the events of ``blocks``, in order.

    Each of ``blocks`` is a pair: the sequence number of the block's first event, and its events.
    ``owners`` has the owners that existed before ``blocks``.

    If a person's block records no known command, the person's command changed nothing, and the
    block has only due work. Such a block becomes a ``Tick``, a command that only does due work. If
    ``has_driver`` is False, only commands cause due work, so every block without a known command
    becomes a ``Tick``.
    """
    found: list[RecordedInput] = []
    known = _Known(claims, set(owners))
    for first_seq, events in blocks:
        theirs = _keyed(list(_of_block(first_seq, events, known)), first_seq, events)
        at_ms, actor = events[0].at_ms, events[0].actor
        is_asked = not has_driver or actor not in _BY_ITSELF
        if not theirs and is_asked and not _is_played(events, claims):
            theirs = [RecordedInput(at_ms=at_ms, seq=first_seq, command=Tick(), actor=actor)]
        found += theirs
    return found


def _of_block(first_seq: int, events: Sequence[e.Event], known: _Known) -> Iterable[RecordedInput]:
    declared: list[DECLARED] = []
    drained = any(
        isinstance(each, e.LeaseEnding | e.LeaseEnded) and each.reason is e.EndReason.DRAINED
        for each in events
    )
    now = {
        each.lease.partition("/")[0]
        for each in events
        if isinstance(each, e.LeaseEnding)
        and each.reason is e.EndReason.CANCELLED
        and each.deadline_ms <= each.at_ms
    }
    for seq, event in enumerate(events, start=first_seq):
        if isinstance(event, DECLARED) and not _is_reasoned(event):
            declared.append(event)
            if isinstance(event, e.OwnerApplied):
                known.owners.add(event.owner.name)
            after = seq - first_seq + 1
            if after < len(events) and _is_with(events[after], event):
                continue
            specs = tuple(_spec_of(each) for each in declared)
            yield RecordedInput(
                at_ms=event.at_ms,
                seq=seq - len(declared) + 1,
                command=Apply(specs),
                actor=event.actor,
            )
            declared = []
            continue
        if isinstance(event, e.OwnerRemoved):
            known.owners.discard(event.owner)
        command = _command_of(event, known, now, drained=drained)
        if command is not None:
            yield RecordedInput(at_ms=event.at_ms, seq=seq, command=command, actor=event.actor)


def _keyed(
    found: list[RecordedInput], first_seq: int, events: Sequence[e.Event]
) -> list[RecordedInput]:
    """Return ``found`` with the idempotency keys of the requests."""
    for seq, event in enumerate(events, start=first_seq):
        if not isinstance(event, e.RequestKept):
            continue
        for number, each in enumerate(found):
            if seq - event.count <= each.seq < seq and not isinstance(each.command, Keyed):
                keyed = Keyed(each.command, event.key, event.digest)
                found[number] = replace(each, command=keyed)
                break
    return found


def _command_of(event: e.Event, known: _Known, now: set[str], *, drained: bool) -> Command | None:
    """Return the command that ``event`` records; None if the event follows from other events."""
    if isinstance(event, FOLLOWING):
        return None
    if isinstance(event, REQUESTS):
        return _request_of(event)
    if isinstance(event, DECLARED):
        return _change_of_owner(event, known.owners)
    return _act_of(event, known.over, now, drained=drained) or _release_of(event, known)


def _request_of(event: REQUESTS) -> Command:  # noqa: PLR0911 - one for each event
    """Return the command that ``event`` records about a token, a removal or a report."""
    match event:
        case e.TokenIssued():
            return IssueToken(
                event.token,
                event.digest,
                event.role,
                event.tenant,
                event.user,
                event.scopes,
                event.expires_ms,
                event.note,
            )
        case e.TokenRevoked():
            return RevokeToken(event.token, event.note)
        case e.OwnerRemoved():
            return RemoveOwner(event.owner, reason=event.reason)
        case e.NodeRemoved():
            return Remove(Removable.NODE, event.node, event.reason)
        case e.PoolRemoved():
            return Remove(Removable.POOL, event.pool, event.reason)
        case e.BudgetRemoved():
            return Remove(Removable.BUDGET, event.budget, event.reason)
        case e.BudgetReported():
            return ReportBudget(event.owner, event.source, event.gpu, event.node, event.resource)
        case e.BudgetFellBack():
            return FallBack(event.owner, event.source, event.note, event.is_linked, event.resource)


def _is_with(event: e.Event, before: DECLARED) -> bool:
    """Return whether the command that made ``before`` also made ``event``."""
    return (
        isinstance(event, DECLARED)
        and not _is_reasoned(event)
        and (event.at_ms, event.actor) == (before.at_ms, before.actor)
    )


def _is_reasoned(event: DECLARED) -> bool:
    """Return whether ``event`` has a reason.

    A request about an owner has a reason; a document has none.
    """
    return isinstance(event, e.OwnerApplied) and bool(event.reason)


def _change_of_owner(event: DECLARED, owners: set[str]) -> Command | None:
    """Return the request that created or changed an owner; None for any other declaration."""
    if not isinstance(event, e.OwnerApplied):
        return None
    spec = event.owner
    if spec.name not in owners:
        owners.add(spec.name)
        return CreateOwner(spec, event.reason)
    quota: tuple[tuple[str, int | None], ...] = tuple(asdict(spec.quota).items())
    return UpdateOwner(spec.name, quota, spec.parents, reason=event.reason)


def _spec_of(event: DECLARED) -> System | Pool | Node | Owner | Budget:
    match event:
        case e.SystemApplied():
            return event.system
        case e.PoolApplied():
            return event.pool
        case e.NodeApplied():
            return event.node
        case e.OwnerApplied():
            return event.owner
        case e.BudgetApplied():
            return event.budget


def _act_of(  # noqa: PLR0911 - one answer per kind of event
    event: ACTS, over: set[str], now: set[str], *, drained: bool
) -> Command | None:
    """Return the command that ``event`` records; None for a release, or if no command caused it.

    ``now`` has the runs of this block that were cancelled without grace. If the command cancels one
    of these runs, the run is removed from ``now``.
    """
    match event:
        case e.RunSubmitted():
            return Submit(event.run)
        case e.RunStopping(outcome=e.Outcome.CANCELLED):
            over.add(event.run)
            is_now = event.run in now
            now.discard(event.run)
            return Cancel(event.run, event.note, now=is_now)
        case e.LeaseEnding() if (run := event.lease.partition("/")[0]) in now:
            now.remove(run)  # The run was already stopping, with its grace.
            return Cancel(run, now=True)
        case e.RunEnded(outcome=e.Outcome.CANCELLED) if event.run not in over:
            return Cancel(event.run, event.note)
        case e.NodeMarked():
            if drained and event.status is e.NodeStatus.CORDONED:
                return Drain(event.node, event.note)
            return MarkNode(event.node, event.status, event.note)
        case e.RunResized():
            return Shrink(event.run, event.gpus)
        case e.ConflictDeclared(cause=e.ConflictCause.BY_HAND, attempt=1):
            scope = event.scope
            cap = scope.limit.removeprefix("cap ")
            return Resolve(scope.pool, scope.flavor, scope.domains, event.deficit, cap)
        case e.RunStopping() | e.LeaseEnding() | e.RunEnded() | e.ConflictDeclared():
            return None


def _release_of(event: ACTS, known: _Known) -> Command | None:
    """Return the release that ``event`` records; None if it records no release."""
    if not isinstance(event, e.RunStopping | e.RunEnded):
        return None
    if event.outcome is not e.Outcome.COMPLETED or event.run in known.over:
        return None
    if event.run not in known.claims.released:
        return None
    known.over.add(event.run)
    return Release(event.run, event.note)


def _is_played(events: Sequence[e.Event], claims: RecordedClaims) -> bool:
    """Return whether the block records ends of work or wipes, which the fork plans itself."""
    ended = e.Outcome.COMPLETED, e.Outcome.FAILED
    runs = [
        each.run
        for each in events
        if isinstance(each, e.RunStopping | e.RunEnded) and each.outcome in ended
    ]
    return any(isinstance(each, e.NodeWiped) for each in events) or any(
        run not in claims.ends_ms for run in runs
    )
