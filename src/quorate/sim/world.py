"""Random worlds: fleets, families, money and work, all drawn from one stream of chance.

A world is plain data: what is declared at the start, which runs arrive when, what they really do,
and what people ask for in between. A trace is another way to make the same data.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Final

from msgspec.structs import replace

from quorate.core.commands import Applied, Apply, Cancel, Command, Complete, Shrink, Submit
from quorate.model.amounts import HOUR_MS, MINUTE_MS
from quorate.model.selector import CLUSTER, DOMAIN, RACK, REGION, Selector
from quorate.model.specs import (
    Budget,
    Cap,
    Envelope,
    Follow,
    Funding,
    Lending,
    Malleable,
    Node,
    Owner,
    Placement,
    Pool,
    Replace,
    RoundsWork,
    Run,
    Sharing,
    System,
    UpstreamFailure,
)
from quorate.sim.executor import Truth

START_MS: Final = 1_700_000_000_000
"""When simulated life begins."""

_FLAVORS: Final = ("H100", "A100")
_TEAMS: Final = ("ant", "bee", "cat", "dog")
_EVERYWHERE: Final[Selector] = ((REGION, "r"),)


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """How much happens: for so many hours, so many runs, and other commands."""

    hours: int = 30
    runs: int = 70
    wishes: int = 50


@dataclass(frozen=True, slots=True)
class Arrival:
    """A run, when it is submitted, what it really is, and how long its owner waits for a start."""

    at_ms: int
    run: Run
    truth: Truth
    patience_ms: int


@dataclass(frozen=True, slots=True)
class Wish:
    """Something else that somebody asks for."""

    at_ms: int
    command: Command


@dataclass(frozen=True, slots=True)
class World:
    """All that is given before anything is decided."""

    specs: tuple[Applied, ...]
    arrivals: tuple[Arrival, ...]
    wishes: tuple[Wish, ...]
    until_ms: int

    @property
    def nodes(self) -> tuple[str, ...]:
        """The names of the nodes."""
        return tuple(spec.name for spec in self.specs if isinstance(spec, Node))


def draw_world(chance: Random, size: Size) -> World:
    """Return a world drawn from ``chance``."""
    until_ms = START_MS + size.hours * HOUR_MS
    nodes = _nodes(chance)
    budgets = _budgets(chance, nodes, until_ms)
    arrivals = _arrivals(chance, size, until_ms)
    specs: tuple[Applied, ...] = (System(), *_pools(chance), *nodes, *_owners(chance), *budgets)
    wishes = _wishes(chance, size, until_ms, arrivals, specs)
    return World(specs, arrivals, wishes, until_ms)


# --- What is there ---


def _nodes(chance: Random) -> tuple[Node, ...]:
    found = []
    for domain in "ABCD"[: chance.randrange(2, 5)]:
        flavor = "A100" if domain == "C" else "H100"
        gpus = chance.choice((2, 4, 8))
        for number in range(chance.randrange(3, 7)):
            node = Node(
                name=f"{domain.lower()}{number}",
                flavor=flavor,
                gpus=gpus,
                region="r",
                cluster="c" if domain != "D" else "d",
                domain=domain,
                rack=chance.choice((None, "r1", "r2")),
            )
            found.append(node)
    return tuple(found)


def _pools(chance: Random) -> tuple[Pool, ...]:
    side = Pool(
        name="side",
        selector=((DOMAIN, "B"),),
        placement=chance.choice(tuple(Placement)),
        whole_nodes=_one_in(chance, 3),
        expected_duration_ms=chance.choice((20 * MINUTE_MS, HOUR_MS)),
        grace_max_ms=chance.choice((MINUTE_MS, 5 * MINUTE_MS)),
    )
    return Pool(name="default", placement=chance.choice(tuple(Placement))), side


def _owners(chance: Random) -> tuple[Owner, ...]:
    """Return a family, a half-sister, a lab that only lends, and a guest without money."""
    parents = (("org",), ("org", "lab"))
    teams = (Owner(name=name, parents=chance.choice(parents)) for name in _TEAMS)
    return (Owner(name="org"), Owner(name="lab"), *teams, Owner(name="guest"), Owner(name="maze"))


def _budgets(chance: Random, nodes: Sequence[Node], until_ms: int) -> tuple[Budget, ...]:
    gpus = {flavor: sum(n.gpus for n in nodes if n.flavor == flavor) for flavor in _FLAVORS}
    owners = ("org", "lab", *_TEAMS)
    found = [_budget(chance, owner, gpus, until_ms) for owner in owners]
    return (*found, _maze(until_ms))


def _budget(chance: Random, owner: str, gpus: dict[str, int], until_ms: int) -> Budget:
    lines: list[Envelope] = []
    for number in range(chance.randrange(1, 4)):
        flavor = chance.choice(("H100", "H100", "A100")) if number else "H100"
        lines.append(_envelope(chance, f"e{number}", flavor, max(4, gpus[flavor]), until_ms))
    names = tuple(line.name for line in lines if line.flavor == "H100")
    caps: tuple[Cap, ...] = ()
    if chance.randrange(2):
        wide = sum(line.concurrency for line in lines if line.flavor == "H100")
        hours = None if chance.randrange(2) else wide * chance.randrange(1, 20) * HOUR_MS
        caps = (
            Cap(
                name="cap",
                flavor="H100",
                envelopes=names,
                concurrency_max=max(1, wide - chance.randrange(wide)),
                gpu_ms_max=hours,
            ),
        )
    return Budget(name=f"b-{owner}", owner=owner, envelopes=tuple(lines), caps=caps)


def _envelope(chance: Random, name: str, flavor: str, gpus: int, until_ms: int) -> Envelope:
    concurrency = chance.randrange(gpus // 4, gpus)
    start_ms = START_MS + chance.choice((-1, -1, -1, 3)) * HOUR_MS
    end_ms = start_ms + chance.choice((6, 15, 200, 200)) * HOUR_MS + chance.randrange(HOUR_MS)
    hours = chance.choice((None, None, 1, 4, 12))
    places: tuple[Selector, ...] = (((DOMAIN, "A"),), ((CLUSTER, "c"),), ((RACK, "r1"),))
    selector = chance.choice((_EVERYWHERE, _EVERYWHERE, *places))
    lending = Lending()
    if _one_in(chance, 3):
        lending = Lending(
            allow=True,
            to=chance.choice(((), ("ant", "bee"), ("c*",))),
            concurrency_max=chance.choice((None, 2, 4)),
            gpu_ms_max=chance.choice((None, 8 * HOUR_MS)),
        )
    return Envelope(
        name=name,
        flavor=flavor,
        selector=selector,
        start_ms=start_ms,
        end_ms=min(end_ms, until_ms + 300 * HOUR_MS),
        concurrency=concurrency,
        gpu_ms_max=None if hours is None else hours * concurrency * HOUR_MS,
        allow_admission=_one_in(chance, 4),
        sharing=chance.choice((Sharing.FAMILY, Sharing.FAMILY, Sharing.NONE)),
        lending=lending,
    )


def _maze(until_ms: int) -> Budget:
    """Return a budget whose overlapping caps make it hard to say that it cannot pay."""
    lines = tuple(
        Envelope(
            name=f"e{number:02d}",
            flavor="H100",
            selector=_EVERYWHERE,
            start_ms=START_MS - HOUR_MS,
            end_ms=until_ms + 300 * HOUR_MS,
            concurrency=1,
            sharing=Sharing.NONE,
        )
        for number in range(_MAZE_RINGS * 3)
    )
    names = [line.name for line in lines]
    caps = tuple(
        Cap(
            name=f"c{ring}-{side}",
            flavor="H100",
            envelopes=(names[3 * ring + side], names[3 * ring + (side + 1) % 3]),
            concurrency_max=1,
        )
        for ring in range(_MAZE_RINGS)
        for side in range(3)
    )
    return Budget(name="b-maze", owner="maze", envelopes=lines, caps=caps)


_MAZE_RINGS: Final = 6
"""Rings of three lines, any two under one cap: each ring pays one GPU, and looks like more."""


# --- What arrives ---


def _arrivals(chance: Random, size: Size, until_ms: int) -> tuple[Arrival, ...]:
    times = sorted(chance.randrange(START_MS, until_ms) for _ in range(size.runs))
    found: list[Arrival] = []
    for number, at_ms in enumerate(times):
        run = _run(chance, number, found)
        # Looking for a way through the maze takes its time, so nobody does so for long.
        is_lost = run.owner == "maze"
        patience_ms = chance.randrange(MINUTE_MS if is_lost else 8 * HOUR_MS)
        found.append(Arrival(at_ms, run, _truth(chance, run), patience_ms))
    return tuple(found)


def _run(chance: Random, number: int, before: Sequence[Arrival]) -> Run:
    gpus = chance.choice((1, 1, 2, 2, 3, 4, 6, 8, 12, 16))
    malleable = None
    if _one_in(chance, 2):
        least, step, steps = chance.choice((1, 2, 4)), chance.choice((1, 2, 4)), chance.randrange(4)
        most = least + steps * step
        gpus = most - chance.randrange(steps + 1) * step
        wanted = chance.choice((gpus, most))
        malleable = Malleable(gpus_min=least, gpus_max=most, gpus_step=step, gpus_desired=wanted)
    follow = None
    if before and _one_in(chance, 6):
        after = chance.sample([a.run.name for a in before[-8:]], k=min(2, len(before[-8:])))
        follow = Follow(after=tuple(after), on_upstream_failure=chance.choice((*UpstreamFailure,)))
    run = Run(
        name=f"run{number:03d}",
        owner="guest" if _one_in(chance, 8) else chance.choice((*_TEAMS, *_TEAMS, "org")),
        flavors=chance.choice((("H100",), ("H100",), ("H100", "A100"), ("A100",))),
        gpus=gpus,
        user="user",
        pool="side" if _one_in(chance, 6) else "default",
        group_gpus=chance.choice((None, None, 2, 4)),
        cross_group_spread=not _one_in(chance, 4),
        malleable=malleable,
        spares_per_group=chance.choice((0, 0, 1, 4, 8)),
        replace=chance.choice((Replace.SAME_DOMAIN, Replace.SAME_DOMAIN, Replace.RESTART)),
        expected_duration_ms=chance.choice((None, *(n * MINUTE_MS for n in (10, 30, 60, 180)))),
        checkpoint_ms=chance.choice((0, MINUTE_MS, 2 * MINUTE_MS, 10 * MINUTE_MS)),
        funding=_funding(chance),
        follow=follow,
    )
    return _odd(chance, run) if _one_in(chance, 12) else run


def _odd(chance: Random, run: Run) -> Run:
    """Return ``run`` with something about it that cannot be, or is hard to say no to."""
    lost = replace(run, owner="maze", gpus=_MAZE_RINGS + 1, malleable=None, flavors=("H100",))
    lost = replace(lost, pool="default", group_gpus=None, spares_per_group=0, funding=Funding())
    return chance.choice(
        (
            lost if _one_in(chance, 3) else run,
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


def _truth(chance: Random, run: Run) -> Truth:
    """Return what ``run`` really is: what it said, or much less, or much more."""
    said_ms = run.expected_duration_ms or HOUR_MS
    work_ms = said_ms * chance.choice((1, 5, 9, 10, 10, 11, 20, 60)) // 10
    return Truth(
        work_ms=max(1, work_ms),
        checkpoint_every_ms=chance.choice((MINUTE_MS, 10 * MINUTE_MS, HOUR_MS)),
        code=chance.choice((0, 0, 0, 0, 1)),
    )


# --- What people ask for ---


def _wishes(
    chance: Random,
    size: Size,
    until_ms: int,
    arrivals: Sequence[Arrival],
    specs: Sequence[Applied],
) -> tuple[Wish, ...]:
    found = []
    for _ in range(size.wishes):
        arrival = chance.choice(arrivals)
        if chance.randrange(3):
            at_ms = arrival.at_ms + chance.randrange(HOUR_MS)
            found.append(Wish(at_ms, _wish_about(chance, arrival.run)))
        else:
            at_ms = chance.randrange(START_MS, until_ms)
            found.append(Wish(at_ms, Apply((_changed(chance, chance.choice(specs)),))))
    return tuple(sorted(found, key=lambda wish: wish.at_ms))


def _wish_about(chance: Random, run: Run) -> Command:
    elastic = run.malleable
    gpus = run.gpus + 1
    if elastic is not None and chance.randrange(4):
        steps = (elastic.gpus_max - elastic.gpus_min) // elastic.gpus_step
        gpus = elastic.gpus_min + chance.randrange(steps + 1) * elastic.gpus_step
    if elastic is not None and _one_in(chance, 2):
        return Shrink(run.name, gpus)
    choices: tuple[Command, ...] = (
        Cancel(run.name, "no longer wanted"),
        Shrink(run.name, gpus),
        Complete(f"{run.name}-misspelt"),
        Submit(replace(run, user="somebody else")),
    )
    return chance.choice(choices)


def _changed(chance: Random, spec: Applied) -> Applied:
    """Return ``spec`` a little different: more, less, or elsewhere."""
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
            return replace(spec, placement=chance.choice(tuple(Placement)))
        case System() | Run():
            return System(budget_period_days=chance.randrange(1, 90))


def _one_in(chance: Random, number: int) -> bool:
    """Return True once in ``number`` times."""
    return chance.randrange(number) == 0
