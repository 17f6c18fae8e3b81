"""The events of a walk over the queue, for decisions that need no walk because no run waits."""

from __future__ import annotations

from quorate.core.commands import Command, Complete, Fail, Submit
from quorate.core.decision_log import DecisionLog
from quorate.core.lifecycle.failure import settle_spares
from quorate.core.lifecycle.follow import fail_followers
from quorate.core.lifecycle.run_phases import complete_run
from quorate.core.lifecycle.settle import settle_holds
from quorate.core.planning.give_out import give_out
from quorate.core.planning.idle_fleet import only_ends, start_alone
from quorate.core.preemption.announcements import announce_conflicts
from quorate.core.tenancy.thresholds import settle_thresholds
from quorate.model.events import Event, Outcome, RunSubmitted
from quorate.model.state.records import Phase
from quorate.model.state.state_view import StateView


def walked_events(
    view: StateView, command: Command, now_ms: int, *, has_executor: bool
) -> tuple[Event, ...] | None:
    """Return the events of ``command`` by a walk if ``decide`` takes a shortcut, otherwise None.

    The result is also None if time alone has made a change due, because this change is recorded
    first.
    """
    log = DecisionLog(view, now_ms=now_ms, actor="test", has_executor=has_executor)
    settle_holds(log)
    settle_thresholds(log)
    if log.events:
        return None
    if isinstance(command, Submit):
        submitted = RunSubmitted(at_ms=log.now_ms, actor="test", run=command.run)
        quick = DecisionLog(view, now_ms=now_ms, actor="test", has_executor=has_executor)
        is_known = command.run.name in view.runs or command.run.sensitive
        if is_known or not start_alone(quick, submitted):
            return None
        log.write(submitted)
    elif isinstance(command, Complete | Fail):
        record = view.runs.get(command.run)
        is_over = command.has_gone or not has_executor
        if record is None or record.phase is not Phase.RUNNING or not is_over:
            return None
        outcome = Outcome.COMPLETED if isinstance(command, Complete) else Outcome.FAILED
        complete_run(log, record, outcome, command.note)
        if not only_ends(log):
            return None
    else:
        return None
    settle_spares(log)
    fail_followers(log)
    give_out(log)
    announce_conflicts(log)
    return tuple(log.events)
