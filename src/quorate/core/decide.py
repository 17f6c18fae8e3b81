"""Decide: (view, command) -> Decision. A pure function: it reads no clock, and nothing is random.

The time and the actor are arguments. Every decision first carries out the changes that are due,
such as the end of holds that ran out. Then it carries out the command. Finally it tries the waiting
runs, because the command may have made room for them.
"""

from __future__ import annotations

from typing import Final, assert_never

from quorate.core.admission.admit import admit
from quorate.core.admission.hard_quota import HARD, refuses_ever_so
from quorate.core.commands import (
    Apply,
    Cancel,
    CancelTasks,
    Change,
    Command,
    Complete,
    Confirm,
    CreateOwner,
    Decision,
    Drain,
    Draw,
    Fail,
    FallBack,
    Immediate,
    IssueToken,
    Keyed,
    MarkNode,
    NotStarted,
    Release,
    Remove,
    RemoveOwner,
    ReportBudget,
    Reported,
    Resolve,
    RevokeToken,
    SealLottery,
    ShareOut,
    Shrink,
    Submit,
    Tick,
    UpdateOwner,
    Wiped,
)
from quorate.core.decision_log import DecisionLog, GoOn, always
from quorate.core.declare import check_run, declare
from quorate.core.idempotency import kept, repeated
from quorate.core.lifecycle.elastic import shrink_run
from quorate.core.lifecycle.failure import drain_node, mark_node, settle_spares
from quorate.core.lifecycle.follow import fail_followers
from quorate.core.lifecycle.run_phases import complete_run, grant_claim
from quorate.core.lifecycle.sensitive_claims import drain_warnings, release, wiped
from quorate.core.lifecycle.settle import settle_holds
from quorate.core.lifecycle.stops import cancel_run, confirm, is_shared, stop_run
from quorate.core.planning.give_out import give_out, stirs, turned_away
from quorate.core.planning.idle_fleet import only_ends, start_alone
from quorate.core.preemption.announcements import announce_conflicts
from quorate.core.preemption.chain_renewal import seal_chain
from quorate.core.preemption.conflicts import resolve_by_hand, settle_conflict
from quorate.core.removal import remove
from quorate.core.rounds.begin_round import share_out
from quorate.core.tenancy.access_tokens import issue_token, revoke_token
from quorate.core.tenancy.budget_reports import fall_back, report_budget
from quorate.core.tenancy.tenant_commands import change_owner
from quorate.core.tenancy.thresholds import settle_thresholds
from quorate.model.events import (
    EndReason,
    Outcome,
    RunRefused,
    RunSubmitted,
)
from quorate.model.refusal import Refusal, RefusalCode
from quorate.model.specs import OnQuota, Run
from quorate.model.state.records import TERMINAL, Phase, RunRecord
from quorate.model.state.state_view import StateView

_CHANGE_BUDGETS: Final = (
    Apply,
    CreateOwner,
    UpdateOwner,
    RemoveOwner,
    Remove,
    ReportBudget,
    FallBack,
)
"""Commands by which the used part of an owner's budget may cross a threshold at once."""


def decide(  # noqa: PLR0913 - a decision depends on all of these
    view: StateView,
    command: Command,
    *,
    now_ms: int,
    actor: str,
    has_executor: bool = False,
    go_on: GoOn = always,
) -> Decision:
    """Return the events that carry out ``command`` at ``now_ms``, or the refusals that forbid it.

    ``has_executor`` is true if an executor runs the work and confirms each stop. The function
    raises ``DecisionCutError`` if ``go_on`` returns False.
    """
    log = DecisionLog(
        view,
        now_ms=now_ms,
        actor=actor,
        has_executor=has_executor,
        go_on=go_on,
    )
    if not isinstance(command, Keyed):
        return _decide(log, command)
    before = repeated(view, command, log.now_ms)
    if before is not None:
        return before
    return kept(command, _decide(log, command.command), log.now_ms, actor)


