"""Decide: (view, command) -> Decision. Pure: time and actor are arguments, chance there is none.

Every command first does what time has made due (holds that ran out), then what was asked, then
tries the runs that wait, because what was asked may have made room for them.
"""

from __future__ import annotations

from typing import Final, assert_never

from quorate.core.announce import announce_conflicts
from quorate.core.claims import drain_warnings, release, wiped
from quorate.core.commands import (
    Apply,
    Cancel,
    Change,
    Command,
    Complete,
    Confirm,
    ConfirmAll,
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
    Release,
    RemoveOwner,
    ReportBudget,
    Resolve,
    RevokeToken,
    ShareOut,
    Shrink,
    Submit,
    Tick,
    UpdateOwner,
    Wiped,
)
from quorate.core.conflicts import resolve_by_hand, settle_conflict
from quorate.core.declare import check_run, declare
from quorate.core.elastic import shrink_run
from quorate.core.failure import drain_node, mark_node, settle_spares
from quorate.core.follow import fail_followers
from quorate.core.lifecycle import complete_run, grant_claim
from quorate.core.planning.give_out import give_out, stirs, turned_away
from quorate.core.quota import refuses_ever_so
from quorate.core.reports import fall_back, report_budget
from quorate.core.requests import kept, repeated
from quorate.core.scribe import Scribe
from quorate.core.settle import settle_holds
from quorate.core.share_out import share_out
from quorate.core.stops import confirm, is_shared, stop_run
from quorate.core.tenants import change_owner
from quorate.core.thresholds import settle_thresholds
from quorate.core.tokens import issue_token, revoke_token
from quorate.model.events import (
    EndReason,
    Outcome,
    RunRefused,
    RunSubmitted,
)
from quorate.model.records import TERMINAL, Phase, RunRecord
from quorate.model.refusal import Refusal, RefusalCode
from quorate.model.specs import OnQuota
from quorate.model.view import StateView

_CHANGE_BUDGETS: Final = (Apply, CreateOwner, UpdateOwner, RemoveOwner, ReportBudget, FallBack)
"""What may make owners cross thresholds at once."""


def decide(
    view: StateView, command: Command, *, now_ms: int, actor: str, has_executor: bool = False
) -> Decision:
    """Return the events that carry out ``command`` at ``now_ms``, or what forbids it.

    ``has_executor`` says that somebody runs the work, and confirms when a stop is done.
    """
    scribe = Scribe(view, now_ms=now_ms, actor=actor, has_executor=has_executor)
    if not isinstance(command, Keyed):
        return _decide(scribe, command)
    before = repeated(view, command, scribe.now_ms)
    if before is not None:
        return before
    return kept(command, _decide(scribe, command.command), scribe.now_ms, actor)


def _decide(scribe: Scribe, command: Submit | Immediate) -> Decision:
    _settle(scribe)
    settle_thresholds(scribe)
    if isinstance(command, Submit):
        return _submit(scribe, command)
    decision = _carry_out(scribe, command)
    if decision.refusals:
        return Decision(refusals=decision.refusals, warnings=decision.warnings)
    settle_spares(scribe)
    fail_followers(scribe)
    give_out(scribe)
    announce_conflicts(scribe)
    if isinstance(command, _CHANGE_BUDGETS):
        settle_thresholds(scribe)
    if isinstance(command, Apply):
        over = _not_granted(scribe.view, decision)
        if over:
            return Decision(refusals=over, warnings=decision.warnings)
    return Decision(tuple(scribe.events), (), decision.changes, decision.warnings)


def _not_granted(view: StateView, decision: Decision) -> tuple[Refusal, ...]:
    """Return why claims just asked for were not granted, and the hard quotas that runs are over.

    A run that is content to wait for its quota is not refused.
    """
    changes = decision.changes
    submitted = [view.runs[name] for _, name, change in changes if change is Change.SUBMITTED]
    claims = (record for record in submitted if record.spec.sensitive)
    return (
        tuple(record.refusal for record in claims if record.refusal is not None)
        + tuple(
            record.refusal.also
            for record in submitted
            if record.spec.on_quota is OnQuota.REFUSE
            and record.refusal is not None
            and record.refusal.code is RefusalCode.WAITING_FOR_QUOTA
            and record.refusal.also is not None
        )
        + tuple(
            over
            for record in submitted
            if record.spec.rounds is not None
            and record.spec.on_quota is OnQuota.REFUSE
            and (over := refuses_ever_so(view, record.spec)) is not None
        )
    )


