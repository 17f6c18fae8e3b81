"""Random fleets, owner families, budgets and runs, all generated from one seeded generator.

A world is plain data: the documents applied at the start, the runs with their arrivals and real
behaviour, and people's other commands (``sim/demand.py``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Final

from quorate.core.commands import Applied
from quorate.model.amounts import HOUR_MS, MINUTE_MS, SECOND_MS
from quorate.model.selector import CLUSTER, DOMAIN, RACK, REGION, Selector
from quorate.model.specs import (
    Budget,
    Cap,
    Envelope,
    Lending,
    Node,
    Owner,
    Placement,
    Pool,
    Sharing,
    System,
)
from quorate.sim.claim_demand import draw_claim_wishes
from quorate.sim.demand import (
    START_MS,
    TEAMS,
    Arrival,
    Size,
    Wish,
    draw_arrivals,
    draw_wishes,
    one_in,
)
from quorate.sim.loan_demand import draw_loans
from quorate.sim.tenant_demand import draw_soft_quota, draw_tenant_wishes

_FLAVORS: Final = ("H100", "A100")
_EVERYWHERE: Final[Selector] = ((REGION, "r"),)


@dataclass(frozen=True, slots=True)
class World:
    """The data of a simulation before the first decision.

    In an honest world every run takes as long as it declares and nothing fails, so a firm start
    must never move.
    """

    specs: tuple[Applied, ...]
    arrivals: tuple[Arrival, ...]
    wishes: tuple[Wish, ...]
    until_ms: int
    is_honest: bool = False

    @property
    def nodes(self) -> tuple[str, ...]:
        """The names of the nodes."""
        return tuple(spec.name for spec in self.specs if isinstance(spec, Node))


def draw_world(chance: Random, size: Size) -> World:
    """Return a world drawn from ``chance``; one world in five is honest."""
    until_ms = START_MS + size.hours * HOUR_MS
    is_honest = one_in(chance, 5)
    nodes, pools = _nodes(chance), _pools(chance)
    budgets = _budgets(chance, nodes, until_ms)
    arrivals = draw_arrivals(chance, size, until_ms, (*pools, *nodes), is_honest=is_honest)
    # In some worlds the period of soft budgets is one day, so that they renew during the
    # simulation.
    system = System(
        budget_period_days=chance.choice((1, 1, 90)),
        sensitive_pool_size=chance.choice((None, 1, 2)),
    )
    specs: tuple[Applied, ...] = (system, *pools, *nodes, *_owners(chance), *budgets)
    wishes: tuple[Wish, ...] = ()
    if not is_honest:
        wishes = draw_wishes(chance, size, until_ms, arrivals, specs)
        wishes += draw_tenant_wishes(chance, size, until_ms, arrivals)
        wishes += draw_claim_wishes(chance, size, START_MS, until_ms, nodes)
    in_time = tuple(sorted(wishes, key=lambda wish: wish.at_ms))
    # Loans are drawn from a separate generator, so that all other draws stay the same.
    loans = Random(f"{chance.getrandbits(64)}/loans")
    more, borrowed = draw_loans(loans, size, until_ms, is_honest=is_honest)
    arrivals = tuple(sorted((*arrivals, *borrowed), key=lambda arrival: arrival.at_ms))
    return World((*specs, *more), arrivals, in_time, until_ms, is_honest)


# --- What exists ---


def _nodes(chance: Random) -> tuple[Node, ...]:
    found = []
    for domain in chance.choice(("A", "AB", "AC", "ABC", "ABCD")):
        flavor = "A100" if domain == "C" else "H100"
        gpus = chance.choice((2, 4, 8))
        for number in range(chance.randrange(2, 6)):
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
    default = Pool(
        name="default",
        placement=chance.choice(tuple(Placement)),
        notice_ms=chance.choice((MINUTE_MS, 5 * MINUTE_MS, 15 * MINUTE_MS)),
        runtime_min_ms=chance.choice((None, MINUTE_MS, 10 * MINUTE_MS)),
        cool_down_ms=chance.choice((None, MINUTE_MS)),
        disruption_rate_ppm=chance.choice((10_000, 10_000, 0, 1_000_000)),
        collateral_max=chance.choice((1, 4)),
        reservation_depth=chance.choice((100, 100, 3)),
    )
    side = Pool(
        name="side",
        selector=((DOMAIN, "B"),),
        placement=chance.choice(tuple(Placement)),
        whole_nodes=one_in(chance, 3),
        expected_duration_ms=chance.choice((20 * MINUTE_MS, HOUR_MS)),
        grace_max_ms=chance.choice((MINUTE_MS, 5 * MINUTE_MS)),
        notice_ms=MINUTE_MS,
    )
    return default, side


def _owners(chance: Random) -> tuple[Owner, ...]:
    """Return an organisation and its teams, a lab without runs, and two owners outside the family.

    The lab is a second parent of some teams.
    """
    parents = (("org",), ("org", "lab"))
    teams = (
        Owner(name=name, parents=chance.choice(parents), quota=draw_soft_quota(chance))
        for name in TEAMS
    )
    return (Owner(name="org"), Owner(name="lab"), *teams, Owner(name="guest"), Owner(name="maze"))


def _budgets(chance: Random, nodes: Sequence[Node], until_ms: int) -> tuple[Budget, ...]:
    gpus = {flavor: sum(n.gpus for n in nodes if n.flavor == flavor) for flavor in _FLAVORS}
    owners = ("org", "lab", *TEAMS)
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
    # Some windows close during the simulation, and some envelopes run out of GPU-hours.
    way_ms = until_ms - START_MS
    end_ms = start_ms + chance.choice((way_ms // 5, way_ms // 2, 9 * way_ms, 9 * way_ms))
    hours = chance.choice((None, None, 1, 4, 12))
    places: tuple[Selector, ...] = (((DOMAIN, "A"),), ((CLUSTER, "c"),), ((RACK, "r1"),))
    selector = chance.choice((_EVERYWHERE, *places))
    lending = Lending()
    if one_in(chance, 3):
        lending = Lending(
            allow=True,
            to=chance.choice(((), ("ant", "bee"), ("c*",))),
            concurrency_max=chance.choice((None, 2, 4)),
            gpu_ms_max=chance.choice((None, 8 * HOUR_MS)),
            recall_notice_ms=_recall_notice_ms(name, end_ms),
        )
    return Envelope(
        name=name,
        flavor=flavor,
        selector=selector,
        start_ms=start_ms,
        end_ms=end_ms + chance.randrange(HOUR_MS),
        concurrency=concurrency,
        gpu_ms_max=None if hours is None else hours * concurrency * way_ms // 30,
        allow_reservations=one_in(chance, 2),
        allow_admission=one_in(chance, 4),
        sharing=chance.choice((Sharing.FAMILY, Sharing.FAMILY, Sharing.NONE)),
        lending=lending,
    )


def _recall_notice_ms(name: str, end_ms: int) -> int | None:
    """Return an envelope's notice of recall, or None, drawn from a separate generator."""
    chance = Random(f"{name}/{end_ms}/recall")
    return chance.choice((None, SECOND_MS, 2 * MINUTE_MS, 15 * MINUTE_MS, 2 * HOUR_MS))


def _maze(until_ms: int) -> Budget:
    """Return a budget that cannot pay for ``MAZE_GPUS``, although a search needs long to prove it.

    A run that outlasts all windows has a hold on each of its envelopes up to the end of the
    envelope's window. One window ends early: if all windows ended then, the cap on GPU-hours would
    suffice. The other windows end late, each at a different instant, so that no two choices of
    envelopes leave the same amount.
    """
    ends_ms = [until_ms + 300 * HOUR_MS, *(until_ms + 600 * HOUR_MS + (1 << n) for n in range(29))]
    lines = tuple(
        Envelope(
            name=f"e{number:02d}",
            flavor="H100",
            selector=_EVERYWHERE,
            start_ms=START_MS - HOUR_MS,
            end_ms=end_ms,
            concurrency=1,
            sharing=Sharing.NONE,
        )
        for number, end_ms in enumerate(ends_ms)
    )
    cap = Cap(
        name="all",
        flavor="H100",
        envelopes=tuple(line.name for line in lines),
        concurrency_max=len(lines),
        gpu_ms_max=3_800 * HOUR_MS,
    )
    return Budget(name="b-maze", owner="maze", envelopes=lines, caps=(cap,))
