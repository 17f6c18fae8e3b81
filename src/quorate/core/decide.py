"""Decide: (view, command) -> Decision. Pure: time and actor are arguments, chance there is none.

Every command first does what time has made due (holds that ran out), then what was asked, then
tries the runs that wait, because what was asked may have made room for them.
"""

from __future__ import annotations

from typing import assert_never

from quorate.core.commands import Apply, Cancel, Change, Command, Complete, Decision, Submit, Tick
from quorate.core.declare import check_run, declare
from quorate.core.lifecycle import end_run, settle_holds, try_start, try_waiting
from quorate.core.scribe import Scribe
from quorate.model.events import Outcome, RunSubmitted
from quorate.model.records import TERMINAL, Phase
from quorate.model.refusal import Refusal, RefusalCode
from quorate.model.view import StateView


def decide(view: StateView, command: Command, *, now_ms: int, actor: str) -> Decision:
    """Return the events that carry out ``command`` at ``now_ms``, or what forbids it."""
    scribe = Scribe(view, now_ms=now_ms, actor=actor)
    settle_holds(scribe)
    match command:
        case Submit():
            return _submit(scribe, command)
        case Apply():
            decision = declare(scribe, command)
            if not decision.refusals:
                try_waiting(scribe)
            return Decision(
                () if decision.refusals else tuple(scribe.events),
                decision.refusals,
                decision.changes,
                decision.warnings,
            )
        case Complete() | Cancel():
            return _end(scribe, command)
        case Tick():
            try_waiting(scribe)
            return Decision(tuple(scribe.events))
        case _:
            assert_never(command)


def _submit(scribe: Scribe, command: Submit) -> Decision:
    run = command.run
    known = scribe.view.runs.get(run.name)
    if known is not None and known.spec == run:
        # The very same run is there already, as when a command is typed twice.
        if scribe.events:
            try_waiting(scribe)
        return Decision(tuple(scribe.events), changes=(("Run", run.name, Change.UNCHANGED),))
    refusals = check_run(scribe.view, run)
    if refusals:
        return Decision(refusals=tuple(refusals))
    before_ms = scribe.began_ms
    if scribe.events or scribe.view.window_opened(before_ms, scribe.now_ms):
        # What has ended or opened since may be what others wait for, and they waited longer.
        try_waiting(scribe)
    view = scribe.view
    submitted = RunSubmitted(at_ms=scribe.now_ms, actor=scribe.actor, run=run)
    start = Scribe(view, now_ms=scribe.now_ms, actor=scribe.actor)
    try_start(start, run, leases_ever=0, known=None)
    events = (*scribe.events, submitted, *start.events)
    return Decision(events, changes=(("Run", run.name, Change.SUBMITTED),))


def _end(scribe: Scribe, command: Complete | Cancel) -> Decision:
    record = scribe.view.runs.get(command.run)
    if record is None:
        return _refused(
            RefusalCode.UNKNOWN_NAME, f"no run {command.run!r}", "list them: quorate get runs"
        )
    if record.phase in TERMINAL:
        return _refused(
            RefusalCode.NOT_RUNNING, f"run {command.run!r} is already {record.phase}", ""
        )
    if isinstance(command, Complete):
        if record.phase is not Phase.RUNNING:
            return _refused(
                RefusalCode.NOT_RUNNING,
                f"run {command.run!r} is {record.phase} and cannot be completed",
                f"to withdraw it: quorate cancel {command.run}",
            )
        end_run(scribe, record, Outcome.COMPLETED, command.note)
    else:
        end_run(scribe, record, Outcome.CANCELLED, command.note)
    try_waiting(scribe)
    return Decision(tuple(scribe.events))


def _refused(code: RefusalCode, subject: str, remedy: str) -> Decision:
    return Decision(refusals=(Refusal(code=code, subject=subject, remedy=remedy),))
