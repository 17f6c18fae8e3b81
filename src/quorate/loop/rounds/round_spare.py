"""Left-over GPUs: no run with a share can use them, so other runs get them for one round.

A policy does not know how much owners can pay together, how many nodes they may have, or which
domains runs may use. So a policy may give GPUs to runs that are then skipped. Without this module
these GPUs would be idle in every round.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from heapq import heapify, heappop, heapreplace
from math import inf, nextafter
from typing import Final

from quorate.core.rounds.round_checks import targets_ppm
from quorate.loop.rounds.round_snapshot import Floor, Member
from quorate.model.specs import Run
from quorate.policy.rounds.row_choice import Candidate

RATE_MIN: Final = 0.1
"""The least useful rate, as a fraction of a run's fastest rate.

A run does not get left-over GPUs on which it is slower, because slow GPUs cost as much as fast
GPUs.
"""


FASTER_MIN: Final = 1.2
"""A run is moved to an idle flavor only if it is faster there by more than this factor."""


def spare_candidates(
    floor: Floor, members: Sequence[Member], taken: Collection[str], left: Mapping[str, int]
) -> Iterator[Candidate]:
    """Yield runs not in ``taken`` that could use GPUs in ``left``, with their fastest flavor first.

    The owner whose runs had the least GPU time in relation to its target comes first. If the caller
    takes a run, the run's next round is added to this time. Among the runs of one owner, the run
    that is owed the most time comes first. If two runs are owed the same time, the run that had
    GPUs for less time comes first. When the caller takes a run, the caller updates ``taken`` and
    ``left`` before it asks for the next result.
    """
    queues: dict[str, list[Member]] = {}
    most = max(left.values())
    for member in members:
        spec = member.record.spec
        if spec.gpus <= most and spec.name not in taken and _places(floor, member, left):
            queues.setdefault(spec.owner, []).append(member)
    if not queues:
        return
    had = _had(members)
    targets = targets_ppm(floor.view, list(had))
    for queue in queues.values():
        queue.sort(key=lambda member: (sum(member.owed_ms), -member.had_ms))
    turns = [(had[owner] / max(1, targets[owner]), owner) for owner in queues]
    heapify(turns)
    while turns and any(left.values()):
        _, owner = turns[0]
        member = queues[owner].pop()
        spec = member.record.spec
        for place in _places(floor, member, left):
            if spec.name not in taken:
                yield _candidate(spec, floor.flavors[place])
        if spec.name in taken:
            had[owner] += spec.gpus * floor.pool.round_ms
        if queues[owner]:
            heapreplace(turns, (had[owner] / max(1, targets[owner]), owner))
        else:
            heappop(turns)


def faster_candidates(
    floor: Floor,
    members: Mapping[str, Member],
    chosen: Sequence[Candidate],
    free: Mapping[str, int],
) -> list[Candidate]:
    """Return candidates that move ``chosen`` runs to idle flavors on which they are much faster.

    A policy gives a run shares of several flavors, but in one round the run has only one flavor. So
    a run may get a slow flavor while GPUs of a fast flavor are free. The most deserving run chooses
    first. Each run keeps its rank, and takes nothing from a run with a share of the fast flavor.
    """
    left = dict(free)
    for each in chosen:
        left[each.flavor] -= each.gpus
    found: list[Candidate] = []
    places = {flavor: place for place, flavor in enumerate(floor.flavors)}
    for each in chosen:
        if len(each.row) > 1 or not each.share:
            continue
        rates = members[each.row[0]].rates
        least = FASTER_MIN * rates[places[each.flavor]]
        fitting = [f for f in floor.flavors if left[f] >= each.gpus and rates[places[f]] > least]
        if fitting:
            flavor = max(fitting, key=lambda f: rates[places[f]])
            left[flavor] -= each.gpus
            # This candidate comes just before the candidate of the same run on the slower flavor.
            # So the run gets the slower flavor if it cannot get this one.
            deficit_s = nextafter(each.deficit_s, inf)
            found.append(each._replace(flavor=flavor, deficit_s=deficit_s))
    return found


def _had(members: Sequence[Member]) -> dict[str, int]:
    """Return the GPU-milliseconds that the runs of every owner had so far."""
    found: dict[str, int] = {}
    for member in members:
        spec = member.record.spec
        found[spec.owner] = found.get(spec.owner, 0) + spec.gpus * member.had_ms
    return found


def _places(floor: Floor, member: Member, left: Mapping[str, int]) -> list[int]:
    """Return the indexes of flavors that a run could have now, its fastest flavor first."""
    rates, gpus = member.rates, member.record.spec.gpus
    found = [at for at, flavor in enumerate(floor.flavors) if left.get(flavor, 0) >= gpus]
    if not found:
        return found
    least = RATE_MIN * max(rates)
    found = [place for place in found if rates[place] > 0 and rates[place] >= least]
    return sorted(found, key=lambda place: -rates[place]) if len(found) > 1 else found


def _candidate(run: Run, flavor: str) -> Candidate:
    return Candidate(
        row=(run.name,),
        flavor=flavor,
        gpus=run.gpus,
        priority=0.0,
        deficit_s=0.0,
        share=0.0,
    )
