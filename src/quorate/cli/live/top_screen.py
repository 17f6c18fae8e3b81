"""The screen of ``quorate top``: the effect of each key, and the lines to draw. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from quorate.views.table import Column, right, table
from quorate.views.word_forms import age, bar, percent

BAR_WIDTH: Final = 30
FILTER_CHARS_MAX: Final = 60
HELP: Final = "q quit   s sort   r reverse   / filter   up/down scroll   w waiting, running, both"
TYPING_HELP: Final = "type a text; Enter applies the filter, Esc removes it"


@dataclass(frozen=True, slots=True, kw_only=True)
class FlavorUse:
    """How many GPUs of one flavor are in use, free, out of service and requested."""

    flavor: str
    used: int
    free: int
    out: int
    queued: int

    @property
    def total(self) -> int:
        """The number of all GPUs."""
        return self.used + self.free + self.out


@dataclass(frozen=True, slots=True, kw_only=True)
class TopRun:
    """A waiting or running run; ``since_ms`` is when it began to wait or to run."""

    name: str
    owner: str
    user: str
    phase: str
    gpus: int
    flavor: str
    where: str
    since_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """The content of the screen at ``now_ms``; ``has_more`` means that some runs are missing."""

    now_ms: int
    flavors: Sequence[FlavorUse]
    runs: Sequence[TopRun]
    has_more: bool = False
    trouble: str = ""


SORTS: Final[dict[str, Callable[[TopRun], Any]]] = {
    "gpus": lambda run: (-run.gpus, run.name),
    "time": lambda run: (run.since_ms, run.name),
    "owner": lambda run: (run.owner, run.name),
    "name": lambda run: run.name,
}
"""Maps the name of a sort order to the sort key of a run; the first order is the default."""
PHASES: Final = ((), ("Running",), ("Pending",))
"""The choices of phases to show; the empty choice shows all runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Screen:
    """The state of the screen: sort order, filters, and scroll position."""

    sort: str = next(iter(SORTS))
    is_reversed: bool = False
    phases: tuple[str, ...] = PHASES[0]
    text: str = ""
    is_typing: bool = False
    first: int = 0

    def shown(self, runs: Sequence[TopRun]) -> list[TopRun]:
        """Return the runs that pass the filters, in order."""
        found = [run for run in runs if self._has(run)]
        return sorted(found, key=SORTS[self.sort], reverse=self.is_reversed)

    def _has(self, run: TopRun) -> bool:
        if self.phases and run.phase not in self.phases:
            return False
        words = f"{run.name} {run.owner} {run.user} {run.flavor} {run.where}".lower()
        return self.text.lower() in words


def pressed(screen: Screen, key: str) -> Screen | None:
    """Return the screen after a key; None if the key quits. Unknown keys change nothing."""
    if screen.is_typing:
        return _typed(screen, key)
    if key in _QUIT:
        return None
    change = _CHANGES.get(key)
    return screen if change is None else change(screen)


def _next_sort(screen: Screen) -> Screen:
    names = list(SORTS)
    return replace(screen, sort=names[(names.index(screen.sort) + 1) % len(names)], first=0)


def _next_phases(screen: Screen) -> Screen:
    at = (PHASES.index(screen.phases) + 1) % len(PHASES)
    return replace(screen, phases=PHASES[at], first=0)


def _down(screen: Screen) -> Screen:
    return replace(screen, first=screen.first + 1)


def _up(screen: Screen) -> Screen:
    return replace(screen, first=max(0, screen.first - 1))


_QUIT: Final = ("q", "\x03", "\x04")
_CHANGES: Final[dict[str, Callable[[Screen], Screen]]] = {
    "s": _next_sort,
    "r": lambda screen: replace(screen, is_reversed=not screen.is_reversed, first=0),
    "w": _next_phases,
    "/": lambda screen: replace(screen, is_typing=True, first=0),
    "\x1b": lambda screen: replace(screen, text="", phases=PHASES[0], first=0),
    "down": _down,
    "j": _down,
    "up": _up,
    "k": _up,
}


