"""Spare GPUs: what a policy meant for runs that cannot use it, given to others for one round.

A policy does not know what owners can pay together, how many nodes they may have, or where runs may
go. What it gives to those who are then passed over would stand idle, again and again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final

from quorate.core.round_checks import targets_ppm
from quorate.loop.round_floor import Floor, Member
from quorate.policy.round_choice import Candidate

RATE_MIN: Final = 0.1
"""How fast a run must be there, of its fastest: GPUs are paid for, however little they do."""


def spare_candidates(
    floor: Floor, members: Sequence[Member], taken: Collection[str], left: Mapping[str, int]
) -> Iterator[Candidate]:
    """Yield who could use what is ``left`` of flavors, among those who have not ``taken`` any.

    Owners come in turns, by their targets; of an owner's runs those that are furthest behind, then
    those that had least, each where it is fastest first. ``left`` is looked at as it goes.
    """
    for member in _in_turns(floor, [m for m in members if m.record.spec.name not in taken]):
        spec = member.record.spec
        least = RATE_MIN * max(member.rates)
        places = sorted(range(len(floor.flavors)), key=lambda at: -member.rates[at])
        for place in places:
            flavor, rate = floor.flavors[place], member.rates[place]
            if rate > 0 and rate >= least and left.get(flavor, 0) >= spec.gpus:
                yield Candidate(
                    row=(spec.name,),
                    flavor=flavor,
                    gpus=spec.gpus,
                    priority=0.0,
                    deficit_s=0.0,
                    share=0.0,
                    is_ahead=True,
                )


def _in_turns(floor: Floor, members: Sequence[Member]) -> list[Member]:
    """Return ``members`` such that owners have GPUs by their targets, wherever one stops."""
    behind = sorted(members, key=lambda member: (-sum(member.owed_ms), member.had_ms))
    owners = dict.fromkeys(member.record.spec.owner for member in behind)
    targets = targets_ppm(floor.view, list(owners))
    had = dict.fromkeys(owners, 0)
    turns = []
    for member in behind:
        spec = member.record.spec
        had[spec.owner] += spec.gpus
        turns.append(had[spec.owner] / max(1, targets[spec.owner]))
    order = sorted(range(len(behind)), key=turns.__getitem__)
    return [behind[at] for at in order]
