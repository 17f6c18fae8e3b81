"""Plots as SVG text: scales, axes, lines, bars, intervals. Pure, and without dependencies.

Colours are the variables ``--c0`` to ``--c7`` of the page, so that a plot suits the light and the
dark theme. A drawing is 480 units wide: one drawing fits the width of a phone, and two or three fit
side by side on a wide screen. Letters are 15 units high.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Final

WIDTH: Final = 480
HEIGHT: Final = 290
LEFT, RIGHT, TOP, BOTTOM = 64, 20, 12, 42
COLOURS: Final = 8
_STEPS: Final = (1, 2, 2.5, 5, 10)
_DIGITS_MAX: Final = 1e6
_DURATIONS: Final = tuple(
    (count * unit_s, f"{count} {unit}")
    for unit, unit_s, counts in (
        ("ms", 0.001, (1, 10, 100)),
        ("s", 1.0, (1, 2, 5, 10, 20, 30)),
        ("min", 60.0, (1, 2, 5, 10, 20, 30)),
        ("h", 3_600.0, (1, 2, 5, 10)),
        ("d", 86_400.0, (1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000)),
    )
    for count in counts
)
"""Round durations in seconds, with their labels."""
_HALF_LETTER: Final = 4
"""Half of the width of a letter; also the least distance between two labels."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """Maps values to coordinates; ``is_log`` is for values that span several powers of ten."""

    low: float
    high: float
    first: float
    last: float
    is_log: bool = False

    def at(self, value: float) -> float:
        """Return the coordinate of ``value``; values outside the scale are drawn on its edge."""
        value = min(max(value, self.low), self.high)
        if self.is_log:
            low, high = math.log(self.low), math.log(self.high)
            part = (math.log(value) - low) / (high - low)
        else:
            part = (value - self.low) / (self.high - self.low)
        return self.first + part * (self.last - self.first)

    def ticks(self) -> list[float]:
        """Return round values for the labels, from the lowest to the highest."""
        if self.is_log:
            first, last = math.ceil(math.log10(self.low)), math.floor(math.log10(self.high))
            every = max(1, math.ceil((last - first + 1) / 6))
            return [10.0**power for power in range(first, last + 1, every)]
        step = _round_step((self.high - self.low) / 5)
        first = math.ceil(self.low / step - 1e-9)
        last = math.floor(self.high / step + 1e-9)
        return [number * step for number in range(first, last + 1)]


@dataclass(frozen=True, slots=True)
class Series:
    """A named line with its points in order of x."""

    name: str
    points: Sequence[tuple[float, float]]


def _round_step(rough: float) -> float:
    power = 10.0 ** math.floor(math.log10(rough))
    return next(each * power for each in _STEPS if each * power >= rough * (1 - 1e-9))


def x_scale(low: float, high: float, *, is_log: bool = False) -> Scale:
    """Return a horizontal scale; an empty range is widened."""
    low, high = _widened(low, high, is_log=is_log)
    return Scale(low=low, high=high, first=LEFT, last=WIDTH - RIGHT, is_log=is_log)


def y_scale(low: float, high: float) -> Scale:
    """Return a vertical scale; larger values are higher."""
    low, high = _widened(low, high, is_log=False)
    return Scale(low=low, high=high, first=HEIGHT - BOTTOM, last=TOP)


def _widened(low: float, high: float, *, is_log: bool) -> tuple[float, float]:
    if high > low:
        return low, high
    return (low / 2, low * 2) if is_log else (low, low + 1)


def number_text(value: float) -> str:
    """Return a value as a short label."""
    if value and (abs(value) >= _DIGITS_MAX or abs(value) < 1e-2):  # noqa: PLR2004 - a label is short
        return f"{value:.0e}".replace("e+0", "e").replace("e-0", "e-")
    return f"{value:,.0f}" if abs(value) >= 1_000 else f"{value:g}"  # noqa: PLR2004 - grouped


def duration_ticks(scale: Scale) -> list[tuple[float, str]]:
    """Return round durations within ``scale``, which is in seconds, and their labels.

    The durations are 1, 10, 100 or 1,000 of a unit if at least three of these are in the range;
    otherwise other round numbers are used, too. A duration too close to the previous one is left
    out. If no round duration is in the range, the lowest value is returned.
    """
    inside = [each for each in _DURATIONS if scale.low <= each[0] <= scale.high]
    tens = [each for each in inside if each[1].split()[0].strip("0") == "1"]
    found: list[tuple[float, str]] = []
    for each in tens if len(tens) >= 3 else inside:  # noqa: PLR2004 - see above
        if not found or _apart(scale, found[-1], each) >= _HALF_LETTER:
            found.append(each)
    return found or [(scale.low, f"{scale.low:.3g} s")]


def _apart(scale: Scale, one: tuple[float, str], other: tuple[float, str]) -> float:
    """Return how far the labels of two values are apart."""
    middles = abs(scale.at(other[0]) - scale.at(one[0]))
    return middles - _HALF_LETTER * (len(one[1]) + len(other[1]))


def drawing(title: str, body: Sequence[str], height: int = HEIGHT) -> str:
    """Return a whole drawing with its title, which screen readers read out."""
    inside = "\n".join(body)
    return (
        f'<svg viewBox="0 0 {WIDTH} {height}" role="img" xmlns="http://www.w3.org/2000/svg">'
        f"<title>{escape(title)}</title>\n{inside}\n</svg>"
    )


def axes(
    x: Scale,
    y: Scale,
    x_title: str,
    y_title: str,
    x_ticks: Sequence[tuple[float, str]] | None = None,
) -> list[str]:
    """Return a grid, its labels and titles; ``x_ticks`` are the labels of ``x``, if given."""
    height, bottom = HEIGHT, HEIGHT - BOTTOM
    found = []
    for tick in y.ticks():
        at = y.at(tick)
        found.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" {_ys(at, at)}/>')
        found.append(text(LEFT - 6, at + 4, number_text(tick), anchor="end"))
    for tick, label in x_ticks or [(each, number_text(each)) for each in x.ticks()]:
        at = x.at(tick)
        found.append(f'<line class="grid" x1="{at:.1f}" x2="{at:.1f}" y1="{TOP}" y2="{bottom}"/>')
        found.append(text(at, bottom + 16, label, anchor="middle"))
    found.append(text((LEFT + WIDTH - RIGHT) / 2, height - 6, x_title, anchor="middle"))
    middle = (TOP + bottom) / 2
    found.append(
        f'<text x="14" y="{middle:.1f}" text-anchor="middle" '
        f'transform="rotate(-90 14 {middle:.1f})">{escape(y_title)}</text>'
    )
    return found


def text(x: float, y: float, words: str, *, anchor: str = "start", kind: str = "") -> str:
    """Return ``words`` as SVG text at (``x``, ``y``)."""
    mark = f' class="{kind}"' if kind else ""
    return f'<text{mark} x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(words)}</text>'


def line(series: Series, x: Scale, y: Scale, colour: int) -> str:
    """Return a line through the points of ``series``."""
    points = " ".join(f"{x.at(px):.1f},{y.at(py):.1f}" for px, py in series.points)
    return (
        f'<polyline class="line" stroke="var(--c{colour % COLOURS})" '
        f'stroke-dasharray="{_dashes(colour)}" points="{points}">'
        f"<title>{escape(series.name)}</title></polyline>"
    )


def _dashes(colour: int) -> str:
    """Return the dash pattern of a line; lines of the same colour have different patterns."""
    return "none" if colour < COLOURS else "6 3"


def box(x: tuple[float, float], y: tuple[float, float], colour: int, title: str) -> str:
    """Return a filled box from corner to corner; ``title`` is its tooltip."""
    (x1, x2), (y1, y2) = x, y
    return (
        f'<rect x="{x1:.1f}" y="{y1:.1f}" width="{max(0.5, x2 - x1):.1f}" '
        f'height="{max(0.5, y2 - y1):.1f}" fill="var(--c{colour % COLOURS})">'
        f"<title>{escape(title)}</title></rect>"
    )


def mark(x: float, y1: float, y2: float, title: str) -> str:
    """Return a vertical line, such as a target on a bar."""
    return f'<line class="mark" x1="{x:.1f}" x2="{x:.1f}" {_ys(y1, y2)}>{_title(title)}</line>'


def span(x1: float, x2: float, y: float, colour: int | None) -> str:
    """Return a horizontal line from ``x1`` to ``x2``, grey if it has no colour."""
    stroke = "var(--dim)" if colour is None else f"var(--c{colour % COLOURS})"
    return f'<line stroke="{stroke}" stroke-width="3" x1="{x1:.1f}" x2="{x2:.1f}" {_ys(y, y)}/>'


def dot(x: float, y: float, colour: int | None, title: str) -> str:
    """Return a dot, grey if it has no colour."""
    fill = "var(--dim)" if colour is None else f"var(--c{colour % COLOURS})"
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4.5" fill="{fill}">{_title(title)}</circle>'


def legend(names: Sequence[str], colours: Sequence[int] | None = None) -> str:
    """Return a legend of ``names`` as HTML; by default, the names get colours 0, 1, 2 and so on."""
    given = range(len(names)) if colours is None else colours
    items = "".join(
        f'<li><i style="background:var(--c{colour % COLOURS})"></i>{escape(name)}</li>'
        for colour, name in zip(given, names, strict=True)
    )
    return f'<ul class="legend">{items}</ul>'


def _title(words: str) -> str:
    return f"<title>{escape(words)}</title>"


def _ys(y1: float, y2: float) -> str:
    return f'y1="{y1:.1f}" y2="{y2:.1f}"'
