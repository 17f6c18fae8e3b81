"""The records for the choice of a round: the time that each job had, and the time it is owed.

A round is a period in which every chosen job has GPUs of one flavor. The choice of jobs follows
from the present allocation and from the time that each job has had since this allocation began
(Gavel, section 5). A *row* of the allocation is a job alone, or a pair of jobs that share GPUs. All
data here are immutable values. Times are in seconds since an instant that the caller chooses.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from types import MappingProxyType
from typing import Final, NamedTuple

Row = tuple[str, ...]
"""A row: one job, or the two jobs of a pair in the order of the problem."""
Shares = Mapping[Row, Mapping[str, float]]
"""An allocation: for each row and flavor, the part of time in which the row should have GPUs."""

ROUND_S: Final = 360.0
OWED_ROUNDS_MAX: Final = 20.0
"""The most rounds that a row can be owed when the next allocation begins, so that a long shortage
is not made up all at once."""
AHEAD_ROUNDS_MAX: Final = 1.0
"""The most rounds that a row can be ahead when the next allocation begins. A row that is further
ahead used time that no other job wanted, so the row need not give this time back."""
SHARE_LEAST: Final = 0.02
"""The least share that is used to compute turns; a smaller share is replaced by this one. Otherwise
a row with a tiny share, and with owed time from an earlier allocation, would go before all other
rows."""
DUE_ROUNDS: Final = 0.25
"""A row is due only if it is owed at least this part of a round. Otherwise each of many rows with
small shares would get a whole round in advance, so that an owner would gain by splitting work into
many jobs."""
SLACK_LEAST: Final = 0.05
"""A smaller slack is replaced by this one. Otherwise a row without slack would never let other rows
run."""
STAY_ROUNDS: Final = 4.0
"""A row that has GPUs of a flavor counts as at least this many rounds behind on the flavor. So it
usually keeps its GPUs, because each change of GPUs costs a checkpoint."""

_NONE: Final[Mapping[str, float]] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """The rules of rounds. Each option that is off by default is a defect of Gavel's mechanism.

    The default rules avoid these defects. ``STRICT`` has them, to reproduce published results.

    ``reset_gap_s`` is how old a stale allocation must be before it is replaced. With
    ``has_queue_per_flavor``, jobs are chosen for one flavor after the other. So a job may be chosen
    for the first flavor, and not for the flavor on which it is behind. With
    ``serves_without_share``, unused GPUs go to jobs that have no share of them, or that are not in
    the allocation. With ``forgets_owed``, time owed from earlier allocations only breaks ties. With
    ``charges_gaps``, the time between two rounds counts as work, although nothing ran in it.

    With ``needs_step_per_gpu``, a job with fewer steps left than GPUs fails instead of ending. With
    ``starts_pairs_at_zero``, a new pair goes before all other rows, and is then owed half a round.
    With ``compares_age_to_deadline``, the deadline, an instant, is compared with the time since the
    job's arrival. So jobs that arrive late rarely miss their deadlines. With ``ignores_spread``, a
    job is as fast on several servers as on one. With ``places_by_size``, larger rows are placed
    first, even on GPUs that smaller rows had and would keep. Servers are then filled in order, even
    if this splits a row.
    """

    round_s: float = ROUND_S
    reset_gap_s: float = 0.0
    has_queue_per_flavor: bool = False
    serves_without_share: bool = False
    forgets_owed: bool = False
    charges_gaps: bool = False
    needs_step_per_gpu: bool = False
    starts_pairs_at_zero: bool = False
    compares_age_to_deadline: bool = False
    ignores_spread: bool = False
    places_by_size: bool = False

    @property
    def head_start_s(self) -> float:
        """The time that every row is credited with at the start, so that no row begins at 0."""
        return self.round_s / 2.0


DEFAULT: Final = Rules()
STRICT: Final = Rules(
    reset_gap_s=1920.0,
    has_queue_per_flavor=True,
    serves_without_share=True,
    forgets_owed=True,
    charges_gaps=True,
    needs_step_per_gpu=True,
    starts_pairs_at_zero=True,
    compares_age_to_deadline=True,
    ignores_spread=True,
    places_by_size=True,
)
"""The published mechanism, with its defects."""


class Standing(Enum):
    """The state of a row on a flavor when its turn is computed: has GPUs, is new, or waits."""

    WAITING = 0
    NEW = 1
    STAYING = 2


class Ran(NamedTuple):
    """A row that ran on GPUs of a flavor for ``ran_s``."""

    row: Row
    flavor: str
    ran_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Book:
    """The time that each row had under the present allocation, and is owed from earlier ones.

    Rows are in the order of their arrival. ``had_s`` includes the head start. ``given_s`` is the
    total time of all rows on each flavor. A second in which a row has GPUs counts as one second,
    however many GPUs the row has, because a share is a part of a row's time. ``held`` has the
    flavor that each row had in the last round. ``fresh`` has the rows that have never had GPUs.
    """

    flavors: tuple[str, ...]
    shares: Shares = field(default_factory=dict)
    had_s: Mapping[Row, Mapping[str, float]] = field(default_factory=dict)
    owed_s: Mapping[Row, Mapping[str, float]] = field(default_factory=dict)
    given_s: Mapping[str, float] = field(default_factory=dict)
    held: Mapping[Row, str] = field(default_factory=dict)
    fresh: frozenset[Row] = frozenset()
    since_s: float = 0.0
    is_stale: bool = True


def share_of(shares: Shares, row: Row, flavor: str) -> float:
    """Return the share of ``row`` on ``flavor``; 0 if the row has none."""
    return shares.get(row, _NONE).get(flavor, 0.0)


def joined(book: Book, rows: Iterable[Row], rules: Rules) -> Book:
    """Return the book with ``rows`` added at the end, and with the allocation marked as stale."""
    had, owed = dict(book.had_s), dict(book.owed_s)
    rows = tuple(rows)
    for row in rows:
        late = rules.starts_pairs_at_zero and len(row) > 1
        had[row] = dict.fromkeys(book.flavors, 0.0 if late else rules.head_start_s)
        owed[row] = dict.fromkeys(book.flavors, 0.0)
    return replace(book, had_s=had, owed_s=owed, fresh=book.fresh.union(rows), is_stale=True)


def parted(book: Book, jobs: Iterable[str]) -> Book:
    """Return the book without ``jobs`` and their pairs, with the allocation marked as stale."""
    gone = frozenset(jobs)
    had = {row: by for row, by in book.had_s.items() if gone.isdisjoint(row)}
    owed = {row: by for row, by in book.owed_s.items() if gone.isdisjoint(row)}
    return replace(book, had_s=had, owed_s=owed, is_stale=True)


def credited(book: Book, runs: Sequence[Ran]) -> Book:
    """Return the book after a round of ``runs``; unknown rows only add to the flavors' times."""
    had = dict(book.had_s)
    given = dict(book.given_s)
    for ran in runs:
        given[ran.flavor] = given.get(ran.flavor, 0.0) + ran.ran_s
        if ran.row in had:
            by_flavor = dict(had[ran.row])
            by_flavor[ran.flavor] += ran.ran_s
            had[ran.row] = by_flavor
    held = {ran.row: ran.flavor for ran in runs}
    return replace(book, had_s=had, given_s=given, held=held, fresh=book.fresh.difference(held))


