"""Events as text: one line each, for the readers of a scenario's trace."""

from __future__ import annotations

from typing import assert_never

from quorate.documents.times import time_text
from quorate.model import events as e
from quorate.model.cause_text import cause_text
from quorate.model.closed_words import counted
from quorate.model.events import Event, lease_gpus
from quorate.model.refusal import sentence


def told(event: Event) -> str:  # noqa: C901, PLR0911, PLR0912 - one line per event, nothing else
    """Return the event as text."""
    match event:
        case e.LedgerOpened():
            return "the ledger was opened"
        case e.LotteryCommitted():
            return f"a lottery of {event.length} draws was committed"
        case e.SystemApplied():
            return "the system's settings were applied"
        case e.PoolApplied():
            return f"pool {event.pool.name} was applied"
        case e.NodeApplied():
            return f"node {event.node.name} was applied: {counted(event.node.gpus, 'GPU')}"
        case e.NodeMarked():
            return f"node {event.node} is {event.status}"
        case e.OwnerApplied():
            return f"owner {event.owner.name} was applied"
        case e.OwnerRemoved():
            return f"owner {event.owner} was removed"
        case e.ThresholdCrossed():
            where = "has used" if event.is_above else "is clearly below"
            return f"owner {event.owner} {where} {event.percent} % of a budget"
        case e.BudgetReported():
            return f"{event.source} told what is left of the budget of owner {event.owner}"
        case e.BudgetFellBack():
            return f"the ledger's own figures count for the budget of owner {event.owner}"
        case e.BudgetApplied():
            return f"budget {event.budget.name} of {event.budget.owner} was applied"
        case e.RunSubmitted():
            return f"run {event.run.name} was submitted: {counted(event.run.gpus, 'GPU')}"
        case e.RunRefused():
            return f"run {event.run} waits: {sentence(event.refusal)}"
        case e.LeaseStarted():
            gpus = counted(lease_gpus(event.slots), "GPU")
            nodes = ", ".join(node for node, _ in event.slots)
            return (
                f"lease {event.lease} started ({event.reason}, {event.role}): {gpus} on {nodes}, "
                f"paid by {event.payer}"
            )
        case e.HoldExtended():
            return f"lease {event.lease} may go on"
        case e.NodesClaimed():
            return (
                f"claim {event.claim} of {event.user} takes {', '.join(event.nodes)} "
                f"until {time_text(event.end_ms)}"
            )
        case e.NodeWiped():
            how = "is wiped" if event.is_clean else "could not be wiped"
            return f"node {event.node} {how} after claim {event.claim}"
        case e.LeaseEnding():
            return (
                f"lease {event.lease} is to stop ({event.reason}) by {time_text(event.deadline_ms)}"
            )
        case e.LeaseEnded():
            return f"lease {event.lease} ended ({event.reason})"
        case e.RunStopping():
            return f"run {event.run} is to stop ({event.reason})"
        case e.RunResized():
            return f"run {event.run} is to work on {counted(event.gpus, 'GPU')}"
        case e.RunRequeued():
            return f"run {event.run} waits again ({event.reason})"
        case e.RunEnded():
            return f"run {event.run} is over: {event.outcome}"
        case e.RequestKept():
            return f"request {event.key} was carried out by {counted(event.count, 'event')}"
        case e.TokenIssued():
            return f"token {event.token} was issued ({event.role})"
        case e.TokenRevoked():
            return f"token {event.token} was revoked"
        case e.RoundShared():
            return (
                f"pool {event.pool} begins round {event.number} ({event.policy}): "
                f"{counted(len(event.grants), 'run')} with GPUs"
            )
        case e.StepsCounted():
            return f"pool {event.pool}: steps of {counted(len(event.counts), 'run')} were counted"
        case _:
            return _told_of_plans(event)


def _told_of_plans(  # noqa: C901, PLR0911, PLR0912 - one line per event, nothing else
    event: e.BackfillNoted
    | e.LoanRecalled
    | e.RecallWithdrawn
    | e.SpareFilled
    | e.PledgeClosed
    | e.ReservationMade
    | e.ReservationMoved
    | e.ReservationClosed
    | e.ConflictDeclared
    | e.ConflictResolved
    | e.ConflictDeferred
    | e.ConflictAnnounced
    | e.ConflictWithdrawn,
) -> str:
    match event:
        case e.BackfillNoted():
            return (
                f"run {event.run} is in front of reservation {event.reservation}, "
                f"until {time_text(event.vacate_ms)}"
            )
        case e.LoanRecalled():
            return (
                f"run {event.run}, bundle {event.bundle}, is recalled by {event.payer} for run "
                f"{event.waiting_run}, due {time_text(event.due_ms)}"
            )
        case e.RecallWithdrawn():
            return f"run {event.run}, bundle {event.bundle}, goes on: its recall is withdrawn"
        case e.SpareFilled():
            return f"run {event.filler} fills the spare {event.lease}"
        case e.PledgeClosed():
            return f"spare {event.pledge} is not filled any more"
        case e.ReservationMade():
            how = ", by a conflict" if event.by_conflict else ""
            return f"run {event.run} is to start at {time_text(event.planned_start_ms)}{how}"
        case e.ReservationMoved():
            start_ms = event.planned_start_ms
            when = "has no start" if start_ms is None else f"moved to {time_text(start_ms)}"
            why = cause_text(event.cause)
            return f"reservation {event.reservation} {when} ({event.status}): {why}"
        case e.ReservationClosed():
            return f"reservation {event.reservation} is {event.outcome}"
        case e.ConflictDeclared():
            return (
                f"conflict {event.conflict} was declared: {counted(event.deficit, 'GPU')} short, "
                f"{counted(len(event.tokens), 'token')}, due {time_text(event.due_ms)}"
            )
        case e.ConflictResolved():
            cut = ", ".join(f"{each.run} ({each.step}, {each.gpus})" for each in event.cuts)
            return f"conflict {event.conflict} is {event.outcome}: cut {cut or 'no run'}"
        case e.ConflictDeferred():
            return (
                f"run {event.run} may call no conflict before {time_text(event.covered_ms)}: its "
                "owner's disruption account does not cover it"
            )
        case e.ConflictAnnounced():
            runs = ", ".join(each.run for each in event.runs)
            return (
                f"a conflict for reservation {event.reservation} is planned for "
                f"{time_text(event.due_ms)} and may end {runs}"
            )
        case e.ConflictWithdrawn():
            return (
                f"the conflict for reservation {event.reservation} planned for "
                f"{time_text(event.due_ms)} is called off"
            )
        case _:
            assert_never(event)
