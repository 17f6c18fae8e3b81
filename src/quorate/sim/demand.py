"""Draws the runs of a random world, the real behaviour of these runs, and other commands.

The result is plain data from one random generator. ``random_world.py`` draws the fleet.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Final

from msgspec.structs import replace

from quorate.core.commands import (
    Applied,
    Apply,
    Cancel,
    Command,
    Complete,
    Resolve,
    Shrink,
    Submit,
)
from quorate.model.amounts import HOUR_MS, MINUTE_MS
from quorate.model.selector import CLUSTER
from quorate.model.specs import (
    Budget,
    Discipline,
    Follow,
    Funding,
    Malleable,
    Node,
    OnQuota,
    Owner,
    Placement,
    Pool,
    Replace,
    RoundsWork,
    Run,
    System,
    UpstreamFailure,
)
from quorate.sim.room_work import Truth

START_MS: Final = 1_700_000_000_000
"""When simulated time begins."""
TEAMS: Final = ("ant", "bee", "cat", "dog")
MAZE_GPUS: Final = 7
"""A number of GPUs for which the budget ``_maze`` seems to suffice, but does not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """The amount of activity: hours, runs, and other commands."""

    hours: int = 30
    runs: int = 70
    wishes: int = 50


@dataclass(frozen=True, slots=True)
class Arrival:
    """A run, its submission, its real behaviour, and how long its owner waits for its start."""

    at_ms: int
    run: Run
    truth: Truth
    patience_ms: int


@dataclass(frozen=True, slots=True)
class Wish:
    """A command of a person, other than a submission."""

    at_ms: int
    command: Command


# --- What arrives ---


