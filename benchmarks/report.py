"""Figures as a table for people and as JSON for programs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.figure import Figure

_HEAD = ("figure", "measured", "target", "", "baseline in the same run", "better by")


def table(figures: Sequence[Figure]) -> str:
    """Return the figures as aligned columns, with one line for each."""
    rows = [_HEAD, *(_row(figure) for figure in figures)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEAD))]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        for row in rows
    ]
    return "\n".join(line.rstrip() for line in lines)


def details(figures: Sequence[Figure]) -> str:
    """Return the details of each figure."""
    lines = []
    for figure in figures:
        if figure.details:
            told = ", ".join(f"{name} {_number(value)}" for name, value in figure.details.items())
            lines.append(f"  {figure.name}: {told}")
    return "\n".join(lines)


def write_json(
    path: Path,
    figures: Sequence[Figure],
    machine: Mapping[str, str | int | float],
    *,
    quick: bool,
) -> None:
    """Write all figures to ``path``; create its folder if it does not exist."""
    path.parent.mkdir(parents=True, exist_ok=True)
    shown = {
        "machine": dict(machine),
        "quick": quick,
        "figures": [figure.to_json() for figure in figures],
    }
    path.write_text(json.dumps(shown, indent=2) + "\n")


def _row(figure: Figure) -> tuple[str, str, str, str, str, str]:
    sign = ">=" if figure.better == "more" else "<="
    target = "-" if figure.target is None else f"{sign} {_number(figure.target)}"
    verdict = {True: "ok", False: "MISSED", None: ""}[figure.ok]
    base, times = figure.baseline, figure.times_baseline
    return (
        figure.name,
        f"{_number(figure.value)} {figure.unit}",
        target,
        verdict,
        "" if base is None else f"{_number(base.value)} ({base.what})",
        "" if times is None else f"{_number(times)}x",
    )


def _number(value: float | str) -> str:
    """Return ``value`` with its significant digits."""
    if isinstance(value, str):
        return value
    if isinstance(value, int) or abs(value) >= 1_000:
        return f"{value:,.0f}"
    return f"{value:.3g}"
