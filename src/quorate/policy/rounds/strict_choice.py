"""Chooses the same rows as the published mechanism, without examining hopeless rows.

A row with a share goes before every row without a share, so rows without a share matter only if
GPUs are left over. With pairs, thousands of rows have no share, and most rounds leave no GPUs over,
so much work is saved. Results that depend only on the allocation and on the present rows are kept
for the next rounds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from quorate.policy.rounds.round_book import Book, Row, Rules, Shares, strict_turn
from quorate.policy.rounds.row_choice import Candidate, is_allocated

_WITHOUT_SHARE: Final = (0.0, 0.0)
"""The turn and the share on a flavor of a row that has no share of the flavor."""


@dataclass(slots=True)
class _Known:
    """The cached results, which are valid until ``shares`` or the rows of ``owed_s`` change."""

    shares: Shares
    owed_s: Mapping[Row, Mapping[str, float]]
    sharing: list[tuple[Row, Mapping[str, float]]] = field(default_factory=list)
    """The rows with shares and their shares, in the order of the book."""
    due: dict[str, list[tuple[Row, float, float]]] = field(default_factory=dict)
    """By flavor, the rows that have a share and can run there, each with its owed seconds and its
    share."""
    others: dict[str, list[Row]] = field(default_factory=dict)
    """By flavor, the rows that have no share but can run there, in the order of owed time, most
    first."""


class StrictChoice:
    """Chooses like ``choose`` among ``candidates``, if the rules have ``forgets_owed``.

    ``sizes`` has the number of GPUs of each job. The values of ``sizes`` and ``can_run`` for a job
    must never change.
    """

    def __init__(
        self, sizes: Mapping[str, int], can_run: Callable[[Row, str], bool], rules: Rules
    ) -> None:
        assert rules.forgets_owed, rules
        assert rules.has_queue_per_flavor, rules
        self._sizes = sizes
        self._can_run = can_run
        self._rules = rules
        self._known: _Known | None = None
        self._runs: dict[str, dict[Row, bool]] = {}

    def choose(
        self, book: Book, gpus_free: Mapping[str, int], order: Sequence[str]
    ) -> dict[str, list[Candidate]]:
        """Return, for each flavor of ``order``, the chosen rows in the order of choice."""
        known = self._known
        if known is None or known.shares is not book.shares or known.owed_s is not book.owed_s:
            shares = book.shares
            sharing = [(row, shares[row]) for row in book.had_s if row in shares]
            known = self._known = _Known(shares, book.owed_s, sharing)
        taken: set[str] = set()
        chosen: dict[str, list[Candidate]] = {}
        for flavor in order:
            picks = _Picks(flavor, gpus_free.get(flavor, 0), taken, self._sizes)
            due = self._due(book, known, flavor) if picks.left else []
            picks.take([row for *_, row in due])
            if picks.left and self._rules.serves_without_share:
                picks.take(self._others(book, known, flavor))
            turns = {row: (turn, share) for turn, _, share, row in due}
            chosen[flavor] = [
                Candidate(
                    row=row,
                    flavor=flavor,
                    gpus=self._sizes[row[0]],
                    priority=turn,
                    deficit_s=book.owed_s[row][flavor],
                    share=share,
                    is_allocated=is_allocated(book, row),
                )
                for row in picks.rows
                for turn, share in (turns.get(row, _WITHOUT_SHARE),)
            ]
        return chosen

    def _due(self, book: Book, known: _Known, flavor: str) -> list[tuple[float, float, float, Row]]:
        """Return rows that have a share of ``flavor`` and can run there, by turn, highest first.

        Each row comes with its turn (see ``priority``), its owed seconds, and its share.
        """
        if flavor not in known.due:
            owed_s, runs = book.owed_s, self._runs_on(flavor)
            known.due[flavor] = [
                (row, owed_s[row][flavor], share)
                for row, shares in known.sharing
                if (share := shares.get(flavor, 0.0)) > 0.0 and runs(row)
            ]
        had_s, given_s = book.had_s, book.given_s[flavor]
        found = [
            (strict_turn(had_s[row][flavor], given_s, share), owed_s, share, row)
            for row, owed_s, share in known.due[flavor]
        ]
        found.sort(key=_rank, reverse=True)
        return found

    def _others(self, book: Book, known: _Known, flavor: str) -> list[Row]:
        """Return rows without a share of ``flavor`` that can run there, most owed time first."""
        if flavor not in known.others:
            runs, owed_s = self._runs_on(flavor), book.owed_s
            lookup = self._runs[flavor].get
            with_share = {row for row, by in known.sharing if by.get(flavor, 0.0) > 0.0}
            # With pairs there are thousands of rows, and the results of most are cached. Reading
            # the cache here avoids a call.
            found = [
                row
                for row in book.had_s
                if row not in with_share
                and (runs(row) if (can_run := lookup(row)) is None else can_run)
            ]
            found.sort(key=lambda row: owed_s[row][flavor], reverse=True)
            known.others[flavor] = found
        return known.others[flavor]

    def _runs_on(self, flavor: str) -> Callable[[Row], bool]:
        """Return a function that returns whether a row runs on ``flavor``.

        The function calls ``can_run`` once for each row.
        """
        known, can_run = self._runs.setdefault(flavor, {}), self._can_run

        def runs(row: Row) -> bool:
            found = known.get(row)
            if found is None:
                found = known[row] = can_run(row, flavor)
            return found

        return runs


def _rank(each: tuple[float, float, float, Row]) -> tuple[float, float, float]:
    return each[:3]


@dataclass(slots=True)
class _Picks:
    """The rows chosen for a flavor; ``taken`` has the jobs chosen so far for any flavor."""

    flavor: str
    left: int
    taken: set[str]
    sizes: Mapping[str, int]
    rows: list[Row] = field(default_factory=list)

    def take(self, queue: Sequence[Row]) -> None:
        """Choose, in their order, the rows of ``queue`` for which enough GPUs are left."""
        taken, sizes, left = self.taken, self.sizes, self.left
        for row in queue:
            gpus = sizes[row[0]]
            if gpus <= left and taken.isdisjoint(row):
                left -= gpus
                taken.update(row)
                self.rows.append(row)
                if not left:
                    break
        self.left = left
