"""Chooses the rows that get GPUs in the next round, and their flavors: by priority, greedily."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from quorate.policy.rounds.round_book import Book, Row, Rules, deficit_s, priority, share_of

AHEAD_MIN: Final = 0.01
"""A row is ahead if it had more time than its share, by at least this part of a round."""


class Candidate(NamedTuple):
    """A row that may get GPUs of a flavor in the next round, with its priority.

    ``is_allocated`` is False for rows that are not in the present allocation. Under ``STRICT``
    rules, such rows may be chosen, but get no place. Rows with ``is_ahead`` come after all other
    rows, so that no row gets more than its share before every row has had the time that it is owed.
    """

    row: Row
    flavor: str
    gpus: int
    priority: float
    deficit_s: float
    share: float
    can_run: bool = True
    is_allocated: bool = True
    is_ahead: bool = False

    @property
    def rank(self) -> tuple[bool, float, float, float]:
        """The key by which candidates are ordered; the candidate with the highest key is first."""
        return _rank(self)


def is_ahead(owed_s: float, turn: float, rules: Rules) -> bool:
    """Return whether a row had more than its share, and has no claim to keep its GPUs.

    Under ``STRICT`` rules, return False.
    """
    return not rules.forgets_owed and turn < 0.0 and owed_s < -AHEAD_MIN * rules.round_s


def candidates(
    book: Book,
    gpus: Mapping[str, int],
    can_run: Callable[[Row, str], bool],
    at_s: float,
    rules: Rules,
) -> list[Candidate]:
    """Return a candidate for every flavor and row of ``book``, ordered by flavor, then by arrival.

    ``gpus`` has the number of GPUs of each job. A row that cannot run on a flavor has priority 0
    there.
    """
    rows = [(row, gpus[row[0]], is_allocated(book, row)) for row in book.had_s]
    found = []
    for flavor in book.flavors:
        for row, size, is_known in rows:
            runs, owed_s = can_run(row, flavor), deficit_s(book, row, flavor, at_s, rules)
            turn = priority(book, row, flavor, at_s, rules) if runs else 0.0
            found.append(
                Candidate(
                    row=row,
                    flavor=flavor,
                    gpus=size,
                    priority=turn,
                    deficit_s=owed_s,
                    share=share_of(book.shares, row, flavor),
                    can_run=runs,
                    is_allocated=is_known,
                    is_ahead=is_ahead(owed_s, turn, rules),
                )
            )
    return found


def choose(
    found: Iterable[Candidate],
    gpus_free: Mapping[str, int],
    order: Sequence[str],
    rules: Rules,
    admits: Callable[[Candidate], bool] | None = None,
) -> dict[str, list[Candidate]]:
    """Return, for each flavor of ``order``, the rows that get GPUs of it, in the order of choice.

    The candidate with the highest (priority, deficit, share) goes first. Of equal candidates, the
    one whose flavor is earlier in ``order`` goes first, then the one that is earlier in ``found``.
    A row is chosen if the flavor has enough GPUs left, and if no job of the row is chosen yet. So
    GPUs stay free only if no remaining row with a share of them could use them. A row without a
    share is chosen only if the rules permit this. GPUs of flavors that are not in ``order`` are not
    assigned. ``admits`` is a further condition: it is called for each row that meets all other
    conditions, and the row is chosen if ``admits`` returns True.
    """
    of_flavor: dict[str, list[Candidate]] = {flavor: [] for flavor in order}
    for candidate in found:
        if candidate.flavor in of_flavor:
            of_flavor[candidate.flavor].append(candidate)
    queue = []
    for flavor in order:
        part = of_flavor[flavor]
        if rules.has_queue_per_flavor:
            part = sorted(part, key=_rank, reverse=True)
        queue += part
    if not rules.has_queue_per_flavor:
        queue.sort(key=_rank, reverse=True)

    left = {flavor: gpus_free.get(flavor, 0) for flavor in order}
    taken: set[str] = set()
    chosen: dict[str, list[Candidate]] = {flavor: [] for flavor in order}
    for candidate in queue:
        row, flavor, gpus = candidate.row, candidate.flavor, candidate.gpus
        if gpus > left[flavor] or not taken.isdisjoint(row) or not candidate.can_run:
            continue
        if not (candidate.share > 0.0 or rules.serves_without_share):
            continue
        if admits is not None and not admits(candidate):
            continue
        left[flavor] -= gpus
        taken.update(row)
        chosen[flavor].append(candidate)
    return chosen


def _rank(candidate: Candidate) -> tuple[bool, float, float, float]:
    return (not candidate.is_ahead, candidate.priority, candidate.deficit_s, candidate.share)


def is_allocated(book: Book, row: Row) -> bool:
    """Return whether ``row`` is in the present allocation."""
    # A pair is in the allocation if both of its jobs are, even if the pair has no share.
    return row in book.shares or (len(row) > 1 and all((job,) in book.shares for job in row))
