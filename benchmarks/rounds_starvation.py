"""Starvation in pools of rounds: the shortfall of gangs and of runs with small shares.

Random pools have one to three flavors. Runs of one to eight GPUs ask for two to four times the
available GPUs, beside gangs of up to a whole flavor. The production engine shares each pool for 100
rounds by water filling. A *cell* is a run's recorded share of a flavor, if it is at least 2 % of
the time; the shortfall of a cell is the part of the share that the run did not get. Besides the
worst cell, the report has the median deviation of cells, the part of grants that restart a run, and
the part of the GPUs' time under leases.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from statistics import median
from typing import Final

from benchmarks.figure import Effort, Figure
from quorate.adapters.stores.store_memory import MemoryStore
from quorate.core.commands import Applied, Apply
from quorate.ledger.chain import open_blocks
from quorate.model.amounts import HOUR_MS, MINUTE_MS, PPM
from quorate.model.events import RoundShared
from quorate.model.specs import Discipline, Node, Owner, Pool, Quota, RoundsWork, Run
from quorate.model.state.entitlements import received_ms
from quorate.sim.room_work import Truth
from quorate.sim.sim_executor import SimExecutor
from quorate.sim.simulation import Simulation, Timeline, VirtualClock
from quorate.testing.builders import ANYWHERE, NOW_MS, budget, envelope, node

POLICY: Final = "max_min_fairness_water_filling_perf"
SPEEDS: Final = {"a100": 8.0, "k80": 1.0, "v100": 3.0}
OWNERS: Final = ("ant", "bee", "cat", "dog")
ROUND_MS: Final = 6 * MINUTE_MS
SHARE_MIN: Final = 0.02
"""The least share that counts: two rounds of 100."""
SHORT_MAX: Final = 0.20
MEDIAN_MAX: Final = 0.03
RESTARTS_MAX: Final = 0.35
USED_MIN: Final = 0.98


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The results of one pool."""

    seed: int
    gpus: dict[str, int]
    runs: int
    widest: int
    short: float
    short_run: str
    errors: tuple[float, ...]
    grants: int
    restarts: int
    used: float


def measure(effort: Effort) -> list[Figure]:
    """Return the worst figures of all pools, and the details of each pool."""
    pools, rounds = effort.of(20, 3), effort.of(100, 30)
    found = [play(seed, rounds) for seed in range(pools)]
    worst = max(found, key=lambda each: each.short)
    details: dict[str, float | int | str] = {"rounds": rounds}
    details["worst"] = f"seed {worst.seed}, {worst.short_run}"
    for each in found:
        details[f"seed {each.seed}"] = (
            f"{sum(each.gpus.values())} GPUs, {each.runs} runs up to {each.widest} wide: "
            f"short {each.short:.3f}, median {median(each.errors):.3f}, "
            f"restarts {each.restarts / each.grants:.3f}, used {each.used:.3f}"
        )
    errors = [error for each in found for error in each.errors]
    name = "rounds starvation"
    return [
        Figure(
            name=f"{name}: the worst shortfall of a share of 2 %",
            unit="of the share",
            value=worst.short,
            better="less",
            target=SHORT_MAX,
            details=details,
        ),
        Figure(
            name=f"{name}: the median cell, off by",
            unit="of the share",
            value=median(errors),
            better="less",
            target=MEDIAN_MAX,
        ),
        Figure(
            name=f"{name}: grants that begin a run anew",
            unit="of grants",
            value=sum(each.restarts for each in found) / sum(each.grants for each in found),
            better="less",
            target=RESTARTS_MAX,
            details={"the most of a pool": max(each.restarts / each.grants for each in found)},
        ),
        Figure(
            name=f"{name}: GPUs under leases",
            unit="of the time",
            value=_used(found),
            better="more",
            target=USED_MIN,
            details={"the least of a pool": min(each.used for each in found)},
        ),
    ]


def _used(found: list[Outcome]) -> float:
    """Return the part of the time in which the GPUs of all pools were under leases."""
    gpus = [sum(each.gpus.values()) for each in found]
    used = (each.used * count for each, count in zip(found, gpus, strict=True))
    return sum(used) / sum(gpus)