def _settle(scribe: Scribe) -> None:
    """Do what time has made due; a spare that is given up leaves money to those that run dry."""
    while True:
        settle_holds(scribe)
        if not settle_spares(scribe):
            break
    fail_followers(scribe)


def _carry_out(  # noqa: C901, PLR0911 - one answer per command
    scribe: Scribe,
    command: Immediate,
) -> Decision:
    """Write what ``command`` asks for; the decision returned has no events of its own."""
    match command:
        case Apply():
            return declare(scribe, command)
        case Complete() | Fail() | Cancel() | Shrink() | Release():
            return _change_run(scribe, command)
        case Confirm() | ConfirmAll():
            return _confirm(scribe, command)
        case MarkNode() | Drain() | Wiped():
            if command.node not in scribe.view.nodes:
                return _refused(
                    RefusalCode.UNKNOWN_NAME,
                    f"there is no node {command.node!r}",
                    "list them: quorate get nodes",
                )
            return _change_node(scribe, command)
        case CreateOwner() | UpdateOwner() | RemoveOwner():
            return change_owner(scribe, command)
        case IssueToken():
            return issue_token(scribe, command)
        case RevokeToken():
            return revoke_token(scribe, command)
        case ReportBudget():
            return report_budget(scribe, command)
        case FallBack():
            return fall_back(scribe, command)
        case Resolve() | Draw() | ShareOut() | Tick():
            return _resolve(scribe, command)
        case _:
            assert_never(command)


def _change_node(scribe: Scribe, command: MarkNode | Drain | Wiped) -> Decision:
    match command:
        case Drain():
            drain_node(scribe, command.node, command.note)
            return Decision(warnings=drain_warnings(scribe.view, command.node))
        case MarkNode():
            mark_node(scribe, command.node, command.status, command.note)
            return Decision()
        case Wiped():
            node, claim, note = command.node, command.claim, command.note
            refusal = wiped(scribe, node, claim, note, is_clean=command.is_clean)
            return Decision() if refusal is None else Decision(refusals=(refusal,))


def _confirm(scribe: Scribe, command: Confirm | ConfirmAll) -> Decision:
    if isinstance(command, ConfirmAll):
        for name in command.leases:
            known = scribe.view.leases.get(name)
            if known is not None and known.ending is not None:
                confirm(scribe, known)
        return Decision()
    lease = scribe.view.leases.get(command.lease)
    # A lease that has ended was confirmed before: a late or second message changes nothing.
    if lease is not None and lease.ending is not None:
        confirm(scribe, lease)
    elif lease is not None:
        return _refused(
            RefusalCode.CONFLICT,
            f"lease {command.lease!r} was not told to stop",
            f"end its run: quorate complete {lease.fact.run}",
        )
    return Decision()


def _submit(  # noqa: C901, PLR0911 - how a run comes in
    scribe: Scribe, command: Submit
) -> Decision:
    run = command.run
    known = scribe.view.runs.get(run.name)
    if known is not None and known.spec == run:
        # The very same run is there already, as when a command is typed twice. Its key may be new,
        # and is recorded then: what has become possible until now must not be passed over.
        if scribe.events or stirs(scribe):
            give_out(scribe)
        return Decision(tuple(scribe.events), changes=(("Run", run.name, Change.UNCHANGED),))
    refusals = check_run(scribe.view, run)
    if refusals:
        return Decision(refusals=tuple(refusals))
    if scribe.events or stirs(scribe):
        # What has ended or opened since may be what others wait for, and they waited longer.
        give_out(scribe)
    view = scribe.view
    submitted = RunSubmitted(at_ms=scribe.now_ms, actor=scribe.actor, run=run)
    if run.rounds is not None:
        return _submit_to_rounds(scribe, submitted)
    refusal = None if run.sensitive else turned_away(scribe, run)
    if refusal is not None:
        refused = RunRefused(at_ms=scribe.now_ms, actor=scribe.actor, run=run.name, refusal=refusal)
        scribe.write(submitted)
        scribe.write(refused)
        return Decision(tuple(scribe.events), changes=(("Run", run.name, Change.SUBMITTED),))
    trial = Scribe(view, now_ms=scribe.now_ms, actor=scribe.actor, has_executor=scribe.has_executor)
    trial.write(submitted)
    if run.sensitive:
        grant_claim(trial, run)
    else:
        give_out(trial)
    record = trial.view.runs[run.name]
    if record.refusal is not None and run.sensitive:
        return Decision(refusals=(record.refusal,))
    if record.refusal is not None and run.on_quota is OnQuota.REFUSE:
        held = record.refusal.code is RefusalCode.WAITING_FOR_QUOTA
        over = record.refusal.also if held else None
        # What finds no room now would still be over its quota if it did.
        over = over or refuses_ever_so(view, run)
        if over is not None:
            return Decision(refusals=(over,))
    for event in trial.events:
        scribe.write(event)
    announce_conflicts(scribe)
    return Decision(tuple(scribe.events), changes=(("Run", run.name, Change.SUBMITTED),))