def draw_arrivals(
    chance: Random, size: Size, until_ms: int, specs: Sequence[Pool | Node], *, is_honest: bool
) -> tuple[Arrival, ...]:
    """Return runs that arrive over time, some of them in bursts.

    In an honest world each run does exactly what it declares.
    """
    rushes = [chance.randrange(START_MS, until_ms) for _ in range(1 + size.hours // 10)]
    times = sorted(
        chance.choice(rushes) + chance.randrange(30 * MINUTE_MS)
        if chance.randrange(2)
        else chance.randrange(START_MS, until_ms)
        for _ in range(size.runs)
    )
    usual_ms = {spec.name: spec.expected_duration_ms for spec in specs if isinstance(spec, Pool)}
    flavors = {spec.flavor for spec in specs if isinstance(spec, Node)}
    found: list[Arrival] = []
    for number, at_ms in enumerate(times):
        run = _run(chance, number, found)
        if not flavors.issuperset(run.flavors) and not one_in(chance, 20):
            run = replace(run, flavors=("H100",))
        if is_honest:
            run = _steady(run)
        # The search for payers in the budget ``_maze`` is slow, so its runs wait only briefly.
        is_lost = run.owner == "maze"
        patience_ms = chance.randrange(MINUTE_MS if is_lost else 4 * HOUR_MS)
        said_ms = run.expected_duration_ms or usual_ms.get(run.pool, HOUR_MS)
        said_ms = HOUR_MS if is_lost else said_ms
        truth = _truth(chance, said_ms, is_honest=is_honest)
        found.append(Arrival(at_ms, run, truth, patience_ms))
    return tuple(found)


def _run(chance: Random, number: int, before: Sequence[Arrival]) -> Run:
    gpus = chance.choice((1, 1, 2, 2, 3, 4, 6, 8, 12, 16))
    malleable = None
    if one_in(chance, 2):
        least, step, steps = chance.choice((1, 2, 4)), chance.choice((1, 2, 4)), chance.randrange(4)
        most = least + steps * step
        gpus = most - chance.randrange(steps + 1) * step
        wanted = chance.choice((gpus, most))
        malleable = Malleable(gpus_min=least, gpus_max=most, gpus_step=step, gpus_desired=wanted)
    follow = None
    if before and one_in(chance, 6):
        after = chance.sample([a.run.name for a in before[-8:]], k=min(2, len(before[-8:])))
        follow = Follow(
            after=tuple(after),
            on_upstream_failure=chance.choice((UpstreamFailure.WAIT, UpstreamFailure.FAIL)),
            grace_ms=chance.choice((0, 30 * MINUTE_MS, 2 * HOUR_MS)),
        )
    run = Run(
        name=f"run{number:03d}",
        owner="guest" if one_in(chance, 8) else chance.choice((*TEAMS, *TEAMS, "org")),
        flavors=chance.choice((("H100",), ("H100",), ("H100", "A100"), ("A100",))),
        gpus=gpus,
        user="user",
        pool="side" if one_in(chance, 6) else "default",
        group_gpus=chance.choice((None, None, 1, 2, 4)),
        cross_group_spread=not one_in(chance, 4),
        malleable=malleable,
        spares_per_group=chance.choice((0, 0, 1, 4, 8)),
        replace=chance.choice((Replace.SAME_DOMAIN, Replace.SAME_DOMAIN, Replace.RESTART)),
        expected_duration_ms=chance.choice((None, *(n * MINUTE_MS for n in (10, 30, 60, 180)))),
        checkpoint_ms=chance.choice((0, MINUTE_MS, 2 * MINUTE_MS, 10 * MINUTE_MS)),
        funding=_funding(chance),
        follow=follow,
        on_quota=OnQuota.WAIT if number % 3 == 0 else OnQuota.REFUSE,
        nonce=f"{chance.getrandbits(64):016x}",
    )
    return _odd(chance, run) if one_in(chance, 12) else run


def _steady(run: Run) -> Run:
    """Return ``run`` with its minimum width as the declared width, so it never has less."""
    if run.malleable is None:
        return run
    return replace(run, gpus=run.malleable.gpus_min)


def _odd(chance: Random, run: Run) -> Run:
    """Return ``run``, changed so that it must be refused, or so that the decision is difficult."""
    lost = replace(run, owner="maze", gpus=MAZE_GPUS, malleable=None, flavors=("H100",))
    lost = replace(lost, pool="default", group_gpus=None, spares_per_group=0, funding=Funding())
    lost = replace(lost, expected_duration_ms=1_000 * HOUR_MS)
    return chance.choice(
        (
            lost if one_in(chance, 4) else run,
            replace(run, selector=((CLUSTER, "nowhere"),)),
            replace(run, sensitive=True),
            replace(run, rounds=RoundsWork(total_steps=10)),
            replace(run, pool="drained-long-ago"),
        )
    )


def _funding(chance: Random) -> Funding:
    if chance.randrange(2):
        return Funding()
    return Funding(
        allow_borrow=True,
        borrow_gpus_max=chance.choice((None, 2, 4, 6)),
        sponsors=chance.choice(((), ("lab",), ("dog", "lab"))),
    )


def _truth(chance: Random, said_ms: int, *, is_honest: bool) -> Truth:
    """Return the real behaviour of a run: its declared duration, or much less, or much more."""
    tenths = 10 if is_honest else chance.choice((1, 5, 9, 10, 10, 11, 20, 100))
    return Truth(
        work_ms=max(1, said_ms * tenths // 10),
        checkpoint_every_ms=chance.choice((MINUTE_MS, 10 * MINUTE_MS, HOUR_MS)),
        code=0 if is_honest else chance.choice((0, 0, 0, 0, 1)),
    )


# --- What people ask for ---


def draw_wishes(
    chance: Random,
    size: Size,
    until_ms: int,
    arrivals: Sequence[Arrival],
    specs: Sequence[Applied],
) -> tuple[Wish, ...]:
    """Return the commands of users and operators that submit no run, such as cancel and apply."""
    found = []
    for _ in range(size.wishes):
        arrival = chance.choice(arrivals)
        if chance.randrange(3):
            at_ms = arrival.at_ms + chance.randrange(HOUR_MS)
            found.append(Wish(at_ms, _wish_about(chance, arrival.run)))
            continue
        # A budget is lowered, or GPUs are freed by hand, while runs are active.
        at_ms = min(until_ms, arrival.at_ms + chance.randrange(2 * HOUR_MS))
        if chance.randrange(2):
            found.append(Wish(at_ms, Apply((_changed(chance, chance.choice(specs)),))))
        elif chance.randrange(2):
            budgets = [spec for spec in specs if isinstance(spec, Budget)]
            found.append(Wish(at_ms, Apply((_tightened(chance, chance.choice(budgets)),))))
        else:
            found.append(Wish(at_ms, _room(chance)))
    return tuple(sorted(found, key=lambda wish: wish.at_ms))


def _wish_about(chance: Random, run: Run) -> Command:
    elastic = run.malleable
    gpus = run.gpus + 1
    if elastic is not None and chance.randrange(4):
        steps = (elastic.gpus_max - elastic.gpus_min) // elastic.gpus_step
        gpus = elastic.gpus_min + chance.randrange(steps + 1) * elastic.gpus_step
    if elastic is not None and one_in(chance, 2):
        return Shrink(run.name, gpus)
    choices: tuple[Command, ...] = (
        Cancel(run.name, "no longer wanted"),
        Shrink(run.name, gpus),
        Complete(f"{run.name}-misspelt"),
        Submit(replace(run, user="somebody else")),
    )
    return chance.choice(choices)


def _room(chance: Random) -> Resolve:
    """Return a request to free GPUs by hand; some requests name too many GPUs or unknown places."""
    return Resolve(
        pool=chance.choice(("default", "default", "side")),
        flavor=chance.choice(("H100", "H100", "A100")),
        domains=chance.choice(((), (), ("r/c/A",), ("r/c/A", "r/c/B"))),
        gpus=chance.choice((1, 2, 2, 4, 8, 1_000)),
    )


def _changed(chance: Random, spec: Applied) -> Applied:
    """Return ``spec`` with a small change: a larger or smaller number, or another place."""
    match spec:
        case Node():
            gpus = max(1, spec.gpus + chance.choice((-1, 0, 1)))
            return replace(spec, gpus=gpus, domain=chance.choice((spec.domain, "A")))
        case Budget():
            lines = tuple(
                replace(line, concurrency=max(1, line.concurrency + chance.choice((-2, 0, 2))))
                for line in spec.envelopes
            )
            return replace(spec, envelopes=lines)
        case Owner():
            return replace(spec, parents=chance.choice(((), ("org",), ("nobody",))))
        case Pool():
            if one_in(chance, 4):
                return replace(spec, discipline=Discipline.ROUNDS)
            return replace(spec, placement=chance.choice(tuple(Placement)))
        case System() | Run():
            return System(budget_period_days=chance.randrange(1, 90))


def _tightened(chance: Random, budget: Budget) -> Budget:
    """Return ``budget`` with one of its limits far below the possible usage.

    GPU-hours are not changed: spent GPU-hours cannot be taken back.
    """
    lines = []
    kind = chance.randrange(3)
    for line in budget.envelopes:
        granted = replace(line, gpu_ms_max=line.gpu_ms_granted)
        if kind == 0:
            granted = replace(granted, concurrency=max(1, line.concurrency // 4))
        elif kind == 1 and line.lending.allow:
            lent = replace(line.lending, concurrency_max=chance.randrange(2))
            granted = replace(granted, lending=lent)
        lines.append(granted)
    caps = budget.caps
    if kind == 2:  # noqa: PLR2004 - the third of three
        caps = tuple(replace(cap, concurrency_max=chance.randrange(1, 4)) for cap in caps)
    return replace(budget, envelopes=tuple(lines), caps=caps)


def one_in(chance: Random, number: int) -> bool:
    """Return True with a probability of one in ``number``."""
    return chance.randrange(number) == 0
