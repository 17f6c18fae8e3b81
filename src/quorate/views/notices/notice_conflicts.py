"""Notices of conflicts: who enters a lottery, who is drawn, who is cut, and why. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from fractions import Fraction
from typing import Any, Final

from quorate.core.preemption.lottery import run_odds, tokens_by_owner
from quorate.documents.times import time_text
from quorate.model.amounts import PPM
from quorate.model.closed_words import counted
from quorate.model.events import (
    ConflictAnnounced,
    ConflictDeclared,
    ConflictOutcome,
    ConflictResolved,
    ConflictWithdrawn,
    Cut,
    CutStep,
    Event,
    LeaseEnding,
)
from quorate.model.notice_kinds import NoticeKind
from quorate.views.kinds.kinds_plans import scope_text
from quorate.views.notices.notice import Known, NoticeContent
from quorate.views.word_forms import gpus, odds_text, percent

RUNS_NAMED_MAX: Final = 8
"""The most runs that the text and the facts of a notice name; the conflict lists all runs."""
_WHY: Final = {
    CutStep.BACKFILL: "it used GPUs that were reserved for another run",
    CutStep.SPARE: "its spares were given up",
    CutStep.SHRINK: "steps above its minimum were released",
    CutStep.BURST: "its owner was above its share",
    CutStep.LOTTERY: "it was drawn in the lottery",
}
_CALLED_OFF: Final = {
    ConflictOutcome.NOT_NEEDED: "no GPUs were missing any more",
    ConflictOutcome.INSUFFICIENT: "all allowed cuts would not have been enough",
    ConflictOutcome.CLEARED: "the cuts before any draw were enough",
}


def conflict_notices(
    numbered: Iterable[tuple[int, Event]], known: Known
) -> Iterator[NoticeContent]:
    """Yield the notices of the conflicts that events announce, declare, settle or withdraw."""
    numbered = list(numbered)
    for seq, event in numbered:
        if isinstance(event, ConflictDeclared):
            yield from _declared(seq, event, known)
        elif isinstance(event, ConflictResolved):
            deadlines_ms = _deadlines_ms(numbered)
            yield from _cuts(seq, event, known, deadlines_ms)
            yield from _won(seq, event, known)
        elif isinstance(event, ConflictAnnounced):
            yield from _announced(seq, event, known)
        elif isinstance(event, ConflictWithdrawn):
            yield from _withdrawn(seq, event, known)


def asked_for(declared: ConflictDeclared) -> str:
    """Return the reservation, limit or operator for which a conflict makes room, as text."""
    if declared.reservation:
        return f"reservation/{declared.reservation}"
    limit = declared.scope.limit
    return f"{limit}, which was lowered below its use" if limit else "an operator"


def _deadlines_ms(numbered: Iterable[tuple[int, Event]]) -> dict[str, int]:
    """Return the deadline of each stopping run; by then it must have saved its work."""
    found: dict[str, int] = {}
    for _, event in numbered:
        if isinstance(event, LeaseEnding):
            run = event.lease.partition("/")[0]
            found[run] = max(found.get(run, 0), event.deadline_ms)
    return found


def _announced(seq: int, event: ConflictAnnounced, known: Known) -> Iterator[NoticeContent]:
    odds = {each.run: each.ppm for each in event.runs}
    for (owner, user), runs in _by_user(odds, known).items():
        named = _named(f"{run} ({percent(odds[run], PPM)})" for run in runs)
        yield NoticeContent(
            seq=seq,
            kind=NoticeKind.CONFLICT_ANNOUNCED,
            owner=owner,
            user=user,
            run=runs[0] if len(runs) == 1 else "",
            text=(
                f"a planned start may end runs of yours at {time_text(event.due_ms)}: work will "
                f"be cut in {scope_text(event.scope)}, as a last resort by a lottery. Your runs, "
                "with how "
                f"often each was cut in dummy draws: {named}. Save your work before then. What "
                f"may end a run: quorate plan {runs[0]}"
            ),
            facts={
                "due": time_text(event.due_ms),
                "pool": event.scope.pool,
                "flavor": event.scope.flavor,
                "domains": list(event.scope.domains),
                "runs": [{"run": run, "oddsPpm": odds[run]} for run in runs[:RUNS_NAMED_MAX]],
                "runsInAll": len(runs),
            },
        )


def _withdrawn(seq: int, event: ConflictWithdrawn, known: Known) -> Iterator[NoticeContent]:
    for (owner, user), runs in _by_user(event.runs, known).items():
        yield NoticeContent(
            seq=seq,
            kind=NoticeKind.CONFLICT_WITHDRAWN,
            owner=owner,
            user=user,
            run=runs[0] if len(runs) == 1 else "",
            text=(
                f"the conflict in {scope_text(event.scope)} that was planned for "
                f"{time_text(event.due_ms)} is cancelled for your runs, which continue: "
                f"{_named(runs)}"
            ),
            facts={
                "due": time_text(event.due_ms),
                "pool": event.scope.pool,
                "flavor": event.scope.flavor,
                "domains": list(event.scope.domains),
                "runs": [{"run": run} for run in runs[:RUNS_NAMED_MAX]],
                "runsInAll": len(runs),
            },
        )


def _by_user(runs: Iterable[str], known: Known) -> dict[tuple[str, str], list[str]]:
    """Return ``runs`` by owner and user, in order; each pair gets one notice."""
    found: dict[tuple[str, str], list[str]] = {}
    for run in sorted(runs):
        spec = known.run(run)
        found.setdefault((spec.owner, spec.user), []).append(run)
    return dict(sorted(found.items()))


def _saving(declared: ConflictDeclared) -> str:
    """Return a sentence that says when the runs of a lottery can save their work.

    If the draw is later, the runs can save until then. If the draw is immediate, each drawn run
    gets its checkpoint time afterwards.
    """
    if declared.due_ms > declared.at_ms:
        return "Save your work before then"
    return "A run that is drawn is stopped, with its checkpoint time to save its work"


def _declared(seq: int, declared: ConflictDeclared, known: Known) -> Iterator[NoticeContent]:
    odds = run_odds(tokens_by_owner(declared))
    for (owner, user), runs in _theirs(declared, known).items():
        named = _named(f"{run} ({odds_text(odds[run])})" for run in runs)
        yield NoticeContent(
            seq=seq,
            kind=NoticeKind.LOTTERY_DECLARED,
            owner=owner,
            user=user,
            run=runs[0] if len(runs) == 1 else "",
            text=(
                f"a lottery may end runs of yours at {time_text(declared.due_ms)}: "
                f"{gpus(declared.short)} of {scope_text(declared.scope)} will still be missing for "
                f"{asked_for(declared)} (conflict/{declared.conflict}). Your runs in it, with "
                f"the odds to be drawn first: {named}; {counted(len(declared.tokens), 'token')} in "
                f"all. {_saving(declared)}. Details: quorate describe resolveroutcome "
                f"{declared.conflict}"
            ),
            facts=_facts(declared)
            | {
                "due": time_text(declared.due_ms),
                "runs": [{"run": run, "odds": str(odds[run])} for run in runs[:RUNS_NAMED_MAX]],
                "runsInAll": len(runs),
            },
        )


def _cuts(
    seq: int, resolved: ConflictResolved, known: Known, deadlines_ms: dict[str, int]
) -> Iterator[NoticeContent]:
    declared = known.conflict(resolved.conflict)
    odds = run_odds(tokens_by_owner(declared))
    by_run: dict[tuple[str, CutStep], list[Cut]] = {}
    for cut in resolved.cuts:
        by_run.setdefault((cut.run, cut.step), []).append(cut)
    for (run, step), cuts in by_run.items():
        spec = known.run(run)
        is_whole = step is not CutStep.SPARE and any(cut.bundle == 0 for cut in cuts)
        lost = sum(cut.gpus for cut in cuts)
        chance = odds.get(run) if step is CutStep.LOTTERY else None
        yield NoticeContent(
            seq=seq,
            kind=NoticeKind.LOTTERY_LOST if step is CutStep.LOTTERY else NoticeKind.RUN_CUT,
            owner=spec.owner,
            user=spec.user,
            run=run,
            text=(
                f"run/{run} was cut by conflict/{declared.conflict} and loses {gpus(lost)}: "
                f"{_WHY[step]} ({step}){_odds(chance, declared)}. The GPUs go to "
                f"{asked_for(declared)}. {_then(run, deadlines_ms.get(run), is_whole, step)}"
                f"{_verify(resolved, step)} Details: quorate describe resolveroutcome "
                f"{declared.conflict}"
            ),
            facts=_facts(declared)
            | {
                "step": step.value,
                "gpus": lost,
                "waitsAgain": is_whole,
                "odds": None if chance is None else str(chance),
                "seed": resolved.seed or None,
                "verify": "quorate lottery verify" if step is CutStep.LOTTERY else None,
            },
        )


def _odds(chance: Fraction | None, declared: ConflictDeclared) -> str:
    if chance is None:
        return ""
    tokens = counted(len(declared.tokens), "token")
    return f", with odds of {odds_text(chance)} to be drawn first of {tokens}"


def _then(run: str, deadline_ms: int | None, is_whole: bool, step: CutStep) -> str:  # noqa: FBT001
    """Return what happens next to a run that was cut."""
    until = "" if deadline_ms is None else f"It has until {time_text(deadline_ms)} to save its work"
    if step is CutStep.SPARE:
        return "Its work continues without them."
    if is_whole:
        waits = f"waits again, in its old place in the queue; when it starts: quorate plan {run}."
        return f"{until}, and {waits}" if until else f"It {waits}"
    return f"{until}, and continues with fewer GPUs." if until else "It continues with fewer GPUs."


def _verify(resolved: ConflictResolved, step: CutStep) -> str:
    if step is not CutStep.LOTTERY:
        return ""
    return f" The seed is {resolved.seed}; check the draw: quorate lottery verify."


def _won(seq: int, resolved: ConflictResolved, known: Known) -> Iterator[NoticeContent]:
    """Yield the notices for runs that entered a lottery and were not cut."""
    declared = known.conflict(resolved.conflict)
    cut = {each.run for each in resolved.cuts}
    spared = {each.run for each in resolved.draws if each.spared}
    why = f"{len(resolved.draws)} of {counted(len(declared.tokens), 'token')} drawn"
    if not resolved.draws:
        why = f"no run was drawn: {_CALLED_OFF[resolved.outcome]}"
    for (owner, user), all_runs in _theirs(declared, known).items():
        runs = [run for run in all_runs if run not in cut]
        if not runs:
            continue
        named = _named(f"{run} (drawn, but not needed)" if run in spared else run for run in runs)
        verify = " Check the draw: quorate lottery verify." if resolved.seed else ""
        yield NoticeContent(
            seq=seq,
            kind=NoticeKind.LOTTERY_WON,
            owner=owner,
            user=user,
            run=runs[0] if len(runs) == 1 else "",
            text=(
                f"the lottery of conflict/{declared.conflict} is over ({why}), and these runs of "
                f"yours continue: {named}.{verify} Details: quorate describe resolveroutcome "
                f"{declared.conflict}"
            ),
            facts=_facts(declared)
            | {
                "outcome": resolved.outcome.value,
                "runs": [{"run": run, "spared": run in spared} for run in runs[:RUNS_NAMED_MAX]],
                "runsInAll": len(runs),
                "seed": resolved.seed or None,
            },
        )


def _theirs(declared: ConflictDeclared, known: Known) -> dict[tuple[str, str], list[str]]:
    """Return the runs that entered a lottery, by owner and user; each pair gets one notice."""
    found: dict[tuple[str, str], list[str]] = {}
    for token in sorted(declared.tokens, key=lambda token: (token.owner, token.run)):
        found.setdefault((token.owner, known.run(token.run).user), []).append(token.run)
    return found


def _named(words: Iterable[str]) -> str:
    listed = list(words)
    more = len(listed) - RUNS_NAMED_MAX
    return ", ".join(listed[:RUNS_NAMED_MAX]) + (f" and {more} more" if more > 0 else "")


def _facts(declared: ConflictDeclared) -> dict[str, Any]:
    return {
        "conflict": declared.conflict,
        "reservation": declared.reservation or None,
        "tokens": len(declared.tokens),
    }
