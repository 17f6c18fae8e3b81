"""Random worlds with one pool of discipline rounds and one pool of discipline bind.

These worlds are like other random worlds, except that one pool shares its nodes in rounds. More
than half of the runs use this pool, and declare rates that may be wrong.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Final

from msgspec.structs import replace as changed

from quorate.core.commands import Applied
from quorate.model.amounts import HOUR_MS, MINUTE_MS, PPM, SECOND_MS
from quorate.model.selector import DOMAIN
from quorate.model.specs import (
    Discipline,
    FlavorRates,
    Funding,
    Node,
    Placement,
    Pool,
    RoundsWork,
    Run,
    TypeRates,
)
from quorate.sim.demand import Arrival, Size, one_in
from quorate.sim.random_world import World, draw_world
from quorate.sim.room_work import Truth

POOL: Final = "side"
"""The pool that shares its nodes in rounds; in other worlds its discipline is bind."""
_TYPES: Final = ("lm", "resnet")
_SPEEDS_PPM: Final = {"H100": PPM, "A100": PPM // 2}


def draw_round_world(
    chance: Random, size: Size, policies: Sequence[str], *, with_pairs: bool = False
) -> World:
    """Return a random world in which a pool shares its nodes in rounds under one of ``policies``.

    If ``with_pairs``, the pool has rates of job types and of pairs of these types. Most runs then
    have one of these types, and most runs belong to two owners.
    """
    base = draw_world(chance, size)
    pool = Pool(
        name=POOL,
        selector=((DOMAIN, "B"),),
        discipline=Discipline.ROUNDS,
        policy=chance.choice(policies),
        round_ms=chance.choice((2 * MINUTE_MS, 6 * MINUTE_MS, 20 * MINUTE_MS)),
        placement=chance.choice(tuple(Placement)),
        grace_max_ms=chance.choice((MINUTE_MS, 5 * MINUTE_MS)),
        throughputs=_table() if with_pairs else (),
    )
    kept = [spec for spec in base.specs if not isinstance(spec, Pool) or spec.name != POOL]
    at = next(n for n, spec in enumerate(kept) if isinstance(spec, Pool)) + 1
    specs: tuple[Applied, ...] = (*kept[:at], pool, *kept[at:], *_nodes(chance))
    arrivals = tuple(
        _sharing(chance, arrival) if arrival.run.pool == POOL or one_in(chance, 2) else arrival
        for arrival in base.arrivals
    )
    if with_pairs:
        owners = sorted({arrival.run.owner for arrival in arrivals if arrival.run.pool == POOL})
        arrivals = tuple(_typed(chance, arrival, owners[:2]) for arrival in arrivals)
    # The shares of a run decide how long it takes, so none of these worlds is honest.
    return World(specs, arrivals, base.wishes, base.until_ms)


def _table() -> tuple[FlavorRates, ...]:
    """Return the pool's table of job types, some of which can share GPUs on some flavors."""
    found = []
    for flavor, ppm in sorted(_SPEEDS_PPM.items()):
        types = []
        for place, name in enumerate(_TYPES):
            others = _TYPES[place:] if flavor == "H100" else _TYPES[place : place + 1]
            beside = tuple((other, 6 * ppm, 6 * ppm) for other in others)
            types += [
                TypeRates(job_type=name, gpus=gpus, alone=10 * ppm, beside=beside)
                for gpus in (1, 2, 4)
            ]
        found.append(FlavorRates(flavor=flavor, types=tuple(types)))
    return tuple(found)


def _typed(chance: Random, arrival: Arrival, owners: Sequence[str]) -> Arrival:
    """Return ``arrival`` with a job type instead of rates; the pool may not know the type.

    The run belongs to one of ``owners``, and usually has the same size as other runs, so that two
    runs can share GPUs. Some runs are returned unchanged.
    """
    run = arrival.run
    if run.pool != POOL or run.rounds is None or one_in(chance, 4):
        return arrival
    work = RoundsWork(
        job_type=chance.choice((*_TYPES, *_TYPES, "unheard-of")),
        total_steps=run.rounds.total_steps,
        weight=run.rounds.weight,
    )
    taken = changed(
        run,
        owner=chance.choice(owners),
        gpus=1 if run.malleable is None else run.gpus,
        rounds=work,
        selector=(),
        group_gpus=None,
        cross_group_spread=True,
        checkpoint_ms=MINUTE_MS,
        funding=Funding(),
    )
    return Arrival(arrival.at_ms, taken, arrival.truth, arrival.patience_ms)


def _nodes(chance: Random) -> tuple[Node, ...]:
    """Return additional nodes of two flavors for the pool."""
    return tuple(
        Node(
            name=f"shared-{flavor.lower()}-{number}",
            flavor=flavor,
            gpus=chance.choice((2, 4)),
            region="r",
            cluster="c",
            domain="B",
        )
        for flavor in _SPEEDS_PPM
        for number in range(chance.randrange(1, 4))
    )


def _sharing(chance: Random, arrival: Arrival) -> Arrival:
    """Return ``arrival`` as a run of the pool; the pool must refuse one run in ten."""
    run, truth = arrival.run, arrival.truth
    speed = chance.choice((2, 10, 40))
    said = {flavor: speed * ppm / PPM for flavor, ppm in _SPEEDS_PPM.items()}
    if one_in(chance, 3):
        said[chance.choice(tuple(said))] *= chance.choice((0.1, 10.0))
    steps = max(1, speed * truth.work_ms // SECOND_MS)
    work = RoundsWork(
        throughputs=tuple(said.items()),
        total_steps=steps,
        weight=chance.choice((1.0, 1.0, 2.0, 0.5)),
        slo_ms=24 * HOUR_MS if one_in(chance, 8) else None,
    )
    if one_in(chance, 6):
        work = RoundsWork(job_type="resnet", total_steps=steps)
    taken = changed(run, pool=POOL, rounds=work, flavors=tuple(_SPEEDS_PPM), sensitive=False)
    if not one_in(chance, 10):
        taken = changed(taken, malleable=None, spares_per_group=0, gpus=_width(chance, run))
    speeds = tuple(_SPEEDS_PPM.items())
    real = Truth(
        work_ms=truth.work_ms,
        checkpoint_every_ms=truth.checkpoint_every_ms,
        code=truth.code,
        speeds_ppm=speeds,
    )
    return Arrival(arrival.at_ms, taken, real, arrival.patience_ms)


def _width(chance: Random, run: Run) -> int:
    """Return how many GPUs the run takes, rarely more than a node has."""
    return run.gpus if one_in(chance, 8) else chance.choice((1, 1, 1, 2, 2, 4))