def _submit_to_rounds(scribe: Scribe, submitted: RunSubmitted) -> Decision:
    """Accept a run that its pool's next round looks at; what is over a quota now is told so now."""
    run = submitted.run
    over = refuses_ever_so(scribe.view, run) if run.on_quota is OnQuota.REFUSE else None
    if over is not None:
        return Decision(refusals=(over,))
    scribe.write(submitted)
    return Decision(tuple(scribe.events), changes=(("Run", run.name, Change.SUBMITTED),))


def _change_run(scribe: Scribe, command: Complete | Fail | Cancel | Shrink | Release) -> Decision:
    """Write the end of a run or a claim, or its shrinking."""
    kind = "claim" if isinstance(command, Release) else "run"
    name = command.claim if isinstance(command, Release) else command.run
    record = scribe.view.runs.get(name)
    if record is None:
        return _refused(
            RefusalCode.UNKNOWN_NAME, f"no {kind} {name!r}", f"list them: quorate get {kind}s"
        )
    if record.phase in TERMINAL:
        return _when_over(record, command, kind)
    match command:
        case Cancel():
            stop_run(scribe, record, EndReason.CANCELLED, Outcome.CANCELLED, note=command.note)
        case Shrink():
            refusal = shrink_run(scribe, record, command.gpus)
            return Decision() if refusal is None else Decision(refusals=(refusal,))
        case Release():
            refusal = release(scribe, record, command.note)
            return Decision() if refusal is None else Decision(refusals=(refusal,))
        case Complete() | Fail():
            return _finished(scribe, record, command)
        case _:
            assert_never(command)
    return Decision()


def _when_over(
    record: RunRecord, command: Complete | Fail | Cancel | Shrink | Release, kind: str
) -> Decision:
    """Return what ``command`` does to a run or a claim that is over: nothing, or it is refused.

    The end that it has had may be asked for again, as when a command is typed twice, or its answer
    was lost.
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


def _finished(scribe: Scribe, record: RunRecord, command: Complete | Fail) -> Decision:
    if record.spec.sensitive:
        return _refused(
            RefusalCode.CONFLICT,
            f"{command.run!r} is a claim, and held until its end whether anything works there",
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
    has_gone = command.has_gone and not is_shared(scribe.view, record)
    if scribe.has_executor and not has_gone:
        # Its processes, or those of who shares its GPUs, may be there: their slots are not free.
        reason = EndReason.END if is_done else EndReason.FAIL
        stop_run(scribe, record, reason, outcome, note=command.note)
    else:
        complete_run(scribe, record, outcome, command.note)
    return Decision()


def _resolve(scribe: Scribe, command: Resolve | Draw | ShareOut | Tick) -> Decision:
    """Declare or settle a conflict, or begin a round; time alone asks for nothing."""
    refusal: Refusal | None = None
    if isinstance(command, Resolve):
        refusal = resolve_by_hand(scribe, command)
    elif isinstance(command, Draw):
        refusal = settle_conflict(scribe, command)
    elif isinstance(command, ShareOut):
        refusal = share_out(scribe, command)
    return Decision() if refusal is None else Decision(refusals=(refusal,))


def _refused(code: RefusalCode, subject: str, remedy: str) -> Decision:
    return Decision(refusals=(Refusal(code=code, subject=subject, remedy=remedy),))
