"""The effect of a change, for people and for programs: the runs that move, shrink or stop. Pure."""

from __future__ import annotations

from typing import Any, Final

from quorate.core.explain.change_effect import Effect, Moved, Payments
from quorate.documents.times import time_or_none, time_text
from quorate.model.cause_text import cause_text
from quorate.model.closed_words import counted
from quorate.views.kinds.kinds_plans import cause_tree
from quorate.views.runs.reason_words import bundle_words

SHOWN_MAX: Final = 8
"""How many runs are named for one kind of effect, at most; ``-o json`` has all of them."""


def effect_lines(effect: Effect) -> list[str]:
    """Return ``effect`` as a sentence, then run by run; empty if there is no effect."""
    if not effect:
        return []
    parts = [
        f"{verb} {counted(count, what)}"
        for verb, count, what in (
            ("starts", len(effect.started), "run"),
            ("stops", len(effect.stopped), "run"),
            ("shrinks", len(effect.shrunk), "run"),
            ("grows", len(effect.grown), "run"),
            ("hands over", len(effect.handed), "bundle"),
            ("recalls", len(effect.recalled), "loan"),
            ("may stop by lot", len(effect.risks), "run"),
            ("moves", len(effect.starts), "start"),
            ("moves", len(effect.places), "place in the queue"),
        )
        if count
    ]
    sentence = f"effect: {', '.join(parts)}".replace("place in the queues", "places in the queue")
    lines = [
        *_handed(effect),
        *_starts(effect),
        *_widths(effect),
        *_risks(effect),
        *_places(effect.places),
    ]
    return [sentence, *(f"  {line}" for line in lines)]


def _handed(effect: Effect) -> list[str]:
    lines = [
        f"{each.run}: {bundle_words(each.bundle)} is paid by {_payers(each.before)} -> "
        f"{_payers(each.after)}"
        for each in effect.handed
    ]
    return _first(lines)


def _payers(paid: Payments) -> str:
    return ", ".join(f"{payer}:{gpus}" for payer, gpus in paid)


def _starts(effect: Effect) -> list[str]:
    causes = dict(effect.causes)
    lines = []
    for moved in effect.starts:
        why = f": {cause_text(causes[moved.run])}" if moved.run in causes else ""
        when = f"{_instant(moved.before)} -> {_instant(moved.after)}"
        lines.append(f"{moved.run} starts {when}{why}")
    return _first(lines)


def _risks(effect: Effect) -> list[str]:
    lines = [f"{run} is recalled for {time_text(due_ms)}" for run, due_ms in effect.recalled]
    lines += [
        f"{each.run} may be stopped at {time_text(each.at_ms)}, by lot: conflict {each.conflict}"
        for each in effect.risks
    ]
    return _first(lines)


def _instant(at_ms: int | None) -> str:
    return "not planned" if at_ms is None else time_text(at_ms)


def _widths(effect: Effect) -> list[str]:
    changed = (*effect.shrunk, *effect.grown)
    lines = [f"{m.run} works on {m.before} -> {counted(m.after, 'GPU')}" for m in changed]
    stops = {each.run: f" by {time_text(each.at_ms)}, {each.reason}" for each in effect.stops}
    return _first([*(f"{name} stops{stops.get(name, '')}" for name in effect.stopped), *lines])


def _places(moved: tuple[Moved[int], ...]) -> list[str]:
    return _first([f"{m.run} moves from place {m.before} to {m.after} in the queue" for m in moved])


def _first(lines: list[str]) -> list[str]:
    if len(lines) <= SHOWN_MAX:
        return lines
    return [*lines[:SHOWN_MAX], f"and {len(lines) - SHOWN_MAX} more"]


def effect_tree(effect: Effect) -> dict[str, Any]:
    """Return ``effect`` for programs."""
    causes = dict(effect.causes)
    return {
        "started": list(effect.started),
        "stopped": list(effect.stopped),
        "shrunk": [_tree(moved) for moved in effect.shrunk],
        "grown": [_tree(moved) for moved in effect.grown],
        "starts": [
            {
                "run": m.run,
                "before": time_or_none(m.before),
                "after": time_or_none(m.after),
                "cause": cause_tree(causes.get(m.run)),
            }
            for m in effect.starts
        ],
        "stops": [
            {"run": each.run, "at": time_text(each.at_ms), "reason": each.reason.value}
            for each in effect.stops
        ],
        "handedOver": [
            {
                "run": each.run,
                "bundle": each.bundle,
                "before": _payments(each.before),
                "after": _payments(each.after),
            }
            for each in effect.handed
        ],
        "recalled": [{"run": run, "due": time_text(due_ms)} for run, due_ms in effect.recalled],
        "mayStop": [
            {"run": each.run, "at": time_text(each.at_ms), "conflict": each.conflict}
            for each in effect.risks
        ],
        "queue": [_tree(moved) for moved in effect.places],
    }


def _payments(paid: Payments) -> list[dict[str, Any]]:
    return [{"envelope": payer, "gpus": gpus} for payer, gpus in paid]


def _tree(moved: Moved[int]) -> dict[str, Any]:
    return {"run": moved.run, "before": moved.before, "after": moved.after}
