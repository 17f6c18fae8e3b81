"""A glance: whether counting alone proves that a run cannot start now.

Most runs that wait do so because the fleet is full. Looking at each of them in earnest after every
event would cost more than all the starts.
"""

from __future__ import annotations

from typing import Final

from quorate.model.domain_index import DomainIndex
from quorate.model.refusal import Refusal, RefusalCode
from quorate.model.specs import Run
from quorate.model.view import StateView

_NO_ROOM: Final = frozenset(
    (RefusalCode.INSUFFICIENT_CAPACITY, RefusalCode.NO_SINGLE_DOMAIN, RefusalCode.RESERVED)
)


def still_no_room(view: StateView, run: Run, known: Refusal | None) -> bool:
    """Return whether a run that found no room before certainly finds none now.

    False says nothing. Spares that could be filled are room, too.
    """
    if known is None or known.code not in _NO_ROOM or view.spares:
        return False
    least = run.widths()[-1]
    group = least if not run.cross_group_spread else min(least, run.group_gpus or 1)
    return all(
        _is_short(view.domains(run.pool, flavor), least, group + run.spares_per_group)
        for flavor in run.flavors
    )


def _is_short(index: DomainIndex, gpus: int, in_one: int) -> bool:
    """Return whether no domain has ``in_one`` free, or all together have less than ``gpus``."""
    if index.levels.bit_length() - 1 < in_one:
        return True
    return sum(free * domains.bit_count() for free, domains in index.at.items()) < gpus
