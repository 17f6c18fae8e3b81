"""Positions in the queue as cells, lines and fields: the terms of a score, the runs ahead. Pure."""

from __future__ import annotations

from typing import assert_never

from quorate.core.tenancy.queue_position import Ahead, Because, Standing
from quorate.core.tenancy.share_score import ONE, STEPS, Terms, penalty
from quorate.documents.times import time_text
from quorate.model.closed_words import counted
from quorate.model.state.records import ReportRecord
from quorate.views.kinds.kind import Row, Tree
from quorate.views.numbers import share_number
from quorate.views.table import Column, right, wide
from quorate.views.word_forms import percent, since

AHEAD_MAX = 5
"""How many groups of runs ahead are listed separately, at most."""

_DIGITS = 10_000
_PER_MILLE = 1_000

TERM_COLUMNS: tuple[Column, ...] = (
    right("USED", wide=True),
    right("PENALTY", wide=True),
    right("NOW", wide=True),
    right("LATELY", wide=True),
    right("SHARE", wide=True),
    right("TARGET", wide=True),
    right("UTILISED", wide=True),
    right("EFFECTIVE", wide=True),
    right("STEP", wide=True),
    wide("ELIGIBLE"),
)
"""Columns for the terms of a score, and for the time since which the run could have started.

The score itself has its own column elsewhere.
"""


def term_cells(terms: Terms, eligible_since_ms: int | None) -> Row:
    """Return the cells of ``TERM_COLUMNS``."""
    return (
        used_text(terms.used),
        score_text(terms.penalty),
        percent(terms.instant, ONE),
        percent(terms.decayed, ONE),
        percent(terms.share, ONE),
        percent(terms.target, ONE),
        percent(terms.utilisation, ONE),
        percent(terms.effective, ONE),
        str(terms.step),
        "-" if eligible_since_ms is None else time_text(eligible_since_ms),
    )


def score_text(parts: int) -> str:
    """Return a score or a penalty with four decimals, rounded half up."""
    shown = (2 * parts * _DIGITS + ONE) // (2 * ONE)
    return f"{shown // _DIGITS}.{shown % _DIGITS:04d}"


def score_cell(terms: Terms) -> str:
    """Return the score, with ``over`` if the owner's budget is used up: then its runs come last."""
    return f"{score_text(terms.score)} over" if terms.is_over else score_text(terms.score)


def used_text(used: int | None) -> str:
    """Return the used part of a budget, rounded down, so that 100.0 % means all of it."""
    if used is None:
        return "-"
    tenths = used * _PER_MILLE // ONE
    return f"{tenths // 10}.{tenths % 10} %"


def terms_tree(terms: Terms) -> Tree:
    """Return every term as a number with six decimals; ``budgetUsed`` is null without a budget."""
    return {
        "budgetUsed": None if terms.used is None else share_number(terms.used),
        "overBudget": terms.is_over,
        "penalty": share_number(terms.penalty),
        "instantShare": share_number(terms.instant),
        "decayedShare": share_number(terms.decayed),
        "share": share_number(terms.share),
        "target": share_number(terms.target),
        "utilisation": share_number(terms.utilisation),
        "effectiveTarget": share_number(terms.effective),
        "score": share_number(terms.score),
        "step": terms.step,
    }


def standing_tree(found: Standing) -> Tree:
    """Return a position in the queue for programs."""
    since_ms = found.eligible_since_ms
    return {
        "position": found.position,
        "length": found.length,
        "owner": found.owner,
        "flavor": found.flavor,
        **terms_tree(found.terms),
        "targetStated": found.is_stated,
        "eligibleSince": None if since_ms is None else time_text(since_ms),
        "ahead": [
            {
                "owner": each.owner,
                "flavor": each.flavor,
                "runs": each.runs,
                "because": each.because.value,
                "score": share_number(each.terms.score),
                "step": each.terms.step,
            }
            for each in found.ahead
        ],
    }


def standing_lines(found: Standing, now_ms: int) -> list[str]:
    """Return why a run has its position: budget, share, score, and the runs ahead."""
    return [
        budget_line(found.owner, found.terms.used, found.report),
        _share_line(found),
        _score_line(found, now_ms),
        _ahead_line(found),
    ]


def budget_line(owner: str, used: int | None, report: ReportRecord | None = None) -> str:
    """Return the used part of an owner's budget of hours, and its effect on the owner's score.

    If an accounting system reported the used part, the line names the system.
    """
    if used is None:
        return f"{owner} has no budget of hours (gpuHoursBudget)"
    told = f"{owner} has used {used_text(used)} of its budget"
    if report is not None and report.answers:
        told = f"{told}, as {report.source} reports"
    if used >= ONE:
        return f"{told}: owners within their budgets go first"
    left = penalty(used)
    if left == ONE:
        return f"{told}: its score is not reduced yet"
    return f"{told}: {percent(left, ONE)} of its score is left"


def _share_line(found: Standing) -> str:
    terms = found.terms
    parts = f"{percent(terms.instant, ONE)} now, {percent(terms.decayed, ONE)} lately"
    target = f"its target is {target_text(terms.target, is_stated=found.is_stated)}"
    in_use = f"{percent(terms.utilisation, ONE)} of {found.flavor} is in use"
    if terms.effective == terms.target:
        target += f"; {in_use}"
    else:
        target += f", {percent(terms.effective, ONE)} while only {in_use}"
    return f"it has {percent(terms.share, ONE)} of {found.flavor} ({parts}); {target}"


def target_text(target: int, *, is_stated: bool) -> str:
    """Return a target share, with a remark if no quota states this target."""
    return percent(target, ONE) + ("" if is_stated else " (an equal part)")


def _score_line(found: Standing, now_ms: int) -> str:
    since_ms = found.eligible_since_ms
    waits = (
        "it waits for others" if since_ms is None else f"waiting since {since(since_ms, now_ms)}"
    )
    return f"score {score_text(found.terms.score)}, step {found.terms.step} of {STEPS}; {waits}"


def _ahead_line(found: Standing) -> str:
    if not found.ahead:
        return "no run is ahead of it"
    told = [_ahead(each) for each in found.ahead[:AHEAD_MAX]]
    others = sum(each.runs for each in found.ahead[AHEAD_MAX:])
    if others:
        told.append(f"{others} more")
    return f"ahead of it: {', '.join(told)}"


def _ahead(ahead: Ahead) -> str:
    match ahead.because:
        case Because.WITHIN_BUDGET:
            why = "not over a budget"
        case Because.SCORE:
            why = f"score {score_text(ahead.terms.score)}, step {ahead.terms.step}"
        case Because.WAITS_LONGER:
            why = "waiting longer"
        case Because.SUBMITTED_BEFORE:
            why = "submitted before"
        case _:
            assert_never(ahead.because)
    return f"{counted(ahead.runs, 'run')} of {ahead.owner} ({why})"
