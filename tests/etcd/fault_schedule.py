"""What fails when: a schedule that follows from its seed alone.

Machines are members of etcd (``m0`` ...) and writers (``w0`` ...). At most a minority of members is
taken away at a time, unless everything is; so the ledger goes on, and what goes on can go wrong.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from random import Random


class Kind(Enum):
    """What is done to machines, or to the links between them."""

    KILL = "kill -9, and start again at the end"
    PAUSE = "stop the process where it is, and let it go on at the end"
    RESTART_ALL = "kill -9 of everything, then start everything again"
    CUT = "cut the links in both directions"
    CUT_THERE = "cut the links from their source to their target"
    CUT_BACK = "cut the links from their target to their source"
    SLOW = "slow links"
    FLAP = "cut, mend, and reset the links again and again"


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault, from ``at_s`` for ``for_s``: of one machine, or of ``links`` (source, target)."""

    kind: Kind
    at_s: float
    for_s: float
    machine: str = ""
    links: tuple[tuple[str, str], ...] = ()
    delay_s: float = 0.0


_LINK_KINDS = (Kind.CUT, Kind.CUT_THERE, Kind.CUT_BACK, Kind.SLOW, Kind.FLAP)


def schedule(seed: int, for_s: float, *, members: int, writers: int) -> list[Fault]:
    """Return faults one after the other that begin within ``for_s``; each kind comes in turn."""
    chance = Random(seed)
    names = [f"m{number}" for number in range(members)]
    clients = [f"w{number}" for number in range(writers)]
    faults: list[Fault] = []
    at_s = 0.5
    kinds: list[Kind] = []
    while at_s < for_s:
        if not kinds:
            kinds = list(Kind)
            chance.shuffle(kinds)
        kind = kinds.pop()
        lasts_s = 0.3 + chance.random() * (4.0 if kind is Kind.PAUSE else 2.0)
        if kind in _LINK_KINDS:
            links = _some_links(chance, names, clients)
            fault = Fault(kind, at_s, lasts_s, links=links, delay_s=0.02 + chance.random() / 4)
        elif kind is Kind.RESTART_ALL:
            fault = Fault(kind, at_s, lasts_s / 2)
        else:
            fault = Fault(kind, at_s, lasts_s, machine=chance.choice([*names, *clients]))
        faults.append(fault)
        at_s += lasts_s + chance.random()
    return faults


def _some_links(
    chance: Random, members: list[str], clients: list[str]
) -> tuple[tuple[str, str], ...]:
    """Return the links of one machine: with other members, with clients, or with all of them."""
    if chance.random() < 0.3:
        client = chance.choice(clients)
        return tuple((client, member) for member in members)
    lone = chance.choice(members)
    others = [each for each in members if each != lone]
    peers = [pair for other in others for pair in ((lone, other), (other, lone))]
    callers = [(client, lone) for client in clients]
    return tuple(chance.choice([peers, callers, [*peers, *callers]]))
