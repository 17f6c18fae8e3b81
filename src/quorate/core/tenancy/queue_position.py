"""The position of a waiting run in the queue, and the reasons for this position.

A ``Standing`` has the terms of the owner's score, and says how many runs are ahead for which
reason.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from quorate.core.tenancy.owner_scores import Line, Scores
from quorate.core.tenancy.queue_order import line_of, place_now, queue_order
from quorate.core.tenancy.share_score import Terms
from quorate.model.state.line_ranks import Rank
from quorate.model.state.records import ReportRecord, RunRecord
from quorate.model.state.state_view import StateView
from quorate.model.state.upstreams import eligible_since_ms
from quorate.model.state.waiting_index import Place


class Because(StrEnum):
    """Why a run is ahead of another run: the first criterion in which the two runs differ."""

    WITHIN_BUDGET = "within-budget"
    SCORE = "score"
    WAITS_LONGER = "waits-longer"
    SUBMITTED_BEFORE = "submitted-before"


_Why = tuple[str, str, Because]
"""(owner, flavor, reason) of a set of runs that are ahead of the run in question."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ahead:
    """How many runs of one owner are ahead for one reason, and the terms of the owner's score."""

    owner: str
    flavor: str
    because: Because
    runs: int
    terms: Terms


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """The position of a run in the queue, from 1, and the terms that lead to this position.

    ``terms`` are those of the owner's score in ``flavor``, which decides the rank. ``is_stated`` is
    true if the owner's quota states a target. ``eligible_since_ms`` is when the run was first
    allowed to start; it is None while the run waits for other runs to complete. ``ahead`` is in the
    order of the queue. If the owner is linked to an accounting system, ``report`` is the report of
    this system about the owner's budget.
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


def standing_of(
    view: StateView, run: str, now_ms: int, queue: Callable[[], Sequence[str]] | None = None
) -> Standing:
    """Return the position of ``run`` in the queue of ``view``, and how many runs are ahead and why.

    Usually the runs of a line are counted together, so the length of the line does not matter. But
    if some waiting runs follow other runs, each run ahead is examined separately. A caller that
    already has the ordered list of all waiting runs passes a ``queue`` that returns it.
    """
    scores, record = Scores(view, now_ms), view.runs[run]
    owner, (flavor, terms) = record.spec.owner, scores.worst(line_of(record))
    if view.follower_index.blocked:
        names = queue_order(view, now_ms) if queue is None else queue()
        length, ahead = len(names), _ahead_one_by_one(view, scores, record, names)
    else:
        length, ahead = len(view.pending), _ahead_by_line(view, scores, record)
    spec = view.owners.get(owner)
    return Standing(
        position=sum(ahead.values()) + 1,
        length=length,
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


def _ahead_by_line(view: StateView, scores: Scores, record: RunRecord) -> dict[_Why, int]:
    """Return how many runs are ahead of ``record``, by reason, in the order of the queue."""
    line, place = line_of(record), place_now(view, record)
    _, terms = scores.worst(line)
    mine, since = scores.rank(line), place[:1]
    ranked = list[tuple[Rank, Place, _Why, int]]()
    for (_, owner, flavors), waiting in view.waiting.lines.items():
        rank, places = scores.rank((owner, flavors)), waiting.places
        if rank > mine:
            continue
        what, theirs = scores.worst((owner, flavors))
        why = _because(theirs, terms)
        if why is not None:
            ranked.append((rank, places[0], (owner, what, why), len(places)))
            continue
        longer, before = bisect_left(places, since), bisect_left(places, place)
        if longer:
            ranked.append((rank, places[0], (owner, what, Because.WAITS_LONGER), longer))
        if before > longer:
            why = Because.SUBMITTED_BEFORE
            ranked.append((rank, places[longer], (owner, what, why), before - longer))
    ahead: dict[_Why, int] = {}
    for _, _, key, runs in sorted(ranked, key=lambda each: each[:2]):
        ahead[key] = ahead.get(key, 0) + runs
    return ahead


def _ahead_one_by_one(
    view: StateView, scores: Scores, record: RunRecord, queue: Sequence[str]
) -> dict[_Why, int]:
    """Return the same result as ``_ahead_by_line``, but examine each run of ``queue``."""
    _, terms = scores.worst(line_of(record))
    ahead: dict[_Why, int] = {}
    lines: dict[Line, tuple[str, Because | None]] = {}
    since_ms = eligible_since_ms(view, record) or record.submitted_ms
    for name in queue[: queue.index(record.spec.name)]:
        other = view.runs[name]
        line = line_of(other)
        reason = lines.get(line)
        if reason is None:
            what, theirs = scores.worst(line)
            reason = lines[line] = (what, _because(theirs, terms))
        why = reason[1] or _because_of_time(view, other, since_ms)
        key = (line[0], reason[0], why)
        ahead[key] = ahead.get(key, 0) + 1
    return ahead


def _because(one: Terms, other: Terms) -> Because | None:
    """Return why runs with the terms ``one`` are ahead of runs with the terms ``other``.

    Return None if the terms lead to the same rank.
    """
    if one.is_over is not other.is_over:
        return Because.WITHIN_BUDGET
    return Because.SCORE if one.step != other.step else None


def _because_of_time(view: StateView, first: RunRecord, since_ms: int) -> Because:
    """Return why ``first`` is ahead of a run of equal rank that waits since ``since_ms``."""
    first_ms = eligible_since_ms(view, first) or first.submitted_ms
    return Because.WAITS_LONGER if first_ms != since_ms else Because.SUBMITTED_BEFORE
