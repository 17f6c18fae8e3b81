"""A glance: whether counting alone proves that a run cannot start now.

Most runs that wait do so because the fleet is full, or what is free is promised. Looking at each of
them in earnest after every event would cost more than all the starts.
"""

from __future__ import annotations

from typing import Final

from quorate.core.holds import hold_duration_ms
from quorate.core.scribe import Scribe
from quorate.model.refusal import Refusal, RefusalCode
from quorate.model.specs import Run

_NO_ROOM: Final = frozenset(
    (RefusalCode.INSUFFICIENT_CAPACITY, RefusalCode.NO_SINGLE_DOMAIN, RefusalCode.RESERVED)
)

_PRECISE_BITS: Final = 5
"""To how many binary digits a duration is looked at."""


def still_no_room(scribe: Scribe, run: Run, known: Refusal | None, *, promised: bool) -> bool:
    """Return whether a run that found no room before certainly finds none now.

    False says nothing. Spares that could be filled are room, too. ``promised``: what was promised
    to others is none.
    """
    if known is None or known.code not in _NO_ROOM:
        return False
    view = scribe.view
    spare = sum(view.leases[name].gpus for name in view.spares)
    least = run.widths()[-1]
    in_one = least if not run.cross_group_spread else min(least, run.group_gpus or 1)
    in_one += run.spares_per_group
    # A shorter while leaves more to use, so it proves the same, and few different ones are asked.
    duration_ms = hold_duration_ms(run, view.pools[run.pool]) if promised else 1
    rest = max(0, duration_ms.bit_length() - _PRECISE_BITS)
    duration_ms = duration_ms >> rest << rest
    for flavor in run.flavors:
        if promised:
            total, most = scribe.outlook.counts(run.pool, flavor, duration_ms)
        else:
            index = view.domains(run.pool, flavor)
            total = sum(free * domains.bit_count() for free, domains in index.at.items())
            most = index.levels.bit_length() - 1
        if total + spare >= least and most + spare >= in_one:
            return False
    return True
