"""What came from outside in a ledger, as the commands that were given, each at its instant.

Everything else in a ledger follows from these, from the work of runs, and from time. How long work
takes is in ``recorded_work.py``: a run that starts earlier also ends earlier. A run that was
cancelled is cancelled at the same instant, whatever it does then.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace

from quorate.core.commands import (
    Apply,
    Cancel,
    Command,
    Drain,
    FallBack,
    IssueToken,
    Keyed,
    MarkNode,
    Removable,
    Remove,
    RemoveOwner,
    ReportBudget,
    Resolve,
    RevokeToken,
    Shrink,
    Submit,
    Tick,
)
from quorate.model import events as e
from quorate.model.specs import Budget, Node, Owner, Pool, System

_DECLARED = e.SystemApplied | e.PoolApplied | e.NodeApplied | e.OwnerApplied | e.BudgetApplied


class CannotForkError(ValueError):
    """A ledger that cannot be played again; the message says what is in the way."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedInput:
    """A command from outside, when it was given, by whom, and the sequence of its first event."""

    at_ms: int
    seq: int
    command: Command
    actor: str


def inputs_of(
    blocks: Iterable[tuple[int, Sequence[e.Event]]], *, has_driver: bool
) -> list[RecordedInput]:
    """Return the commands behind ``blocks``, pairs of a first sequence and events, in order.

    Where no driver was at work (``has_driver``), time made nothing happen by itself: a block
    without any other command is a tick that was asked for.
    """
    found: list[RecordedInput] = []
    for first_seq, events in blocks:
        theirs = _keyed(list(_of_block(first_seq, events)), first_seq, events)
        if not theirs and not has_driver and not _ends_work(events):
            at_ms, actor = events[0].at_ms, events[0].actor
            theirs = [RecordedInput(at_ms=at_ms, seq=first_seq, command=Tick(), actor=actor)]
        found += theirs
    return found


def _of_block(first_seq: int, events: Sequence[e.Event]) -> Iterable[RecordedInput]:
    declared: list[_DECLARED] = []
    drained = any(
        isinstance(each, e.LeaseEnding | e.LeaseEnded) and each.reason is e.EndReason.DRAINED
        for each in events
    )
    over: set[str] = set()
    now = {
        each.lease.partition("/")[0]
        for each in events
        if isinstance(each, e.LeaseEnding)
        and each.reason is e.EndReason.CANCELLED
        and each.deadline_ms <= each.at_ms
    }
    for seq, event in enumerate(events, start=first_seq):
        if isinstance(event, _DECLARED):
            declared.append(event)
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
        command = _command_of(event, over, now, drained=drained) or _request_of(event)
        if command is not None:
            yield RecordedInput(at_ms=event.at_ms, seq=seq, command=command, actor=event.actor)


def _keyed(
    found: list[RecordedInput], first_seq: int, events: Sequence[e.Event]
) -> list[RecordedInput]:
    """Return ``found`` with the idempotency keys that their requests were sent with."""
    for seq, event in enumerate(events, start=first_seq):
        if not isinstance(event, e.RequestKept):
            continue
        for number, each in enumerate(found):
            if seq - event.count <= each.seq < seq and not isinstance(each.command, Keyed):
                keyed = Keyed(each.command, event.key, event.digest)
                found[number] = replace(each, command=keyed)
                break
    return found


def _request_of(event: e.Event) -> Command | None:  # noqa: PLR0911 - one for each event
    """Return the command about a token, or a removal or report, that ``event`` is the record of."""
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
        case _:
            return None


def _is_with(event: e.Event, before: _DECLARED) -> bool:
    """Return whether two declarations were made by one command."""
    return isinstance(event, _DECLARED) and (event.at_ms, event.actor) == (
        before.at_ms,
        before.actor,
    )


def _spec_of(event: _DECLARED) -> System | Pool | Node | Owner | Budget:
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


def _command_of(  # noqa: C901, PLR0911 - one answer per kind of event
    event: e.Event, over: set[str], now: Collection[str], *, drained: bool
) -> Command | None:
    """Return the command that ``event`` is the record of; None where it follows from others.

    ``now`` are the runs that were cancelled without grace.
    """
    match event:
        case e.RunSubmitted():
            if event.run.sensitive:
                raise CannotForkError(
                    f"run {event.run.name!r} is a claim; a ledger with claims after the instant "
                    "cannot be forked: choose a later instant"
                )
            return Submit(event.run)
        case e.RunStopping(outcome=e.Outcome.CANCELLED):
            over.add(event.run)
            return Cancel(event.run, event.note, now=event.run in now)
        case e.LeaseEnding() if (run := event.lease.partition("/")[0]) in now and run not in over:
            over.add(run)  # It was stopping already.
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
        case e.RoundShared():
            raise CannotForkError(
                f"pool {event.pool!r} shares in rounds; a ledger with rounds after the instant "
                "cannot be forked: simulate its trace instead"
            )
        case _:
            return None


def _ends_work(events: Sequence[e.Event]) -> bool:
    """Return whether the block is about work that ended, which is played from its length."""
    ended = e.Outcome.COMPLETED, e.Outcome.FAILED
    return any(isinstance(each, e.RunEnded) and each.outcome in ended for each in events)
