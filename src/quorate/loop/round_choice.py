"""Who gets which flavor in the next round: the mechanism, among those who can start."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Final

from quorate.loop.round_floor import Floor, Member
from quorate.loop.round_funds import Funds
from quorate.loop.round_limits import Limits
from quorate.loop.round_seats import Nodes, Seats
from quorate.model.amounts import SECOND_MS
from quorate.model.events import RoundGrant
from quorate.policy.allocation import ALONE, Allocation
from quorate.policy.round_choice import Candidate, choose
from quorate.policy.rounds import Row, Rules

SHARE_MIN: Final = 1e-6
"""What a policy gives is recorded in millionths; less is nothing."""


def choose_rows(
    floor: Floor, members: Sequence[Member], answer: Allocation, funds: Funds
) -> tuple[RoundGrant, ...]:
    """Return who gets GPUs in the next round and of which flavor, the most deserving first.

    What everybody is owed comes from the ledger, so a choice needs no memory of its own. Where one
    fits nowhere beside those who are more deserving, or its owner's money or quotas do not carry
    it, the next in turn is chosen in its place, and it stays owed.
    """
    by_name = {member.record.spec.name: member for member in members}
    rules = Rules(round_s=floor.pool.round_ms / SECOND_MS)
    found = [
        each
        for each in round_candidates(floor, members, answer, rules)
        if floor.late.isdisjoint(each.row)
    ]
    free = {f: floor.gpus[at] - floor.gpus_late[at] for at, f in enumerate(floor.flavors)}

    def chosen(seats: Seats | None) -> list[Candidate]:
        limits = Limits(floor.view, by_name, funds)
        rows = choose(found, free, floor.flavors, rules, lambda c: _admits(c, limits, seats))
        return sorted(chain.from_iterable(rows.values()), key=lambda c: c.rank, reverse=True)

    ranked = chosen(None)
    if floor.room is None:
        return tuple(_grant(each) for each in ranked)
    seats = Seats(floor.view, floor.room.over(), by_name, ranked)
    return tuple(_grant(each, seats.nodes.get(each.row, ())) for each in chosen(seats))


def _admits(candidate: Candidate, limits: Limits, seats: Seats | None) -> bool:
    """Return whether one more is within all limits and has a seat, and count it if so."""
    if not limits.allow(candidate):
        if seats is not None:
            seats.pass_over(candidate)
        return False
    if seats is not None and not seats.seat(candidate):
        return False
    limits.count(candidate)
    return True


def _grant(chosen: Candidate, nodes: Nodes = ()) -> RoundGrant:
    """Return what is granted; whoever comes first of two is first in every round, and stays."""
    run, *others = sorted(chosen.row)
    return RoundGrant(run, chosen.flavor, partner=others[0] if others else None, nodes=nodes)


def round_candidates(
    floor: Floor, members: Sequence[Member], answer: Allocation, rules: Rules
) -> Iterator[Candidate]:
    """Yield every row on every flavor that it has a share of, and can run on.

    Nobody else is ever chosen. Priority and deficit are those of ``policy.rounds`` for an
    allocation that begins now. Among equals on a flavor, whoever is furthest behind on all of them
    together comes first.
    """
    rows = sorted(_rows(floor, members, answer), key=lambda row: -sum(row.owed_s))
    start_s = rules.head_start_s
    for place, flavor in enumerate(floor.flavors):
        for row in rows:
            share, owed_s = row.shares[place], row.owed_s[place]
            if share < SHARE_MIN or not row.runs[place]:
                continue
            due_s = share * start_s + max(owed_s, 0.0)
            yield Candidate(
                row=row.names,
                flavor=flavor,
                gpus=row.gpus,
                priority=due_s / (start_s + max(-owed_s, 0.0)),
                deficit_s=owed_s,
                share=share,
            )


@dataclass(frozen=True, slots=True)
class _Row:
    """A run, or two that share: what it is to have, where it can run, what it is owed."""

    names: Row
    gpus: int
    shares: Sequence[float]
    runs: Sequence[int]
    owed_s: Sequence[float]


def _rows(floor: Floor, members: Sequence[Member], answer: Allocation) -> Iterator[_Row]:
    """Yield the rows of ``answer``; a pair is owed what the one of its two is that is owed less."""
    shares, second = answer.shares.tolist(), answer.second.tolist()
    for at, first in enumerate(answer.first.tolist()):
        one = members[first]
        spec = one.record.spec
        if second[at] == ALONE:
            yield _Row((spec.name,), spec.gpus, shares[at], one.rates, _owed_s(floor, one))
            continue
        other = members[second[at]]
        runs = [min(pair) for pair in zip(one.rates, other.rates, strict=True)]
        owed_s = list(map(min, _owed_s(floor, one), _owed_s(floor, other)))
        yield _Row((spec.name, other.record.spec.name), spec.gpus, shares[at], runs, owed_s)


def _owed_s(floor: Floor, member: Member) -> list[float]:
    """Return what a run is owed of each flavor; below 0 where it is ahead."""
    due, had = member.known.entitled_ms, member.received_ms
    return [(due.get(f, 0) - had.get(f, 0)) / SECOND_MS for f in floor.flavors]
