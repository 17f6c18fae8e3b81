"""Who gets which flavor in the next round: the mechanism, within what can be paid."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from quorate.loop.round_floor import Floor, Member
from quorate.loop.round_funds import Funds
from quorate.model.amounts import SECOND_MS
from quorate.model.events import RoundGrant
from quorate.policy.allocation import ALONE, Allocation
from quorate.policy.round_choice import Candidate, candidates, choose
from quorate.policy.rounds import Book, Row, Rules

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
    book, rules = _book(floor, members, answer), Rules(round_s=floor.pool.round_ms / SECOND_MS)
    gpus = {name: member.record.spec.gpus for name, member in by_name.items()}

    def can_run(row: Row, flavor: str) -> bool:
        place = floor.flavors.index(flavor)
        return all(by_name[name].rates[place] > 0 for name in row)

    found = candidates(book, gpus, can_run, 0.0, rules)
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
    return tuple(
        RoundGrant(each.row[0], each.flavor, partner=each.row[1] if len(each.row) > 1 else None)
        for each in ranked
    )


def _book(floor: Floor, members: Sequence[Member], answer: Allocation) -> Book:
    """Return the book of a pool as of now: the shares are new, what is owed is not."""
    names = [member.record.spec.name for member in members]
    shares: dict[Row, Mapping[str, float]] = {}
    owed: dict[Row, Mapping[str, float]] = {}
    for at, row in _rows(names, answer):
        parts = zip(floor.flavors, answer.shares[at], strict=True)
        shares[row] = {flavor: float(part) for flavor, part in parts if part >= SHARE_MIN}
        owed[row] = dict.fromkeys(floor.flavors, 0.0)
    for member, name in zip(members, names, strict=True):
        due, had = member.known.entitled_ms, member.received_ms
        owed[name,] = {f: (due.get(f, 0) - had.get(f, 0)) / SECOND_MS for f in floor.flavors}
    # Among equals on a flavor, whoever is furthest behind on all of them together goes first.
    owed = dict(sorted(owed.items(), key=lambda entry: -sum(entry[1].values())))
    start_s = floor.pool.round_ms / SECOND_MS / 2.0
    return Book(
        flavors=floor.flavors,
        shares=shares,
        had_s={row: dict.fromkeys(floor.flavors, start_s) for row in owed},
        owed_s=owed,
        given_s=dict.fromkeys(floor.flavors, start_s * len(owed)),
        is_stale=False,
    )


def _rows(names: Sequence[str], answer: Allocation) -> Iterator[tuple[int, Row]]:
    """Yield (row of the answer, its runs); pairs without any share are left out."""
    for at in range(len(answer.shares)):
        first, second = int(answer.first[at]), int(answer.second[at])
        if second == ALONE:
            yield at, (names[first],)
        elif answer.shares[at].max() >= SHARE_MIN:
            yield at, (names[first], names[second])


def _beyond(
    chosen: Mapping[str, Iterable[Candidate]], members: Mapping[str, Member], funds: Funds
) -> Iterator[tuple[Row, str]]:
    """Yield the (row, flavor) that were chosen beyond what their owner's money carries."""
    for flavor, rows in chosen.items():
        used: dict[str, int] = {}
        for each in rows:
            spec = members[each.row[0]].record.spec
            total = used.get(spec.owner, 0) + each.gpus
            if total > funds.gpus(spec, flavor):
                yield each.row, flavor
            else:
                used[spec.owner] = total
