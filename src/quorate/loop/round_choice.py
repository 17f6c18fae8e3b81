"""Who gets which flavor in the next round: the mechanism, within what can be paid."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from quorate.loop.round_floor import Floor, Member
from quorate.loop.round_funds import Funds
from quorate.model.amounts import SECOND_MS
from quorate.model.events import RoundGrant
from quorate.policy.allocation import ALONE, Allocation
from quorate.policy.round_choice import Candidate, choose
from quorate.policy.rounds import Row, Rules

PASSES_MAX: Final = 8
"""How often is chosen again because somebody was chosen beyond its money; what is left then is
refused where starts are decided, and stands idle for a round."""
SHARE_MIN: Final = 1e-6
"""What a policy gives is recorded in millionths; less is nothing."""


def choose_rows(
    floor: Floor, members: Sequence[Member], answer: Allocation, funds: Funds
) -> tuple[RoundGrant, ...]:
    """Return who gets GPUs in the next round and of which flavor, the most deserving first.

    What everybody is owed comes from the ledger, so a choice needs no memory of its own. Where an
    owner's money does not carry all that was chosen for it, the least deserving of it go, and
    others are chosen in their place.
    """
    by_name = {member.record.spec.name: member for member in members}
    rules = Rules(round_s=floor.pool.round_ms / SECOND_MS)
    found = list(round_candidates(floor, members, answer, rules))
    free = dict(zip(floor.flavors, floor.gpus, strict=True))
    chosen = choose(found, free, floor.flavors, rules)
    for _ in range(PASSES_MAX):
        beyond = set(_beyond(chosen, by_name, funds))
        if not beyond:
            break
        found = [each for each in found if (each.row, each.flavor) not in beyond]
        chosen = choose(found, free, floor.flavors, rules)
    ranked = sorted(
        (each for rows in chosen.values() for each in rows), key=lambda c: c.rank, reverse=True
    )
    return tuple(_grant(each) for each in ranked)


def _grant(chosen: Candidate) -> RoundGrant:
    """Return what is granted; whoever comes first of two is first in every round, and stays."""
    run, *others = sorted(chosen.row)
    return RoundGrant(run, chosen.flavor, partner=others[0] if others else None)


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


def _beyond(
    chosen: Mapping[str, Iterable[Candidate]], members: Mapping[str, Member], funds: Funds
) -> Iterator[tuple[Row, str]]:
    """Yield the (row, flavor) that were chosen beyond what their owner's money carries."""
    for flavor, rows in chosen.items():
        used: dict[str, int] = {}
        for each in rows:
            spec = members[each.row[0]].record.spec
            total = used.get(spec.owner, 0) + each.gpus
            if total > funds.gpus(spec)[flavor]:
                yield each.row, flavor
            else:
                used[spec.owner] = total
