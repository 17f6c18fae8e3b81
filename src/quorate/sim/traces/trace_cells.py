"""One line of a table of text; its cells are read by name, and every fault names its cell."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from quorate.model.amounts import GPUS_MAX
from quorate.sim.traces.trace_job import TraceError

if TYPE_CHECKING:
    from _csv import Reader

CELL_MAX: Final = 60
"""How many characters of a cell a fault shows."""
SECONDS_MAX: Final = 1e12
STEPS_MAX: Final = 1e18


@dataclass(frozen=True, slots=True)
class Line:
    """A line: its number from 1, and its cells by the names of the columns."""

    number: int
    cells: Mapping[str, str]

    def fault(self, column: str, fault: str, remedy: str) -> TraceError:
        """Return the error about a cell of this line."""
        return TraceError(self.number, column, fault, remedy)

    def text(self, column: str) -> str:
        """Return the text of a cell that must have one."""
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
                f"is {_shown(text)}, not a number from {least:g} to {most:g}",
                "write such a number",
            )
        return found

    def whole(self, column: str, *, least: int = 0, most: int = 10**15) -> int:
        """Return a whole number from ``least`` to ``most``."""
        found = self.number_of(column, least=least, most=most)
        if found != int(found):
            raise self.fault(column, f"is {self.text(column)}, not a whole number", "round it")
        return int(found)

    def gpus(self, column: str) -> int:
        """Return a number of GPUs, 1 at least."""
        return self.whole(column, least=1, most=GPUS_MAX)

    def instant_ms(self, column: str) -> int:
        """Return an instant, written as a date and time; UTC unless it has another time zone."""
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
                f"they are {', '.join(columns)}",
            )
        yield Line(number, dict(zip(columns, cells, strict=True)))


def headed(text: str, mark: str, needed: Sequence[str]) -> Iterator[Line]:
    """Yield the lines after the header of ``text``; raises if a column of ``needed`` is missing."""
    reader = csv.reader(text.splitlines(), delimiter=mark)
    header = [name.strip() for name in next(reader, [])]
    twice = [name for name in header if header.count(name) > 1]
    if twice:
        raise TraceError(1, twice[0], "is in the header twice", "rename or remove one")
    missing = [name for name in needed if name not in header]
    if missing:
        has = f"it has {', '.join(header)}" if any(header) else "the file is empty"
        raise TraceError(1, missing[0], "is missing in the header", f"add it: {has}")
    for cells in _cells(reader):
        if not any(cell.strip() for cell in cells):
            continue
        if len(cells) != len(header):
            raise TraceError(
                reader.line_num,
                "",
                f"has {len(cells)} cells, but the header has {len(header)}",
                "quote cells that contain the separator",
            )
        yield Line(reader.line_num, dict(zip(header, cells, strict=True)))


def _cells(reader: Reader) -> Iterator[list[str]]:
    """Yield the cells of each line; a line that the reader cannot read is an error."""
    while True:
        try:
            yield next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise TraceError(reader.line_num, "", str(error), "shorten or quote it") from None


def _shown(text: str) -> str:
    return repr(text if len(text) <= CELL_MAX else text[: CELL_MAX - 3] + "...")
