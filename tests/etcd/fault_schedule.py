"""A schedule of faults, one after the other, that follows from a seed alone.

Machines are members of etcd and its clients. Only one machine fails at a time, except for faults of
all machines. So with three members the ledger remains usable during most faults, and errors can
occur in it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from random import Random
from typing import Final

from tests.etcd.stepped_clock import AHEAD_MS_MAX


class Kind(Enum):
    """A kind of fault of machines, or of the links between them."""

    KILL = "kill -9, and start again at the end"
    PAUSE = "stop the process where it is, and let it go on at the end"
    RESTART_ALL = "kill -9 of everything, then start everything again"
    CUT = "cut the links in both directions"
    CUT_THERE = "cut the links from their source to their target"
    CUT_BACK = "cut the links from their target to their source"
    SLOW = "slow links"
    FLAP = "cut, mend, and reset the links again and again"
    CLOCK = "set the clocks of all clients, and leave them so"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One fault for ``for_s``: of one machine, of ``links`` (source, target), or of all ``clocks``.

    It begins ``after_s`` after the previous fault. After a fault with ``is_got_over`` the next
    fault waits until something is recorded again; others may hit machines that have not recovered.
    """

    kind: Kind
    after_s: float
    for_s: float
    is_got_over: bool
    machine: str = ""
    links: tuple[tuple[str, str], ...] = ()
    delay_s: float = 0.0
    clocks: tuple[tuple[str, int], ...] = ()
    """The clients, and by how many milliseconds the clock of each is ahead from then on."""


_LINK_KINDS: Final = (Kind.CUT, Kind.CUT_THERE, Kind.CUT_BACK, Kind.SLOW, Kind.FLAP)
_LONG_KINDS: Final = (Kind.PAUSE, Kind.CUT, Kind.CUT_THERE, Kind.CUT_BACK)
"""These faults may last longer than a leader's lease."""


def schedule(
    seed: int, *, members: Sequence[str], clients: Sequence[str], kinds: Sequence[Kind]
) -> Iterator[Fault]:
    """Yield faults without end; the ``kinds`` take turns."""
    chance = Random(seed)
    left: list[Kind] = []
    while True:
        if not left:
            left = list(kinds)
            chance.shuffle(left)
        kind = left.pop()
        is_all = kind is Kind.RESTART_ALL
        is_of_clocks = kind is Kind.CLOCK
        is_short = is_all or is_of_clocks
        lasts_s = 0.3 + chance.random() * (4.0 if kind in _LONG_KINDS else 1.0 if is_short else 2.0)
        is_of_links = kind in _LINK_KINDS
        yield Fault(
            kind=kind,
            after_s=chance.random(),
            for_s=lasts_s,
            is_got_over=chance.random() < 0.5,
            machine="" if is_short or is_of_links else chance.choice([*members, *clients]),
            links=_some_links(chance, members, clients) if is_of_links else (),
            delay_s=0.02 + chance.random() / 4,
            clocks=_stepped(chance, clients) if is_of_clocks else (),
        )


def _stepped(chance: Random, clients: Sequence[str]) -> tuple[tuple[str, int], ...]:
    return tuple((name, chance.randint(-AHEAD_MS_MAX, AHEAD_MS_MAX)) for name in clients)


def _some_links(
    chance: Random, members: Sequence[str], clients: Sequence[str]
) -> tuple[tuple[str, str], ...]:
    """Return links of one machine: to other members, to clients, or to both."""
    if chance.random() < 0.3:
        client = chance.choice(clients)
        return tuple((client, member) for member in members)
    lone = chance.choice(members)
    others = [each for each in members if each != lone]
    peers = [pair for other in others for pair in ((lone, other), (other, lone))]
    callers = [(client, lone) for client in clients]
    # A single member has no other members.
    return tuple(chance.choice([peers, callers, [*peers, *callers]]) if peers else callers)