def _typed(screen: Screen, key: str) -> Screen | None:
    """Return the screen after a key, while the user types the filter."""
    match key:
        case "\x03":
            return None
        case "\r" | "\n":
            return replace(screen, is_typing=False)
        case "\x1b":
            return replace(screen, is_typing=False, text="")
        case "\x7f" | "\x08":
            return replace(screen, text=screen.text[:-1])
        case _ if len(key) == 1 and key.isprintable() and len(screen.text) < FILTER_CHARS_MAX:
            return replace(screen, text=screen.text + key)
        case _:
            return screen


@dataclass(frozen=True, slots=True)
class Line:
    """A line to draw; ``style`` names the line's meaning, as a terminal may have no colours."""

    text: str
    style: str = ""


def drawn(screen: Screen, fleet: Fleet, columns: int, rows: int) -> list[Line]:
    """Return at most ``rows`` lines of the screen, each at most ``columns`` wide."""
    head = [Line(_headline(screen, fleet), "title"), *_flavor_lines(fleet), Line("")]
    foot = _foot(screen, fleet)
    room = max(1, rows - len(head) - len(foot) - 1)
    runs = screen.shown(fleet.runs)
    first = min(screen.first, max(0, len(runs) - room))
    titles, *lines = _run_lines(runs[first : first + room], fleet.now_ms)
    found = [*head, titles, *lines]
    found += [Line("")] * (rows - len(found) - len(foot))
    found += foot
    return [replace_text(line, line.text[:columns]) for line in found[:rows]]


def replace_text(line: Line, text: str) -> Line:
    """Return ``line`` with another text."""
    return Line(text, line.style)


def _headline(screen: Screen, fleet: Fleet) -> str:
    runs = screen.shown(fleet.runs)
    order = f"by {screen.sort}{', reversed' if screen.is_reversed else ''}"
    which = f", {' and '.join(screen.phases).lower()} only" if screen.phases else ""
    text = f", with {screen.text!r}" if screen.text else ""
    more = " of the newest" if fleet.has_more else ""
    count = f"{len(runs)} of {len(fleet.runs)} runs{more}"
    return f"quorate top: {count}, {order}{which}{text}"


def _flavor_lines(fleet: Fleet) -> list[Line]:
    columns = (Column("FLAVOR"), Column("USED"), right("GPUS"), right("TOTAL"), right("BUSY"))
    rows = [
        (
            each.flavor,
            bar(each.used, each.total, out=each.out, width=BAR_WIDTH),
            str(each.used),
            str(each.total),
            percent(each.used, each.total),
            str(each.queued),
        )
        for each in fleet.flavors
    ]
    if not rows:
        return [Line("there are no nodes")]
    titles, *lines = table((*columns, right("QUEUED")), rows).splitlines()
    busy = ("full" if not each.free else "" for each in fleet.flavors)
    return [Line(titles, "titles"), *map(Line, lines, busy)]


def _run_lines(runs: Sequence[TopRun], now_ms: int) -> list[Line]:
    columns = (
        Column("RUN"),
        Column("OWNER"),
        Column("USER"),
        Column("PHASE"),
        right("GPUS"),
        Column("FLAVOR"),
        right("TIME"),
        Column("WHERE"),
    )
    rows = [
        (
            run.name,
            run.owner,
            run.user or "-",
            run.phase,
            str(run.gpus),
            run.flavor,
            age(max(0, now_ms - run.since_ms)),
            run.where or "-",
        )
        for run in runs
    ]
    titles, *lines = table(columns, rows).splitlines()
    return [
        Line(titles, "titles"),
        *(Line(text, run.phase) for text, run in zip(lines, runs, strict=True)),
    ]


def _foot(screen: Screen, fleet: Fleet) -> list[Line]:
    if screen.is_typing:
        return [Line(f"filter: {screen.text}_", "typing"), Line(TYPING_HELP, "help")]
    trouble = [Line(fleet.trouble, "trouble")] if fleet.trouble else []
    return [*trouble, Line(HELP, "help")]