def _decide(log: DecisionLog, command: Submit | Immediate) -> Decision:
    _settle(log)
    settle_thresholds(log)
    if isinstance(command, Submit):
        return _submit(log, command)
    decision = _carry_out(log, command)
    if decision.refusals:
        return Decision(refusals=decision.refusals, warnings=decision.warnings)
    if not only_ends(log):
        settle_spares(log)
        fail_followers(log)
        give_out(log)
        announce_conflicts(log)
    if isinstance(command, _CHANGE_BUDGETS):
        settle_thresholds(log)
    if isinstance(command, Apply):
        over = _not_granted(log, decision)
        if over:
            return Decision(refusals=over, warnings=decision.warnings)
    return Decision(tuple(log.events), (), decision.changes, decision.warnings)


def _not_granted(log: DecisionLog, decision: Decision) -> tuple[Refusal, ...]:
    """Return the refusals of claims that were not granted, and of runs that exceed a hard quota.

    A run with ``onQuota: wait`` is not refused.
    """
    view, changes = log.view, decision.changes
    submitted = [view.runs[name] for _, name, change in changes if change is Change.SUBMITTED]
    claims = (record for record in submitted if record.spec.sensitive)
    return (
        tuple(record.refusal for record in claims if record.refusal is not None)
        + tuple(
            over
            for record in submitted
            if record.spec.on_quota is OnQuota.REFUSE
            and record.refusal is not None
            and (over := _waits_for_quota(log, record.spec, record.refusal)) is not None
        )
        + tuple(
            over
            for record in submitted
            if record.spec.rounds is not None
            and record.spec.on_quota is OnQuota.REFUSE
            and (over := refuses_ever_so(view, record.spec)) is not None
        )
    )


def _settle(log: DecisionLog) -> None:
    """Carry out the due changes of holds and of spares, and fail the followers of failed runs.

    If a spare is given up, its payer has more money, so the holds are settled again afterwards.
    """
    while True:
        settle_holds(log)
        if not settle_spares(log):
            break
    fail_followers(log)


def _carry_out(  # noqa: C901, PLR0911, PLR0912 - one case per command
    log: DecisionLog,
    command: Immediate,
) -> Decision:
    """Write the events of ``command`` to ``log``; the returned decision has no events."""
    match command:
        case Apply():
            return declare(log, command)
        case Complete() | Fail() | Cancel() | Shrink() | Release():
            return _change_run(log, command)
        case CancelTasks():
            return _cancel_tasks(log, command)
        case Confirm():
            return _confirm(log, command)
        case NotStarted():
            return _not_started(log, command)
        case Reported():
            return _report(log, command)
        case MarkNode() | Drain() | Wiped():
            if command.node not in log.view.nodes:
                return _refused(
                    RefusalCode.UNKNOWN_NAME,
                    f"there is no node {command.node!r}",
                    "list them: quorate get nodes",
                )
            return _change_node(log, command)
        case CreateOwner() | UpdateOwner() | RemoveOwner():
            return change_owner(log, command)
        case Remove():
            return remove(log, command)
        case IssueToken():
            return issue_token(log, command)
        case RevokeToken():
            return revoke_token(log, command)
        case ReportBudget():
            return report_budget(log, command)
        case FallBack():
            return fall_back(log, command)
        case SealLottery():
            return seal_chain(log, command)
        case Resolve() | Draw() | ShareOut() | Tick():
            return _resolve(log, command)
        case _:
            assert_never(command)


def _change_node(log: DecisionLog, command: MarkNode | Drain | Wiped) -> Decision:
    match command:
        case Drain():
            drain_node(log, command.node, command.note)
            return Decision(warnings=drain_warnings(log.view, command.node))
        case MarkNode():
            mark_node(log, command.node, command.status, command.note)
            return Decision()
        case Wiped():
            node, claim, note = command.node, command.claim, command.note
            refusal = wiped(log, node, claim, note, is_clean=command.is_clean)
            return Decision() if refusal is None else Decision(refusals=(refusal,))


def _report(log: DecisionLog, command: Reported) -> Decision:
    """Write the events of all reports except refused ones."""
    for report in command.reports:
        _carry_out(log, report)
    return Decision()


def _confirm(log: DecisionLog, command: Confirm) -> Decision:
    lease = log.view.leases.get(command.lease)
    # A lease that has ended was confirmed before: a late or repeated confirmation changes nothing.
    if lease is not None and lease.ending is not None:
        confirm(log, lease)
    elif lease is not None:
        return _refused(
            RefusalCode.CONFLICT,
            f"lease {command.lease!r} was not ordered to stop",
            f"end its run: quorate complete {lease.fact.run}",
        )
    return Decision()


