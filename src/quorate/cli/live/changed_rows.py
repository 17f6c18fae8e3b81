"""Finds the rows of a table that have changed since the table was last printed. Pure.

A value that changes with time alone, such as an age, does not count as a change.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from quorate.views.table import GAP, Column

TICKING: Final[Mapping[str, frozenset[str]]] = {
    "owner": frozenset({"NOW", "LATELY", "USED"}),
    "budget": frozenset({"SPENT", "HELD", "FREE"}),
    "envelope": frozenset({"SPENT", "HELD", "FREE", "WINDOW"}),
    "cap": frozenset({"SPENT+HELD"}),
    "run": frozenset({"AGE", "GPU-HOURS", "PLANNED"}),
    "queue": frozenset(
        {
            "WAITING",
            "SCORE",
            "STARTS",
            "SINCE",
            "PLANNED",
            "USED",
            "PENALTY",
            "NOW",
            "LATELY",
            "SHARE",
            "UTILISED",
            "EFFECTIVE",
        }
    ),
    "reservation": frozenset({"COUNTDOWN"}),
    "resolveroutcome": frozenset({"WHEN"}),
    "lease": frozenset({"AGE", "HOLD-ENDS", "HOLD"}),
    "claim": frozenset({"AGE", "UNTIL"}),
    "charge": frozenset({"GPU-HOURS", "GPU-MS"}),
    "system": frozenset({"EVENTS"}),
}
"""Maps a kind to the columns whose changes are ignored.

These columns change with time alone, or with every event.
"""
KEYS: Final[Mapping[str, tuple[str, ...]]] = {
    "queue": ("NAME",),
    "domain": ("DOMAIN", "FLAVOR", "POOL"),
    "charge": ("RUN", "PAID-FROM", "TIER"),
}
"""Maps a kind to the columns that identify a row; for other kinds the first column does so."""


class ChangedRows:
    """The rows of a table of ``kind``, as they were last printed."""

    def __init__(self, kind: str, columns: Sequence[Column], *, show_wide: bool) -> None:
        self._columns = columns
        self._shown = [i for i, column in enumerate(columns) if show_wide or not column.wide]
        titles = [column.title for column in columns]
        keys = KEYS.get(kind, (titles[0],))
        ticking = TICKING.get(kind, frozenset())
        self._keys = [titles.index(title) for title in keys]
        self._steady = [i for i in self._shown if titles[i] not in ticking]
        self._widths = [len(columns[i].title) for i in self._shown]
        self._rows: dict[tuple[str, ...], tuple[str, ...]] | None = None

    def lines(self, rows: Sequence[Sequence[str]]) -> list[str]:
        """Return the lines to print: at first all ``rows`` with a header, later the changed rows.

        A row that no longer exists is reported once.
        """
        before, first = self._rows or {}, self._rows is None
        self._rows = {self._key(row): tuple(row[i] for i in self._steady) for row in rows}
        changed = [row for row in rows if before.get(self._key(row)) != self._rows[self._key(row)]]
        self._widen(changed)
        lines = []
        if first:
            lines.append(self._line([column.title for column in self._columns]))
        lines += map(self._line, changed)
        return lines + [f"{' '.join(key)} is gone" for key in before if key not in self._rows]

    def _key(self, row: Sequence[str]) -> tuple[str, ...]:
        return tuple(row[i] for i in self._keys)

    def _widen(self, rows: Sequence[Sequence[str]]) -> None:
        """Make columns wide enough for ``rows``; they never shrink, so that rows stay aligned."""
        for at, i in enumerate(self._shown):
            self._widths[at] = max([self._widths[at], *(len(row[i]) for row in rows)])

    def _line(self, row: Sequence[str]) -> str:
        cells = [
            row[i].rjust(width) if self._columns[i].right else row[i].ljust(width)
            for i, width in zip(self._shown, self._widths, strict=True)
        ]
        return GAP.join(cells).rstrip()
