"""Lines of a text table: cells are read by column name, and every fault names the faulty cell."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from quorate.model.amounts import GPUS_MAX
from quorate.sim.traces.trace_job import TraceError

CELL_MAX: Final = 60
"""The most characters of a cell that a fault shows."""
SECONDS_MAX: Final = 1e12
STEPS_MAX: Final = 1e18
_QUOTE_REMEDY: Final = "close or remove the quote; within a cell, write each quote twice"


@dataclass(frozen=True, slots=True)
class Line:
    """A line: its number from 1, and its cells by the names of the columns."""

    number: int
    cells: Mapping[str, str]

    def fault(self, column: str, fault: str, remedy: str) -> TraceError:
        """Return the error about a cell of this line."""
        return TraceError(self.number, column, fault, remedy)

    def text(self, column: str) -> str:
        """Return the text of a cell that must not be empty."""
        found = self.cells.get(column, "").strip()
        if not found:
            raise self.fault(column, "is empty", "fill it in, or remove the line")
        return found

    def number_of(self, column: str, *, least: float = 0.0, most: float = SECONDS_MAX) -> float:
        """Return a number from ``least`` to ``most``."""
        text = self.text(column)
        try:
            found = float(text)
        except ValueError:
            found = math.nan
        if not least <= found <= most:
            raise self.fault(
                column,
                f"must be a number from {least:,.15g} to {most:,.15g}, got {_shown(text)}",
                "correct it, or remove the line",
            )
        return found

    def whole(self, column: str, *, least: int = 0, most: int = 10**15) -> int:
        """Return a whole number from ``least`` to ``most``."""
        found = self.number_of(column, least=least, most=most)
        if found != int(found):
            raise self.fault(column, f"is {self.text(column)}, not a whole number", "round it")
        return int(found)

    def gpus(self, column: str) -> int:
        """Return a number of GPUs, at least 1."""
        return self.whole(column, least=1, most=GPUS_MAX)

    def instant_ms(self, column: str) -> int:
        """Return an instant from a date and time, in UTC unless the cell has another time zone."""
        text = self.text(column)
        try:
            found = datetime.fromisoformat(text)
        except ValueError:
            raise self.fault(
                column, f"is {_shown(text)}, not a date and time", "write it as 2017-10-09 07:01:55"
            ) from None
        if found.tzinfo is None:
            found = found.replace(tzinfo=UTC)
        return round(found.timestamp() * 1_000)


def separated(text: str, mark: str, columns: Sequence[str]) -> Iterator[Line]:
    """Yield the lines of ``text``, which has no header; ``mark`` separates its ``columns``."""
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        cells = line.split(mark)
        if len(cells) != len(columns):
            raise TraceError(
                number,
                "",
                f"has {len(cells)} columns, where {len(columns)} are expected",
                f"the columns are {', '.join(columns)}",
            )
        yield Line(number, dict(zip(columns, cells, strict=True)))


def headed(text: str, mark: str, needed: Sequence[str]) -> Iterator[Line]:
    """Yield the lines after the header of ``text``; raises if a column of ``needed`` is missing."""
    rows = _rows(text, mark)
    header = _header(rows)
    twice = [name for name in header if header.count(name) > 1]
    if twice:
        raise TraceError(1, twice[0], "is in the header twice", "rename or remove one")
    missing = [name for name in needed if name not in header]
    if missing:
        has = f"it has {', '.join(header)}" if any(header) else "the file is empty"
        raise TraceError(1, missing[0], "is missing in the header", f"add it: {has}")
    for number, cells in rows:
        if not any(cell.strip() for cell in cells):
            continue
        if len(cells) != len(header):
            raise TraceError(
                number,
                "",
                f"has {len(cells)} cells, but the header has {len(header)}",
                "quote cells that contain the separator",
            )
        line = Line(number, dict(zip(header, cells, strict=True)))
        for name in needed:
            if "\n" in line.cells[name] or "\r" in line.cells[name]:
                raise line.fault(name, "continues on the next line", _QUOTE_REMEDY)
        yield line


def header_of(text: str, mark: str) -> list[str]:
    """Return the names of the columns in the first line of ``text``; no names if it is empty."""
    return _header(_rows(text, mark))


def _header(rows: Iterator[tuple[int, list[str]]]) -> list[str]:
    _, cells = next(rows, (1, []))
    return [name.strip() for name in cells]


def _rows(text: str, mark: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the number of the first line of each row, and its cells.

    Raises ``TraceError`` for a row that cannot be read. A quoted cell may contain line breaks.
    """
    lines = io.StringIO(text, newline="").readlines()
    reader = csv.reader(lines, delimiter=mark, strict=True)
    header: list[str] = []
    while True:
        first = reader.line_num
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            quote = _bad_quote("".join(lines[first:]), mark)
            if quote is None:
                raise TraceError(first + 1, "", str(error), "shorten or quote it") from None
            breaks, place = quote
            column = header[place].strip() if place < len(header) else str(place + 1)
            raise TraceError(
                first + 1 + breaks, column, "has a quote that is not closed", _QUOTE_REMEDY
            ) from None
        header = header or cells
        yield first + 1, cells


def _bad_quote(text: str, mark: str) -> tuple[int, int] | None:
    """Return the position of the first opening quote in ``text`` that is not closed.

    The position is the number of lines before the quote, and the number of cells before the quote
    in its line. Return None if every quote is closed at the end of its cell.
    """
    breaks = place = at = 0
    while at < len(text):
        if text[at] == '"':
            end = text.find('"', at + 1)
            while text[end + 1 : end + 2] == '"' and end >= 0:
                end = text.find('"', end + 2)
            if end < 0 or text[end + 1 : end + 2] not in ("", mark, "\n", "\r"):
                return breaks, place
            breaks += text.count("\n", at, end)
            at = end + 1
        while at < len(text) and text[at] not in (mark, "\n"):
            at += 1
        is_break = text[at : at + 1] == "\n"
        breaks, place = breaks + is_break, 0 if is_break else place + 1
        at += 1
    return None


def _shown(text: str) -> str:
    return repr(text if len(text) <= CELL_MAX else text[: CELL_MAX - 3] + "...")