def is_due(book: Book, at_s: float, rules: Rules) -> bool:
    """Return whether a new allocation is due at ``at_s``."""
    # As in the published mechanism, a new allocation is always due if the last one was made at time
    # 0.
    is_old = at_s - book.since_s >= rules.reset_gap_s or book.since_s == 0.0
    return book.is_stale and is_old


def renewed(book: Book, shares: Shares, at_s: float, rules: Rules) -> Book:
    """Return the book after ``shares`` replace the old allocation at ``at_s``.

    The owed time of each row grows by the time that the row should have had under the old
    allocation, minus the time that the row had. Then ``had_s`` starts again. Rows of ``shares``
    that are not in the book are added. A pair that has no share and is owed no time is removed from
    the book.
    """
    fresh = [row for row in shares if row not in book.had_s]
    if fresh:
        book = joined(book, fresh, rules)
    start_s = rules.head_start_s
    untouched = dict.fromkeys(book.flavors, start_s) if rules.forgets_owed else None
    owed: dict[Row, Mapping[str, float]] = {
        row: book.owed_s[row]
        # This row was due no time and had no time. This is true of most of the many pairs.
        if row not in book.shares and had == untouched
        else {flavor: _owed_s(book, row, flavor, at_s, rules) for flavor in book.flavors}
        for row, had in book.had_s.items()
    }
    if not rules.forgets_owed:
        owed = {row: by for row, by in owed.items() if _is_kept(row, by, shares)}
    return Book(
        flavors=book.flavors,
        shares=shares,
        had_s={row: dict.fromkeys(book.flavors, start_s) for row in owed},
        owed_s=owed,
        given_s={flavor: sum([start_s] * len(owed), 0.0) for flavor in book.flavors},
        held=book.held,
        fresh=book.fresh,
        since_s=at_s,
        is_stale=False,
    )


