"""A forecast as lines for people or as a tree. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from quorate.core.commands import Submit
from quorate.core.explain.explanation import Remedy
from quorate.core.explain.remedies import setting
from quorate.core.explain.start_grounds import Confidence, Danger
from quorate.core.explain.start_plan import Forecast
from quorate.core.planning.foresight import PlanState
from quorate.core.preemption.conflict_preview import Contest
from quorate.documents.times import duration_text, time_or_none, time_text
from quorate.model.amounts import HOLD_QUANTUM_MS
from quorate.model.cause_text import cause_text
from quorate.model.events import Slice
from quorate.model.refusal import Refusal, sentence
from quorate.model.specs import EnvelopeId, Run
from quorate.model.state.records import TERMINAL, Phase
from quorate.views.kinds.kind import Tree
from quorate.views.kinds.kinds_plans import (
    cause_tree,
    place_text,
    place_tree,
    shares_tree,
)
from quorate.views.refusal_answer import refusal_tree
from quorate.views.runs.conflict_view import contest_lines, contest_tree, shares_table
from quorate.views.runs.explanation_view import commands, remedy_lines, remedy_trees
from quorate.views.runs.loan_words import loan_lines, loan_trees
from quorate.views.runs.plan_words import PLAN_WORDS, exact_tree, start_words
from quorate.views.table import indented, pairs
from quorate.views.word_forms import (
    IF_DECLARED,
    gpus,
    names,
    odds_text,
    percent,
    refusal_lines,
    since,
    until,
)

_MEANS = {
    Confidence.CERTAIN: "it waits for no running work",
    Confidence.EXPECTED: IF_DECLARED,
    Confidence.ROUGH: "work that it waits for is overdue",
}
_BY_CONFLICT = "if its owner's disruption account covers the conflict by then"


def forecast_lines(
    found: Forecast, prefix: Sequence[str], *, source: str = "", show_wide: bool = False
) -> list[str]:
    """Return when a run starts, why not now, who pays, what helps, and which runs it may cut.

    ``prefix`` are the options that a command needs to reach the same ledger; ``source`` is the file
    with the run, if it is not submitted yet.
    """
    lines = [_headline(found)]
    if found.phase in TERMINAL:
        return lines
    lines.append(indented(pairs(_facts(found))))
    if found.phase is Phase.PENDING and found.refusal is not None:
        lines.append("not now, because")
        lines += [f"  {line}" for line in refusal_lines(found.refusal)]
    if found.payers:
        lines += ["paid by", indented(shares_table(found.payers))]
        lines += [f"  {line}" for line in loan_lines(found.loans, found.now_ms)]
        lines += [f"  {_closing(found, *each)}" for each in found.closing]
    lines += _danger_lines(found)
    if found.phase is Phase.PENDING:
        lines += _help_lines(found, prefix, source, show_wide=show_wide)
        lines += _cost_lines(found)
    return lines


def _headline(found: Forecast) -> str:
    name, now_ms = f"run/{found.run.name}", found.now_ms
    if found.starts_now:
        is_new = found.recorded_phase is None
        return f"{name} {'would start' if is_new else 'starts'} now" + (
            "" if is_new else "; to start it: quorate tick"
        )
    if found.phase is not Phase.PENDING:
        is_over = found.phase in TERMINAL
        return f"{name} is {found.phase}{'; nothing is planned' if is_over else ''}"
    will = "would wait" if found.recorded_phase is None else "waits"
    if found.plan_state is None and found.start_ms is not None:
        return f"{name} {will}; it could start {until(found.start_ms, now_ms)}"
    state = found.plan_state or PlanState.NONE
    return f"{name} {will}; it {start_words(state, found.start_ms, now_ms)}"


def _facts(found: Forecast) -> list[tuple[str, str]]:
    now_ms = found.now_ms
    facts = [*_plan(found), *_exact(found)]
    if found.phase is Phase.PENDING and found.start_ms is not None:
        facts += _how(found)
    if found.place is not None:
        facts.append(("where", _where(found.place)))
    if found.deficit and found.scope is not None:
        facts.append(("short now", f"{gpus(found.deficit)} of {_where(found.scope)}"))
    if found.expected_end_ms is not None:
        end = until(found.expected_end_ms, now_ms)
        facts.append(("expected end", f"{end}{_least_planned(found.run)}"))
    if found.confidence is not None:
        means = _MEANS[found.confidence]
        if found.by_conflict and found.confidence is Confidence.EXPECTED:
            means = _BY_CONFLICT
        facts.append(("confidence", f"{found.confidence}: {means}"))
    if found.quantiles is not None:
        likely, late = found.quantiles.p50_ms, found.quantiles.p90_ms
        facts.append(("start by", f"{until(likely, now_ms)} (P50); {until(late, now_ms)} (P90)"))
    if found.overdue:
        facts.append(("overdue", names(found.overdue, most=5)))
    facts += (
        ("loans back", f"{until(due_ms, now_ms)}: {payer} has recalled its loan")
        for payer, due_ms in found.returning
    )
    if found.queue_position is not None:
        facts.append(("queue", f"number {found.queue_position} of {found.queue_length}"))
    return facts


def _least_planned(run: Run) -> str:
    """Return why a run is planned for more time than it declared; empty if it is not."""
    declared_ms = run.expected_duration_ms
    if declared_ms is None or declared_ms >= HOLD_QUANTUM_MS:
        return ""
    least = duration_text(HOLD_QUANTUM_MS)
    return f"; {duration_text(declared_ms)} was declared, but at least {least} is planned and held"


def _plan(found: Forecast) -> list[tuple[str, str]]:
    """Return the reservation and its last move; if there is no reservation, the reason for that."""
    words = PLAN_WORDS[found.plan_state or PlanState.NONE]
    if found.parked:
        return [("plan", f"{words}: {found.parked}")]
    if not found.reservation:
        return []
    made = ""
    if found.made_ms is not None and found.recorded_phase is not None:
        made = f", made {since(found.made_ms, found.now_ms)}"
    facts = [("plan", f"{words}: reservation/{found.reservation}, {found.status}{made}")]
    return [*facts, ("moved", cause_text(found.cause))] if found.cause else facts


def _exact(found: Forecast) -> list[tuple[str, str]]:
    """Return the command that computes a start beyond the planning depth; empty if not needed."""
    if found.plan_state is not PlanState.NOT_BEFORE or found.long_walk is not None:
        return []
    asked = "-f FILE --dry-run" if found.recorded_phase is None else found.run.name
    return [("its start", f"in the present queue: quorate plan {asked} --exact")]


def _how(found: Forecast) -> list[tuple[str, str]]:
    """Return how the run starts, with or without a conflict, and when it would start otherwise."""
    if found.run.rounds is not None:
        return [("how", "in the next round, if it is the run's turn then")]
    now_ms, natural_ms, recourse = found.now_ms, found.natural_start_ms, found.recourse
    alone = "no planned start" if natural_ms is None else until(natural_ms, now_ms)
    if found.by_conflict:
        return [
            ("how", "by a conflict: running work is cut if too few GPUs are free by then"),
            ("by itself", alone),
        ]
    facts = [("how", "without a conflict: GPUs or money are expected to be free then")]
    if found.conflict:
        facts = [("how", f"conflict/{found.conflict} frees GPUs; runs that were cut are stopping")]
    elif natural_ms is not None and natural_ms != found.start_ms:
        facts.append(("by itself", alone))
    if recourse is not None and recourse.why_not:
        covered_ms = recourse.covered_ms
        then = "" if covered_ms is None else f"; the account covers it {until(covered_ms, now_ms)}"
        facts.append(("by a conflict", f"no: {recourse.why_not}{then}"))
    elif recourse is not None and recourse.start_ms is not None:
        facts.append(("by a conflict", until(recourse.start_ms, now_ms)))
    return facts


def _where(place: Slice) -> str:
    return f"{place.gpus} {place.flavor}: {place_text(place, most=6)}"


def _closing(found: Forecast, payer: EnvelopeId, at_ms: int) -> str:
    """Return when a payer's window closes, and how long before the run's expected end that is."""
    assert found.expected_end_ms is not None, found
    early = duration_text(found.expected_end_ms - at_ms)
    return (
        f"{payer} pays until {until(at_ms, found.now_ms)}, when its window closes, {early} before "
        "the expected end; if no other budget can pay then, the run is stopped"
    )


def _danger_lines(found: Forecast) -> list[str]:
    if not found.dangers:
        return []
    told = (f"  {until(each.at_ms, found.now_ms)}, {_danger(each)}" for each in found.dangers)
    return ["conflicts that could end it", *told]


def _danger(danger: Danger) -> str:
    asked = f"for reservation/{danger.reservation}" if danger.reservation else "declared by hand"
    which = f"conflict/{danger.conflict} {asked}" if danger.conflict else asked
    if danger.odds is None:
        unless = "" if danger.is_certain else ", unless a draw makes that unnecessary"
        return f"{which}: a part of the run is cut before any draw{unless}"
    first = "a part of it is cut first; " if danger.is_certain else ""
    return (
        f"{which}: {first}drawn first with odds {odds_text(danger.odds)}, "
        f"cut in {percent(danger.cut, danger.draws)} of {danger.draws} dummy draws"
    )


def _help_lines(
    found: Forecast, prefix: Sequence[str], source: str, *, show_wide: bool
) -> list[str]:
    if found.run.rounds is not None:
        return []  # In a pool with rounds, the run gets its turn without a change.
    if not found.remedies:
        return ["what would help: none of the single changes that were tried would start it now"]
    shown = found.remedies if show_wide else found.remedies[:HELP_MAX]
    lines = ["changes that would start it now, each tried by a dry run"]
    for remedy in shown:
        effect = remedy.effect
        if _is_changed(found, remedy):
            effect = effect.replace("the copy starts", "it starts")
        lines += remedy_lines(effect, _commands(found, remedy, prefix, source))
    if len(shown) < len(found.remedies):
        lines.append(f"  and {len(found.remedies) - len(shown)} more with -o wide")
    return lines


HELP_MAX = 4
"""How many remedies are shown, at most, without ``-o wide``."""


def _commands(
    found: Forecast, remedy: Remedy, prefix: Sequence[str], source: str
) -> list[list[str]]:
    """Return the command to type; a run that is not submitted yet is changed, not copied."""
    if _is_changed(found, remedy):
        return [["quorate", *prefix, "submit", "-f", source, *setting(remedy.changes)]]
    return commands(remedy, prefix)


def _is_changed(found: Forecast, remedy: Remedy) -> bool:
    """Return whether the remedy changes the run itself, because it is not submitted yet."""
    return found.recorded_phase is None and isinstance(remedy.trial, Submit)


def _cost_lines(found: Forecast) -> list[str]:
    contest = found.contest
    if contest is None:
        return ["runs that it could end: none"] if found.start_ms is not None else []
    if isinstance(contest, Refusal):
        return [f"runs that it could end: none now: {sentence(contest)}"]
    return [
        "runs that it could end",
        *(indented(line) for line in contest_lines(contest, found.now_ms)),
    ]


def forecast_tree(found: Forecast, prefix: Sequence[str], *, source: str = "") -> Tree:
    """Return the forecast for programs; unknown times are null."""
    start_ms, recourse, contest = found.start_ms, found.recourse, found.contest
    recorded, likely = found.recorded_phase, found.quantiles
    return {
        "run": found.run.name,
        "asOf": time_text(found.now_ms),
        "phase": found.phase.value,
        "recordedPhase": None if recorded is None else recorded.value,
        "startsNow": found.starts_now,
        "queuePosition": found.queue_position,
        "queueLength": found.queue_length,
        "reservation": found.reservation or None,
        "status": None if found.status is None else found.status.value,
        "planState": None if found.plan_state is None else found.plan_state.value,
        "exact": exact_tree(found.long_walk),
        "cause": cause_tree(found.cause),
        "parked": found.parked or None,
        "plannedStart": time_or_none(found.plan_start_ms),
        "naturalStart": time_or_none(found.natural_start_ms),
        "startsInMs": None if start_ms is None else max(0, start_ms - found.now_ms),
        "p50Start": time_or_none(None if likely is None else likely.p50_ms),
        "p90Start": time_or_none(None if likely is None else likely.p90_ms),
        "byConflict": found.by_conflict,
        "conflict": None
        if recourse is None
        else {
            "start": time_or_none(recourse.start_ms),
            "whyNot": recourse.why_not or None,
            "lostGPUMs": recourse.lost_gpu_ms,
            "covered": time_or_none(recourse.covered_ms),
        },
        "confidence": None if found.confidence is None else found.confidence.value,
        "overdue": list(found.overdue),
        "expectedEnd": time_or_none(found.expected_end_ms),
        "slice": None if found.place is None else place_tree(found.place),
        "payers": shares_tree(found.payers),
        "loans": loan_trees(found.loans),
        "returningLoans": [
            {"envelope": payer, "due": time_text(due_ms)} for payer, due_ms in found.returning
        ],
        "closingWindows": [
            {"envelope": payer, "closes": time_text(at_ms)} for payer, at_ms in found.closing
        ],
        "deficit": found.deficit,
        "scope": None if found.scope is None else place_tree(found.scope),
        "refusal": None
        if found.refusal is None
        else {"message": sentence(found.refusal), **refusal_tree(found.refusal)},
        "remedies": remedy_trees(
            found.remedies, lambda remedy: _commands(found, remedy, prefix, source)
        ),
        "contest": _contest_tree(contest),
        "dangers": [_danger_tree(each) for each in found.dangers],
    }


def _contest_tree(contest: Contest | Refusal | None) -> Tree | None:
    if contest is None:
        return None
    if isinstance(contest, Refusal):
        return {"refusal": {"message": sentence(contest), **refusal_tree(contest)}}
    return contest_tree(contest)


def _danger_tree(danger: Danger) -> Tree:
    return {
        "conflict": danger.conflict or None,
        "reservation": danger.reservation or None,
        "at": time_text(danger.at_ms),
        "certain": danger.is_certain,
        "odds": None if danger.odds is None else str(danger.odds),
        "dummyCuts": danger.cut,
        "dummyDraws": danger.draws,
    }
