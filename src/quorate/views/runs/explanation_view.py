"""An explanation as lines for people or as a tree. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from quorate.core.accounting.wait_causes import Wait
from quorate.core.admission.quota_holders import Holder, QuotaInTheWay
from quorate.core.commands import Submit
from quorate.core.explain.explanation import Explanation, Remedy
from quorate.core.planning.foresight import Foreseen, PlanState
from quorate.documents.times import time_text
from quorate.model.cause_text import cause_text
from quorate.model.closed_words import counted
from quorate.model.events import ReservationMoved
from quorate.model.refusal import RefusalCode, sentence
from quorate.model.state.records import Phase, ReservationRecord
from quorate.views.kinds.kinds_plans import place_text, reservation_status, shares_text
from quorate.views.refusal_answer import refusal_tree
from quorate.views.runs.conflict_view import ordeal_lines, ordeal_trees
from quorate.views.runs.instant import Moment
from quorate.views.runs.loan_words import loan_lines, loan_trees
from quorate.views.runs.plan_words import exact_tree, plan_tree, start_words
from quorate.views.runs.position_view import standing_lines, standing_tree
from quorate.views.runs.wait_view import SHOWN_MS, wait_text, wait_tree
from quorate.views.word_forms import IF_DECLARED, gpus, refusal_lines, since, until

_LIMITS = {
    RefusalCode.MAX_NODES: ("maxNodes", "node"),
    RefusalCode.MAX_CONCURRENT_RUNS: ("maxConcurrentRuns", "running run"),
}


def explanation_lines(
    found: Explanation,
    now_ms: int,
    prefix: Sequence[str],
    wait: Wait,
    moves: Iterable[ReservationMoved] = (),
) -> list[str]:
    """Return why the run waits, since when, and the commands that would start it.

    ``prefix`` are the options that a command needs to reach the same ledger. A remedy that submits
    a changed copy leaves the run in the queue, so the command that cancels the run is shown too.
    ``wait`` is how long the run has waited in all, and ``moves`` are the moves of its reservation
    since it was made.
    """
    ordeals = ordeal_lines(found.ordeals, now_ms)
    lines = [f"run/{found.run} is {found.phase} since {since(found.since_ms, now_ms)}"]
    if found.phase is not found.recorded_phase:
        lines.append(
            f"  the ledger still has the phase {found.recorded_phase}; record the change: quorate "
            "tick"
        )
    if wait.total_ms >= SHOWN_MS:
        lines.append(f"  it waited {wait_text(wait)}")
    if found.phase is not Phase.PENDING or found.share:
        return [*lines, *_cause_lines(found), *loan_lines(found.loans, now_ms), *ordeals]
    if found.queue_position is not None:
        lines.append(f"  number {found.queue_position} of {found.queue_length} in the queue")
    if found.standing is not None:
        lines += [f"    {line}" for line in standing_lines(found.standing, now_ms)]
    if found.refusal is not None:
        began_ms = now_ms if found.refused_since_ms is None else found.refused_since_ms
        lines.append(f"held since {since(began_ms, now_ms)} by:")
        lines += [f"  {line}" for line in refusal_lines(found.refusal)]
    for quota in found.quotas:
        lines += [f"    {line}" for line in quota_lines(quota)]
    lines += _plan_lines(found, now_ms, moves)
    lines += [*(f"  {line}" for line in loan_lines(found.loans, now_ms)), *ordeals]
    if not found.remedies:
        return [*lines, "none of the single changes that were tried would start it now"]
    lines.append("a dry run showed that each of these starts it now:")
    for remedy in found.remedies:
        lines += remedy_lines(remedy.effect, commands(remedy, prefix))
    return lines


def _plan_lines(found: Explanation, now_ms: int, moves: Iterable[ReservationMoved]) -> list[str]:
    """Return a run's firm start and its history, or else its tentative start and the reason."""
    if found.reservation is not None:
        return promise_lines(found.reservation, now_ms, moves)
    if found.plan is None:
        return []
    start_ms = _start_ms(found.plan)
    if start_ms is None:
        return [f"no planned start: {found.parked}"]
    told = start_words(found.plan.state, start_ms, now_ms)
    more = f"  more: quorate plan {found.run}"
    if found.plan.state is PlanState.NOT_BEFORE and found.plan.long_walk is None:
        more = f"  its start in the present queue: quorate plan {found.run} --exact"
    return [f"it {told}, {IF_DECLARED}", f"  {found.parked}", more]


def _start_ms(plan: Foreseen) -> int | None:
    return None if plan.entry is None else plan.entry.start_ms


def _cause_lines(found: Explanation) -> list[str]:
    """Return why a run has no GPUs in this round; else why it failed, or else its share."""
    if found.refusal is not None:
        return [
            "without GPUs in this round:",
            *(f"  {line}" for line in refusal_lines(found.refusal)),
        ]
    note = f"  because: {found.note}" if found.note else f"  {found.share}"
    return [note] if found.note or found.share else []


def remedy_lines(effect: str, typed: Iterable[Sequence[str]]) -> list[str]:
    """Return the commands of a remedy, in order, and their effect."""
    first, *then = (shlex.join(command) for command in typed)
    return [f"  {first}", *(f"  then: {line}" for line in then), f"      {effect}"]