def deficit_s(book: Book, row: Row, flavor: str, at_s: float, rules: Rules) -> float:
    """Return the time that ``row`` is owed on ``flavor`` at ``at_s``, in seconds.

    With ``forgets_owed``, this is only the time owed from earlier allocations, which only breaks
    ties.
    """
    if rules.forgets_owed:
        return book.owed_s[row][flavor]
    return _lag_s(book, row, flavor, at_s, rules)


def priority(book: Book, row: Row, flavor: str, at_s: float, rules: Rules) -> float:
    """Return the turn (``turn_s``) of ``row`` on ``flavor``; 0 without a share of the flavor.

    The row with the highest turn goes first. Under ``STRICT`` rules, the turn is the row's share
    divided by a fraction: the row's part of the time that all rows had on the flavor since the
    allocation began. Earlier time does not count.
    """
    share = share_of(book.shares, row, flavor)
    if share == 0.0:
        return 0.0
    if rules.forgets_owed:
        return strict_turn(book.had_s[row][flavor], book.given_s[flavor], share)
    owed_s = _lag_s(book, row, flavor, at_s, rules)
    standing = Standing.WAITING
    if book.held.get(row) == flavor:
        standing = Standing.STAYING
    elif row in book.fresh:
        standing = Standing.NEW
    return turn_s(owed_s, share, rules.round_s, standing)


def strict_turn(had_s: float, given_s: float, share: float) -> float:
    """Return the turn of a row under ``STRICT`` rules.

    The row had GPUs for ``had_s`` seconds, and all rows together had GPUs for ``given_s`` seconds.
    """
    fraction = had_s / given_s if given_s else 0.0
    return share / fraction if fraction > 0.0 else share * 1e9


def turn_s(owed_s: float, share: float, round_s: float, standing: Standing) -> float:
    """Return how far a row is behind: its owed time divided by its share, to a millisecond.

    The first ``DUE_ROUNDS`` rounds of owed time do not count. Because of this division, a row
    without GPUs is behind by the time that it has waited, whatever its share and its number of
    GPUs. So a large row with a small share also gets its turn (docs/adr/0037-turns.md).

    A row that would keep its GPUs counts as at least ``STAY_ROUNDS`` rounds behind, minus the time
    by which it is ahead. This rule is not used if the row is so far ahead that another round would
    exceed its share by more than one round. A new row counts as behind by at least ``STAY_ROUNDS``
    rounds times its share. If GPUs are so short that other rows are further behind, rows take turns
    in every round. Turns are rounded, so that rows have equal turns if their shares differ only in
    the last digits.
    """
    behind_s = (owed_s - DUE_ROUNDS * round_s) / max(share, SHARE_LEAST)
    least_s = 0.0
    if standing is Standing.NEW:
        least_s = share * STAY_ROUNDS * round_s
    elif standing is Standing.STAYING and owed_s >= -share * round_s:
        least_s = STAY_ROUNDS * round_s
    if least_s:
        behind_s = max(behind_s, min(behind_s, 0.0) + least_s)
    return round(behind_s, 3)


def over_slack(turn: float, shares: Iterable[float]) -> float:
    """Return ``turn`` divided by the row's slack; a turn of 0 or less stays unchanged.

    The slack is the part of the row's time in which the row should have no GPUs. A row can make up
    for a lost round only within its slack. So a row without slack cannot make up for a lost round
    and, if the objective is the end of the last row, decides this end.
    """
    if turn <= 0.0:
        return turn
    return round(turn / max(1.0 - sum(shares), SLACK_LEAST), 3)


def _lag_s(book: Book, row: Row, flavor: str, at_s: float, rules: Rules) -> float:
    received_s = book.had_s[row][flavor] - rules.head_start_s
    due_s = share_of(book.shares, row, flavor) * (at_s - book.since_s)
    return book.owed_s[row][flavor] + (due_s - received_s)


def _owed_s(book: Book, row: Row, flavor: str, at_s: float, rules: Rules) -> float:
    lag_s = _lag_s(book, row, flavor, at_s, rules)
    if rules.forgets_owed:
        return lag_s
    return min(max(lag_s, -AHEAD_ROUNDS_MAX * rules.round_s), OWED_ROUNDS_MAX * rules.round_s)


def _is_kept(row: Row, owed: Mapping[str, float], shares: Shares) -> bool:
    return len(row) == 1 or row in shares or any(owed_s > 0.0 for owed_s in owed.values())
