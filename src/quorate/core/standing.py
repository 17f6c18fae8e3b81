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
    known: dict[Line, tuple[str, Because | None]] = {}
    for name in queue[:index]:
        other = view.runs[name]
        line = line_of(other)
        if line not in known:
            what, others = scores.worst(line)
            known[line] = what, _terms_because(others, terms)
        what, because = known[line]
        key = (other.spec.owner, what, because or _age_because(view, other, record))
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


def _terms_because(first: Terms, then: Terms) -> Because | None:
    """Return why a run on the terms ``first`` stands ahead; None where terms do not decide it."""
    if first.is_over is not then.is_over:
        return Because.WITHIN_BUDGET
    return Because.SCORE if first.step != then.step else None


def _age_because(view: StateView, first: RunRecord, then: RunRecord) -> Because:
    """Return why ``first`` stands ahead of ``then``, whose terms are as good."""
    since = [eligible_since_ms(view, each) or each.submitted_ms for each in (first, then)]
    return Because.WAITS_LONGER if since[0] != since[1] else Because.SUBMITTED_BEFORE
