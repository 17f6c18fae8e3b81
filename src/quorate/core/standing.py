"""Standing: the place of a waiting run in the queue, and why it is that one.

The same terms by which the queue is ordered, and who is ahead for which of its reasons.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from quorate.core.follow import eligible_since_ms
from quorate.core.queue import Line, Scores, line_of
from quorate.core.score import Terms
from quorate.model.records import ReportRecord, RunRecord
from quorate.model.view import StateView


class Because(StrEnum):
    """Why a run stands ahead of another: the first of these that tells the two apart."""

    WITHIN_BUDGET = "within-budget"
    SCORE = "score"
    WAITS_LONGER = "waits-longer"
    SUBMITTED_BEFORE = "submitted-before"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ahead:
    """How many runs of an owner in a flavor stand ahead for one reason, and their terms."""

    owner: str
    flavor: str
    because: Because
    runs: int
    terms: Terms


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """Where a run stands, from 1, with its owner's terms in the one of its flavors that counts.

    ``is_stated`` says that the owner has stated its target; ``eligible_since_ms`` is None while the
    run waits for others to complete. ``ahead`` is in the order of the queue.
    ``report`` is what its accounting system told of the owner's budget, where it is linked to one.
    """

    position: int
    length: int
    owner: str
    flavor: str
    terms: Terms
    is_stated: bool
    eligible_since_ms: int | None
    ahead: tuple[Ahead, ...]
    report: ReportRecord | None


def standing_of(view: StateView, run: str, queue: Sequence[str], now_ms: int) -> Standing:
    """Return where ``run`` stands in ``queue``, which has every waiting run of ``view`` in order.

    Looks at every run ahead of it once.
    """
    scores, record = Scores(view, now_ms), view.runs[run]
    owner, (flavor, terms) = record.spec.owner, scores.worst(line_of(record))
    index = queue.index(run)
    ahead: dict[tuple[str, str, Because], int] = {}
    lines: dict[Line, tuple[str, Because | None]] = {}
    since_ms = eligible_since_ms(view, record) or record.submitted_ms
    for name in queue[:index]:
        other = view.runs[name]
        line = line_of(other)
        known = lines.get(line)
        if known is None:
            what, theirs = scores.worst(line)
            known = lines[line] = (what, _because(theirs, terms))
        why = known[1] or _because_of_time(view, other, since_ms)
        key = (line[0], known[0], why)
        ahead[key] = ahead.get(key, 0) + 1
    spec = view.owners.get(owner)
    return Standing(
        position=index + 1,
        length=len(queue),
        owner=owner,
        flavor=flavor,
        terms=terms,
        is_stated=spec is not None and spec.quota.fair_share_target_ppm is not None,
        eligible_since_ms=eligible_since_ms(view, record),
        ahead=tuple(
            Ahead(owner=who, flavor=what, because=why, runs=runs, terms=scores.of(who, what))
            for (who, what, why), runs in ahead.items()
        ),
        report=view.reports.get(owner),
    )


def _because(one: Terms, other: Terms) -> Because | None:
    """Return why runs with the terms ``one`` stand ahead of others; None where terms do not say."""
    if one.is_over is not other.is_over:
        return Because.WITHIN_BUDGET
    return Because.SCORE if one.step != other.step else None


def _because_of_time(view: StateView, first: RunRecord, since_ms: int) -> Because:
    """Return why ``first`` stands ahead of a run in the same step that waits since ``since_ms``."""
    first_ms = eligible_since_ms(view, first) or first.submitted_ms
    return Because.WAITS_LONGER if first_ms != since_ms else Because.SUBMITTED_BEFORE