def _not_started(log: DecisionLog, command: NotStarted) -> Decision:
    """Write that a run gives its GPUs back and waits again, if it is still running."""
    record = log.view.runs.get(command.run)
    if record is not None and record.phase is Phase.RUNNING and not record.spec.sensitive:
        note = command.note
        stop_run(log, record, EndReason.START_REFUSED, None, note=note, detail=note)
    return Decision()


def _submit(log: DecisionLog, command: Submit) -> Decision:
    run = command.run
    existing = log.view.runs.get(run.name)
    if existing is not None and existing.spec == run:
        # The same run exists already: a user may have typed the command twice. An idempotency key
        # is recorded if it is new, and waiting runs are tried as after any other command.
        give_out(log)
        return Decision(tuple(log.events), changes=(("Run", run.name, Change.UNCHANGED),))
    refusals = check_run(log.view, run)
    if refusals:
        return Decision(refusals=tuple(refusals))
    if log.events or stirs(log):
        # Since the last decision, leases may have ended and windows may have opened. So older runs
        # may be able to start, and are tried first.
        give_out(log)
    submitted = RunSubmitted(at_ms=log.now_ms, actor=log.actor, run=run)
    if run.rounds is not None:
        return _submit_to_rounds(log, submitted)
    if not run.sensitive and start_alone(log, submitted):
        changes = (("Run", run.name, Change.SUBMITTED),)
        return Decision(tuple(log.events), changes=changes)
    return _submit_to_queue(log, submitted)


def _submit_to_queue(log: DecisionLog, submitted: RunSubmitted) -> Decision:
    """Accept a run, and try the queue; the run starts, waits or is refused.

    A claim does not wait: it is granted or refused at once.
    """
    run, view = submitted.run, log.view
    changes = (("Run", run.name, Change.SUBMITTED),)
    refusal = None if run.sensitive else turned_away(log, run)
    if refusal is not None:
        refused = RunRefused(at_ms=log.now_ms, actor=log.actor, run=run.name, refusal=refusal)
        log.write(submitted)
        log.write(refused)
        return Decision(tuple(log.events), changes=changes)
    trial = DecisionLog(view, now_ms=log.now_ms, actor=log.actor, has_executor=log.has_executor)
    trial.write(submitted)
    if run.follow is not None:
        fail_followers(trial)  # An upstream may have failed, and the run's grace may be 0.
    if run.sensitive:
        grant_claim(trial, run)
        refusal = trial.view.runs[run.name].refusal
        if refusal is not None:
            return Decision(refusals=(refusal,))
    if not run.sensitive or view.reservations:
        give_out(trial)  # A claim takes no GPUs of firm starts, so due firm starts still begin.
    record = trial.view.runs[run.name]
    if record.refusal is not None and run.on_quota is OnQuota.REFUSE:
        # A run that waits only for room is refused, too, if it would exceed a quota anyway.
        over = _waits_for_quota(log, run, record.refusal) or refuses_ever_so(view, run)
        if over is not None:
            return Decision(refusals=(over,))
    for event in trial.events:
        log.write(event)
    announce_conflicts(log)
    return Decision(tuple(log.events), changes=changes)


def _waits_for_quota(log: DecisionLog, run: Run, refusal: Refusal) -> Refusal | None:
    """Return the refusal for the hard quota that ``run`` would exceed now; None if there is none.

    ``refusal`` is the reason why the run does not start. If the present work leaves enough of the
    quota for the run, and only planned starts of other runs use up the rest, the result is None,
    and the run waits.
    """
    if refusal.code is not RefusalCode.WAITING_FOR_QUOTA:
        return None
    found = admit(log.view, run, log.now_ms, has_executor=log.has_executor)
    return found if isinstance(found, Refusal) and found.code in HARD else None


def _submit_to_rounds(log: DecisionLog, submitted: RunSubmitted) -> Decision:
    """Accept a run for the next round of its pool; refuse it if it would exceed a quota."""
    run = submitted.run
    over = refuses_ever_so(log.view, run) if run.on_quota is OnQuota.REFUSE else None
    if over is not None:
        return Decision(refusals=(over,))
    log.write(submitted)
    if log.view.reservations:
        give_out(log)  # Since the last decision, firm starts of other pools may have become due.
    return Decision(tuple(log.events), changes=(("Run", run.name, Change.SUBMITTED),))


