"""Calculates decisions for a world: a fleet with its budgets and runs, given as one JSON value.

A calculation needs no server, no ledger and no clock: it knows only the objects of its world.
``run`` does one calculation and returns JSON values. ``unmet`` lists the failed expectations and
the violated invariants of a scenario. Each kind of calculation has its own module. A refusal is
returned as ``error``, with its numbers. A world that cannot be read raises ``CalcInputError``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from quorate.calc.calc_bind import bind
from quorate.calc.calc_cover import cover
from quorate.calc.calc_forecast import forecast
from quorate.calc.calc_pack import pack
from quorate.calc.calc_resolve import resolve
from quorate.calc.calc_rounds import rounds
from quorate.calc.calc_scenario import scenario, unmet
from quorate.calc.calc_topology import topology
from quorate.calc.calc_validate import validate
from quorate.documents.document_problem import CalcInputError

__all__ = ["KINDS", "CalcInputError", "run", "unmet"]

_KINDS: Final[Mapping[str, Callable[[object], dict[str, object]]]] = {
    "topology": topology,
    "pack": pack,
    "cover": cover,
    "bind": bind,
    "validate": validate,
    "forecast": forecast,
    "resolve": resolve,
    "scenario": scenario,
    "rounds": rounds,
}
KINDS: Final = tuple(_KINDS)
"""The kinds of calculation."""


def run(kind: str, world: object) -> dict[str, object]:
    """Return the result of the calculation ``kind`` for ``world``, which is parsed JSON.

    Raises ``CalcInputError`` if the world cannot be read. The error names the path of the faulty
    field.
    """
    if kind not in _KINDS:
        raise CalcInputError("kind", f"must be one of {', '.join(KINDS)}, got {kind!r}")
    return _KINDS[kind](world)
