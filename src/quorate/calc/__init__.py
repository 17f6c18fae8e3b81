"""The calculus at one's fingertips: a world as plain JSON values in, the decision as JSON out.

No server, no ledger, no clock: what a world does not say does not exist. ``run`` is all there is,
and ``unmet`` for what a scenario expects in vain; each kind has its module. What a kind answers
when the answer is no is an answer (``error`` with the numbers behind it); a world that cannot be
read is a ``CalcInputError``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from quorate.calc.bind import bind
from quorate.calc.cover import cover
from quorate.calc.forecast import forecast
from quorate.calc.pack import pack
from quorate.calc.reading import CalcInputError
from quorate.calc.resolve import resolve
from quorate.calc.rounds import rounds
from quorate.calc.scenario import scenario, unmet
from quorate.calc.topology import topology
from quorate.calc.validate import validate

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
"""What can be calculated."""


def run(kind: str, world: object) -> dict[str, object]:
    """Return the answer of ``kind`` to ``world``, which is what a JSON reader returns.

    Raises ``CalcInputError``, which names the path, when the world cannot be read.
    """
    if kind not in _KINDS:
        raise CalcInputError("kind", f"must be one of {', '.join(KINDS)}, got {kind!r}")
    return _KINDS[kind](world)