def _change_run(log: DecisionLog, command: Complete | Fail | Cancel | Shrink | Release) -> Decision:
    """Write the end of a run or a claim, or the shrinking of a run."""
    kind = "claim" if isinstance(command, Release) else "run"
    name = command.claim if isinstance(command, Release) else command.run
    record = log.view.runs.get(name)
    if record is None:
        return _refused(
            RefusalCode.UNKNOWN_NAME,
            f"there is no {kind} {name!r}",
            f"list them: quorate get {kind}s",
        )
    if record.phase in TERMINAL:
        return _when_over(record, command, kind)
    match command:
        case Cancel():
            cancel_run(log, record, command.note, now=command.now)
        case Shrink():
            refusal = shrink_run(log, record, command.gpus)
            return Decision() if refusal is None else Decision(refusals=(refusal,))
        case Release():
            refusal = release(log, record, command.note)
            return Decision() if refusal is None else Decision(refusals=(refusal,))
        case Complete() | Fail():
            return _finished(log, record, command)
        case _:
            assert_never(command)
    return Decision()


def _cancel_tasks(log: DecisionLog, command: CancelTasks) -> Decision:
    """Write the end of every task that is not over; the caller then tries the queue once."""
    records = [log.view.runs[name] for name in command.runs]
    still = [record for record in records if record.phase not in TERMINAL]
    for record in still:
        cancel_run(log, record, command.note, now=command.now)
    if still:
        return Decision()
    return Decision(changes=tuple(("Run", name, Change.UNCHANGED) for name in command.runs))


def _when_over(
    record: RunRecord, command: Complete | Fail | Cancel | Shrink | Release, kind: str
) -> Decision:
    """Return the decision on a command for a run or a claim that is over: no change, or a refusal.

    If the run has already ended in the requested way, the command is no error. A user may have
    typed it twice, or the response to the first command may have been lost.
    """
    is_claim, name = record.spec.sensitive, record.spec.name
    had = {
        Phase.CANCELLED: Cancel,
        Phase.COMPLETED: Release if is_claim else Complete,
        Phase.FAILED: Fail,
    }
    if isinstance(command, had[record.phase]):
        return Decision(changes=((kind.capitalize(), name, Change.UNCHANGED),))
    return _refused(RefusalCode.NOT_RUNNING, f"{kind} {name!r} is already {record.phase}", "")


def _finished(log: DecisionLog, record: RunRecord, command: Complete | Fail) -> Decision:
    if record.spec.sensitive:
        return _refused(
            RefusalCode.CONFLICT,
            f"{command.run!r} is a claim, which lasts until its end, with or without work",
            f"to give its nodes back: quorate release {command.run}",
        )
    if record.phase is not Phase.RUNNING:
        return _refused(
            RefusalCode.NOT_RUNNING,
            f"run {command.run!r} is {record.phase} and cannot be completed",
            f"to withdraw it: quorate cancel {command.run}",
        )
    is_done = isinstance(command, Complete)
    outcome = Outcome.COMPLETED if is_done else Outcome.FAILED
    has_gone = command.has_gone and not is_shared(log.view, record)
    if log.has_executor and not has_gone:
        # Processes of this run, or of the run that shares its GPUs, may still be alive, so the
        # slots are not free.
        reason = EndReason.END if is_done else EndReason.FAIL
        stop_run(log, record, reason, outcome, note=command.note)
    else:
        complete_run(log, record, outcome, command.note)
    return Decision()


def _resolve(log: DecisionLog, command: Resolve | Draw | ShareOut | Tick) -> Decision:
    """Declare or settle a conflict, or begin a round; for a ``Tick``, write nothing."""
    refusal: Refusal | None = None
    if isinstance(command, Resolve):
        refusal = resolve_by_hand(log, command)
    elif isinstance(command, Draw):
        refusal = settle_conflict(log, command)
    elif isinstance(command, ShareOut):
        refusal = share_out(log, command)
    return Decision() if refusal is None else Decision(refusals=(refusal,))


def _refused(code: RefusalCode, subject: str, remedy: str) -> Decision:
    return Decision(refusals=(Refusal(code=code, subject=subject, remedy=remedy),))
