"""Calendar months in UTC, the periods of statements. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Final

from quorate.model.amounts import DAY_MS, SECOND_MS
from quorate.views.exits import CommandError, Exit

_MONTH: Final = re.compile(r"([0-9]{4})-(0[1-9]|1[0-2])")
_YEARS: Final = range(1970, 2200)
_EPOCH_DAY: Final = date(1970, 1, 1).toordinal()


@dataclass(frozen=True, slots=True)
class Month:
    """A calendar month in UTC."""

    year: int
    month: int

    @property
    def name(self) -> str:
        """The month in the form ``2026-11``."""
        return f"{self.year:04d}-{self.month:02d}"

    @property
    def from_ms(self) -> int:
        """The first instant of the month."""
        return _day_ms(self.year, self.month)

    @property
    def until_ms(self) -> int:
        """The first instant after the month."""
        return _day_ms(self.year + self.month // 12, self.month % 12 + 1)


def _day_ms(year: int, month: int) -> int:
    return (date(year, month, 1).toordinal() - _EPOCH_DAY) * DAY_MS


def month_of(at_ms: int) -> Month:
    """Return the month that contains ``at_ms``."""
    at = datetime.fromtimestamp(at_ms // SECOND_MS, UTC)
    return Month(at.year, at.month)


def month_named(text: str, field: str) -> Month:
    """Return the month written as ``text``; raises ``CommandError``, naming ``field``."""
    found = _MONTH.fullmatch(text)
    if found is None or int(found[1]) not in _YEARS:
        raise CommandError(
            Exit.USAGE, f"{field}: must be a month like 2026-11, from 1970 to 2199, got {text!r}"
        )
    return Month(int(found[1]), int(found[2]))
