"""The demo's picture of the fleet: one letter for each GPU, by domain and by owner.

On a terminal the picture is redrawn while the demo waits. If the output is no terminal, the picture
is not redrawn.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from shutil import get_terminal_size
from typing import Any, Final

import click

FREE: Final = "."
LOST: Final = "x"
_COLORS: Final = ("cyan", "magenta", "yellow", "green", "blue")


@dataclass(frozen=True, slots=True)
class Machine:
    """A node: its domain, its flavor, and a letter for each of its GPUs."""

    domain: str
    flavor: str
    cells: str


def machines(
    nodes: Iterable[Any], leases: Iterable[Any], owners: Mapping[str, str]
) -> list[Machine]:
    """Return the nodes with a letter for each GPU, from the trees that ``quorate get`` prints.

    The letter is the first letter of the owner whose run has the GPU: in lower case for a spare,
    else in upper case. ``owners`` maps each run to its owner.
    """
    taken: dict[tuple[str, int], str] = {}
    for lease in leases:
        status = lease["status"]
        letter = owners[status["run"]][0]
        for part in status["slots"]:
            for slot in part["slots"]:
                is_spare = status["role"] == "Spare"
                taken[part["node"], slot] = letter if is_spare else letter.upper()
    found = []
    for node in nodes:
        name, gpus, status = node["metadata"]["name"], node["spec"]["gpus"], node["status"]
        empty = LOST if status["status"] == "Failed" else FREE
        cells = "".join(taken.get((name, slot), empty) for slot in range(gpus))
        found.append(Machine(status["domain"], node["spec"]["flavor"], cells))
    return found


def bars(fleet: Sequence[Machine], owners: Iterable[str], *, color: bool = False) -> list[str]:
    """Return a line for each domain: its nodes, and the number of GPUs of each owner there."""
    names = sorted(set(owners))
    domains = {machine.domain: machine.flavor for machine in fleet}
    cells = {
        domain: [machine.cells for machine in fleet if machine.domain == domain]
        for domain in domains
    }
    width = max((len(" ".join(here)) for here in cells.values()), default=0)
    lines = []
    for domain in sorted(domains):
        bar, pad = " ".join(cells[domain]), " " * (width - len(" ".join(cells[domain])))
        shown = _colored(bar, names) if color else bar
        words = ", ".join(_words(Counter(bar), names))
        lines.append(f"  {domain:<13} {domains[domain]} [{shown}]{pad} {words}")
    return lines


def _words(count: Counter[str], names: Sequence[str]) -> Iterator[str]:
    """Yield how many GPUs and spares each owner has, then the numbers of free and lost GPUs."""
    for name in names:
        spare, works = count[name[0]], count[name[0].upper()]
        if spare + works:
            yield f"{name} {spare + works}" + (f" ({spare} spare)" if spare else "")
    for cell, text in ((FREE, "free"), (LOST, "lost")):
        if count[cell]:
            yield f"{text} {count[cell]}"


def _colored(cells: str, names: Sequence[str]) -> str:
    colors = {name[0]: color for name, color in zip(names, _COLORS, strict=False)}
    colors[LOST] = "red"
    return "".join(
        click.style("".join(same), fg=colors[cell.lower()], bold=cell.isupper())
        if cell.lower() in colors
        else "".join(same)
        for cell, same in groupby(cells)
    )


class Screen:
    """The output of the demo; ``is_live`` means that lines can be redrawn."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        term = environ.get("TERM", "")
        self.is_live = (
            sys.stdout.isatty() and not environ.get("NO_COLOR") and term not in ("", "dumb")
        )
        self._drawn = 0

    def draw(self, lines: Sequence[str]) -> None:
        """Replace the lines that were drawn last with ``lines``."""
        if not self.is_live:
            return
        self.clear()
        columns = get_terminal_size().columns
        shown = [line for line in lines if len(click.unstyle(line)) < columns]
        sys.stdout.write("".join(line + "\n" for line in shown))
        sys.stdout.flush()
        self._drawn = len(shown)

    def clear(self) -> None:
        """Remove the lines that were drawn last."""
        if self._drawn:
            sys.stdout.write(f"\x1b[{self._drawn}A\x1b[J")
            sys.stdout.flush()
            self._drawn = 0