def promise_lines(
    record: ReservationRecord, now_ms: int, moves: Iterable[ReservationMoved] = ()
) -> list[str]:
    """Return the firm start of a run, and its history."""
    name, made = f"reservation/{record.made.reservation}", record.made
    if record.planned_start_ms is None:
        why = f"{record.status}: {cause_text(record.cause)}"
        lines = [f"no planned start at the moment: {name} is {why}"]
    else:
        how = how_words(by_conflict=record.by_conflict)
        when = until(record.planned_start_ms, now_ms)
        lines = [f"firm start {when}, {how}: {name}, {record.status}"]
        lines.append(
            f"  {gpus(record.slice.gpus)} of {record.slice.flavor}: "
            f"{place_text(record.slice, most=4)}; paid by {shares_text(record.payers)}"
        )
    moves = list(moves)
    if moves:
        first = how_words(by_conflict=made.by_conflict)
        lines.append(
            f"  {time_text(made.at_ms)} made for {time_text(made.planned_start_ms)}, {first}"
        )
    for move in moves:
        when = "none" if move.planned_start_ms is None else time_text(move.planned_start_ms)
        lines.append(
            f"  {time_text(move.at_ms)} moved to {when}, {move.status}: {cause_text(move.cause)}"
        )
    return [*lines, f"  more: quorate plan {made.run}"]


def how_words(*, by_conflict: bool) -> str:
    """Return whether a planned start waits for room, or makes room by a conflict."""
    return "by a conflict, if too few GPUs are free by then" if by_conflict else IF_DECLARED


def commands(remedy: Remedy, prefix: Sequence[str]) -> list[list[str]]:
    """Return the commands of a remedy; if it submits a copy of the run, also a cancel of the run.

    The cancel comes first if the copy needs GPUs or hours that the run's reservation holds.
    """
    program, *rest = remedy.command
    found = [[program, *prefix, *rest]]
    if isinstance(remedy.trial, Submit):
        cancel = [program, *prefix, "cancel", remedy.target_name]
        found.insert(0 if remedy.instead else 1, cancel)
    return found


def explanation_tree(
    found: Explanation, moment: Moment, prefix: Sequence[str], wait: Wait
) -> dict[str, Any]:
    """Return the explanation for programs."""
    refusal = found.refusal
    return {
        "run": found.run,
        "phase": found.phase.value,
        "recordedPhase": found.recorded_phase.value,
        "since": time_text(found.since_ms),
        "wait": wait_tree(wait),
        "queuePosition": found.queue_position,
        "queueLength": found.queue_length,
        "queue": None if found.standing is None else standing_tree(found.standing),
        "refusal": None
        if refusal is None
        else {"message": sentence(refusal), **refusal_tree(refusal)},
        "quotas": [quota_tree(each) for each in found.quotas],
        "refusedSince": None
        if found.refused_since_ms is None
        else time_text(found.refused_since_ms),
        "reservation": None
        if found.reservation is None
        else reservation_status(moment, found.reservation),
        "plan": None
        if found.plan is None
        else {
            **plan_tree(found.plan.state, _start_ms(found.plan), moment.now_ms),
            "why": found.parked or None,
            "exact": exact_tree(found.plan.long_walk),
        },
        "loans": loan_trees(found.loans),
        "conflicts": ordeal_trees(found.ordeals),
        "remedies": remedy_trees(found.remedies, lambda remedy: commands(remedy, prefix)),
    }


def remedy_trees(
    remedies: Iterable[Remedy], typed: Callable[[Remedy], list[list[str]]]
) -> list[dict[str, Any]]:
    """Return remedies for programs; ``typed`` returns the commands of a remedy."""
    return [
        {
            "kind": remedy.kind.value,
            "target": {"kind": remedy.target_kind, "name": remedy.target_name},
            "changes": [{"path": path, "value": value} for path, value in remedy.changes],
            "effect": remedy.effect,
            "commands": typed(remedy),
        }
        for remedy in remedies
    ]


def quota_lines(found: QuotaInTheWay) -> list[str]:
    """Return the limit that blocks a run, the tenant that has the limit, and the use of the limit.

    The largest runs that count against the limit are listed below.
    """
    field, unit = _LIMITS[found.code]
    in_use = f"{counted(found.current, unit)} of {found.limit} in use"
    lines = [f"{field} of tenant {found.tenant}: {in_use}, {found.wanted} more wanted"]
    lines += [f"  {_holder(each)}" for each in found.holders]
    if found.others:
        lines.append(f"  and {counted(found.others, 'more run')}")
    return lines


def _holder(holder: Holder) -> str:
    where = counted(holder.nodes, "node")
    return f"run/{holder.run} of {holder.owner}: {gpus(holder.gpus)} on {where}"


def quota_tree(found: QuotaInTheWay) -> dict[str, Any]:
    """Return the limit and the runs that count against it, for programs."""
    return {
        "code": found.code.value,
        "tenant": found.tenant,
        "current": found.current,
        "wanted": found.wanted,
        "limit": found.limit,
        "holders": [
            {"run": each.run, "owner": each.owner, "nodes": each.nodes, "gpus": each.gpus}
            for each in found.holders
        ],
        "otherHolders": found.others,
    }