def play(seed: int, rounds: int) -> Outcome:
    """Return the results of the random pool of ``seed`` after ``rounds`` rounds."""
    chance = Random(seed)
    specs = tuple(_fleet(chance))
    gpus = Counter[str]()
    for spec in specs:
        if isinstance(spec, Node):
            gpus[spec.flavor] += spec.gpus
    runs = tuple(_runs(chance, gpus))
    simulation = _opened(specs, runs)
    simulation.run(NOW_MS + rounds * ROUND_MS)
    engine = simulation.engine
    assert engine is not None, "nothing crashes here"
    view, now_ms = engine.view, simulation.timeline.now_ms
    shared = [
        event
        for _, block in open_blocks(simulation.store.blocks())
        for event in block
        if isinstance(event, RoundShared)
    ]
    assert all(not event.causes for event in shared), shared[-1].causes
    due: Counter[tuple[str, str]] = Counter()
    for event in shared:
        lasted_ms = min(event.until_ms, now_ms) - event.at_ms
        for share in event.shares:
            for flavor, ppm in zip(event.flavors, share.shares_ppm, strict=True):
                due[share.run, flavor] += ppm * lasted_ms // PPM
    had = {run.name: received_ms(view, run.name, now_ms) for run in runs}
    whole_ms = now_ms - NOW_MS
    cells = [
        (1.0 - had[run].get(flavor, 0) / ms, run, flavor)
        for (run, flavor), ms in due.items()
        if ms >= SHARE_MIN * whole_ms
    ]
    short, name, flavor = max(cells)
    width = {run.name: run.gpus for run in runs}
    grants = [grant for event in shared for grant in event.grants]
    used = sum(width[run] * sum(by.values()) for run, by in had.items())
    return Outcome(
        seed=seed,
        gpus=dict(gpus),
        runs=len(runs),
        widest=max(width.values()),
        short=max(short, 0.0),
        short_run=f"{name} of {width[name]} GPUs on {flavor}, due "
        f"{due[name, flavor] / ROUND_MS:.1f} rounds",
        errors=tuple(abs(each) for each, _, _ in cells),
        grants=len(grants),
        restarts=sum(not grant.stays for grant in grants),
        used=used / (sum(gpus.values()) * whole_ms),
    )


def _opened(specs: tuple[Applied, ...], runs: tuple[Run, ...]) -> Simulation:
    flavors = {spec.name: spec.flavor for spec in specs if isinstance(spec, Node)}
    timeline = Timeline(VirtualClock(NOW_MS))
    truth = Truth(work_ms=10_000 * HOUR_MS, checkpoint_every_ms=HOUR_MS)
    executor = SimExecutor(
        timeline,
        truth_of=lambda _: truth,
        stop_delay=lambda left_ms: min(left_ms, 2_000),
        notice_ms=HOUR_MS,
        flavor_of=flavors.__getitem__,
    )
    simulation = Simulation(timeline, MemoryStore(), executor)
    for applied in (specs, runs):
        done = simulation.send(Apply(applied), actor="operator")
        assert done is not None, "nothing crashes here"
        assert not done.decision.refusals, done.decision.refusals[:3]
    simulation.step()
    return simulation


def _fleet(chance: Random) -> Iterator[Applied]:
    """Yield the pool, its nodes of eight GPUs, and owners with targets and budgets."""
    yield Pool(
        name="shared",
        selector=ANYWHERE,
        discipline=Discipline.ROUNDS,
        policy=POLICY,
        round_ms=ROUND_MS,
    )
    flavors = chance.sample(sorted(SPEEDS), chance.randrange(1, 4))
    for flavor in flavors:
        for number in range(chance.choice((2, 4, 8))):
            yield node(f"{flavor}-{number}", domain=flavor, flavor=flavor)
    for owner in OWNERS:
        yield Owner(name=owner, quota=Quota(fair_share_target_ppm=PPM // len(OWNERS)))
        yield budget(f"b-{owner}", owner, *(envelope(f, 10_000, flavor=f) for f in flavors))


def _runs(chance: Random, gpus: Counter[str]) -> Iterator[Run]:
    """Yield small runs that ask for two to four times the GPUs, and gangs up to a whole flavor."""
    wanted = int(chance.uniform(2.0, 4.0) * sum(gpus.values()))
    widths: list[int] = []
    while sum(widths) < wanted:
        widths.append(chance.choice((1, 1, 1, 2, 2, 4, 8)))
    for _ in range(chance.randrange(1, 5)):
        whole = chance.choice(sorted(gpus.values()))
        widths.append(chance.choice((whole, whole // 2, chance.randint(whole // 2, whole))))
    for number, width in enumerate(widths):
        flavors = tuple(flavor for flavor in gpus if gpus[flavor] >= width)
        rates = ((flavor, SPEEDS[flavor] * chance.uniform(0.4, 1.6)) for flavor in flavors)
        yield Run(
            name=f"run{number:03d}",
            owner=OWNERS[number % len(OWNERS)],
            flavors=flavors,
            gpus=width,
            pool="shared",
            checkpoint_ms=MINUTE_MS,
            rounds=RoundsWork(
                throughputs=tuple(rates), weight=chance.choice((1.0, 1.0, 1.0, 2.0, 5.0))
            ),
        )
