"""The effect of a change, for people and for programs: what moves, shrinks or stops. Pure."""

from __future__ import annotations

from typing import Any, Final

from quorate.core.effect import Effect, Moved
from quorate.documents.times import time_text
from quorate.model.words import counted

SHOWN_MAX: Final = 8
"""How many runs of one sort are named; -o json has all of them."""


def effect_lines(effect: Effect) -> list[str]:
    """Return ``effect`` in a sentence, then run by run; nothing where there is none."""
    if not effect:
        return []
    parts = [
        f"{verb} {counted(count, what)}"
        for verb, count, what in (
            ("starts", len(effect.started), "run"),
            ("stops", len(effect.stopped), "run"),
            ("shrinks", len(effect.shrunk), "run"),
            ("grows", len(effect.grown), "run"),
            ("moves", len(effect.starts), "start"),
            ("moves", len(effect.places), "place in the queue"),
        )
        if count
    ]
    sentence = f"effect: {', '.join(parts)}".replace("place in the queues", "places in the queue")
    lines = [*_starts(effect.starts), *_widths(effect), *_places(effect.places)]
    return [sentence, *(f"  {line}" for line in lines)]


def _starts(moved: tuple[Moved[int | None], ...]) -> list[str]:
    lines = [f"{m.run} starts {_instant(m.before)} -> {_instant(m.after)}" for m in moved]
    return _first(lines)


def _instant(at_ms: int | None) -> str:
    return "not planned" if at_ms is None else time_text(at_ms)


def _widths(effect: Effect) -> list[str]:
    changed = (*effect.shrunk, *effect.grown)
    lines = [f"{m.run} works on {m.before} -> {counted(m.after, 'GPU')}" for m in changed]
    return _first([*(f"{name} stops" for name in effect.stopped), *lines])


def _places(moved: tuple[Moved[int], ...]) -> list[str]:
    return _first([f"{m.run} stands {m.before} -> {m.after} in the queue" for m in moved])


def _first(lines: list[str]) -> list[str]:
    if len(lines) <= SHOWN_MAX:
        return lines
    return [*lines[:SHOWN_MAX], f"and {len(lines) - SHOWN_MAX} more"]


def effect_tree(effect: Effect) -> dict[str, Any]:
    """Return ``effect`` for programs."""
    return {
        "started": list(effect.started),
        "stopped": list(effect.stopped),
        "shrunk": [_tree(moved) for moved in effect.shrunk],
        "grown": [_tree(moved) for moved in effect.grown],
        "starts": [
            {"run": m.run, "before": _or_none(m.before), "after": _or_none(m.after)}
            for m in effect.starts
        ],
        "queue": [_tree(moved) for moved in effect.places],
    }


def _tree(moved: Moved[int]) -> dict[str, Any]:
    return {"run": moved.run, "before": moved.before, "after": moved.after}


def _or_none(at_ms: int | None) -> str | None:
    return None if at_ms is None else time_text(at_ms)
