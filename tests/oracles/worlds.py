"""Small worlds for the oracles: drawn once, handed to the code under test and to the oracle alike."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from hypothesis import strategies as st

from quorate.model.amounts import HOUR_MS
from quorate.model.apply import apply_all
from quorate.model.events import (
    EndReason,
    Event,
    LeaseEnded,
    LeaseStarted,
    Role,
    RunSubmitted,
    StartReason,
    Tier,
)
from quorate.model.specs import (
    Budget,
    Cap,
    Envelope,
    EnvelopeId,
    Funding,
    Lending,
    Node,
    Owner,
    Placement,
    Pool,
    Run,
    Sharing,
)
from quorate.model.state import State
from quorate.testing.world import NOW_MS, envelope, node, opening
from quorate.testing.world import budget as budget_of
from tests.oracles.packing import Ask, Machine
from tests.oracles.paying import Bank, Use

FLAVORS = ("H100", "A100")
DOMAINS = ("A", "B", "C", "D")
FILLER = EnvelopeId("filler/all")


@dataclass(frozen=True)
class Fleet:
    """Nodes, and which of their slots are taken."""

    nodes: tuple[Node, ...]
    taken: tuple[tuple[str, int], ...]

    def machines(self, flavor: str) -> list[Machine]:
        """Return the nodes of ``flavor`` as the oracle sees them."""
        taken = dict(self.taken)
        return [
            Machine(
                name=n.name,
                domain=f"{n.region}/{n.cluster}/{n.domain}",
                labels=tuple(_labels(n).items()),
                rack=n.rack,
                size=n.gpus,
                free=frozenset(i for i in range(n.gpus) if not taken.get(n.name, 0) >> i & 1),
            )
            for n in self.nodes
            if n.flavor == flavor
        ]


def _labels(n: Node) -> dict[str, str]:
    found = {"region": n.region, "cluster": n.cluster, "fabric.domain": n.domain}
    return found if n.rack is None else found | {"rack": n.rack}


@st.composite
def fleets(
    draw: st.DrawFn, *, domains: int = 4, nodes: int = 4, gpus: int = 4, flavors: int = 2
) -> Fleet:
    """Draw a fleet: names in no order that means anything, racks here and there, any slots taken."""
    found: list[Node] = []
    taken: list[tuple[str, int]] = []
    names = draw(st.permutations([f"n{i:02d}" for i in range(domains * nodes)]))
    for domain in DOMAINS[: draw(st.integers(1, domains))]:
        for _ in range(draw(st.integers(1, nodes))):
            flavor = draw(st.sampled_from(FLAVORS[:flavors])) if draw(st.booleans()) else FLAVORS[0]
            size = draw(st.integers(1, gpus))
            rack = draw(st.sampled_from([None, "r1", "r2"]))
            name = names[len(found)]
            found.append(node(name, size, domain, flavor, rack=rack))
            mask = draw(st.integers(0, (1 << size) - 1)) if draw(st.booleans()) else 0
            if mask:
                taken.append((name, mask))
    return Fleet(tuple(found), tuple(taken))


def selectors() -> st.SearchStrategy[tuple[tuple[str, str], ...]]:
    """Return a strategy for what a run may ask about places, mostly nothing."""
    some: list[tuple[tuple[str, str], ...]] = [
        (("fabric.domain", "A"),),
        (("fabric.domain", "B"), ("region", "r")),
        (("rack", "r1"),),
        (("fabric.domain", "A"), ("rack", "r2")),
        (("rack", "*"),),
        (("cluster", "*"), ("region", "r")),
        (("region", "elsewhere"),),
    ]
    return st.just(()) | st.sampled_from(some)


def ask_of(run: Run, pool: Pool, width: int, *, by_rack: bool = False) -> Ask:
    """Return what ``run`` at ``width`` asks the oracle for."""
    bundles = [width]
    if run.malleable is not None:
        steps = (width - run.malleable.gpus_min) // run.malleable.gpus_step
        bundles = [run.malleable.gpus_min, *[run.malleable.gpus_step] * steps]
    return Ask(
        bundles=tuple(bundles),
        group=run.group_gpus,
        spares=run.spares_per_group,
        one_domain=not run.cross_group_spread,
        selector=run.selector,
        tight=pool.placement is Placement.TIGHT,
        whole_nodes=pool.whole_nodes,
        by_rack=by_rack or "rack" in dict(run.selector),
    )


# --- Money ----------------------------------------------------------------------------------------


@st.composite
def families(draw: st.DrawFn, *, most: int = 4) -> dict[str, Owner]:
    """Draw owners and who their parents are; no cycles, diamonds welcome."""
    owners: dict[str, Owner] = {}
    for number in range(draw(st.integers(1, most))):
        parents = tuple(name for name in owners if draw(st.booleans()))
        owners[f"o{number}"] = Owner(name=f"o{number}", parents=parents)
    return owners


_WINDOWS = st.sampled_from(
    [
        (-100 * HOUR_MS, 100 * HOUR_MS),
        (-100 * HOUR_MS, 100 * HOUR_MS),
        (-100 * HOUR_MS, 100 * HOUR_MS),
        (0, 1 * HOUR_MS),
        (-1 * HOUR_MS, HOUR_MS // 2),
        (-2 * HOUR_MS, 0),
        (1, 3 * HOUR_MS),
    ]
)
_HOURS = st.integers(0, 12).map(lambda halves: halves * HOUR_MS // 2)


@st.composite
def lines(
    draw: st.DrawFn, name: str, owners: Iterable[str], *, gpus: int, racks: bool
) -> Envelope:
    """Draw one envelope; tight limits are common, so that they meet."""
    names = sorted(owners)
    start, end = draw(_WINDOWS)
    places: list[tuple[tuple[str, str], ...]] = [
        (("region", "r"),),
        (("region", "r"),),
        (("fabric.domain", "A"),),
        (("fabric.domain", "B"), ("region", "r")),
    ]
    if racks:
        places += [(("rack", "r1"),), (("fabric.domain", "A"), ("rack", "r2"))]
    lending = Lending()
    if draw(st.booleans()):
        to = tuple(draw(st.lists(st.sampled_from([*names, "o*", "x*"]), max_size=2, unique=True)))
        lending = Lending(
            allow=True,
            to=to,
            concurrency_max=draw(st.none() | st.integers(0, gpus)),
            gpu_ms_max=draw(st.none() | _HOURS),
        )
    return Envelope(
        name=name,
        flavor=draw(st.sampled_from(("H100", "H100", "H100", "A100"))),
        selector=draw(st.sampled_from(places)),
        start_ms=NOW_MS + start,
        end_ms=NOW_MS + end,
        concurrency=draw(st.integers(0, gpus)),
        gpu_ms_max=draw(st.none() | _HOURS),
        allow_admission=draw(st.booleans()),
        sharing=draw(st.sampled_from([Sharing.FAMILY, Sharing.FAMILY, Sharing.NONE])),
        lending=lending,
    )


@st.composite
def budgets(
    draw: st.DrawFn,
    owners: dict[str, Owner],
    *,
    most: int = 3,
    lines_most: int = 3,
    gpus: int = 6,
    racks: bool = False,
) -> tuple[Budget, ...]:
    """Draw budgets whose caps overlap."""
    found = []
    for name in draw(st.permutations([f"b{i}" for i in range(most)]))[: draw(st.integers(1, most))]:
        count = draw(st.integers(1, lines_most))
        envelopes = tuple(
            draw(lines(e, owners, gpus=gpus, racks=racks))
            for e in draw(st.permutations([f"e{i}" for i in range(lines_most)]))[:count]
        )
        caps = []
        for number in range(draw(st.integers(0, 2))):
            flavor = draw(st.sampled_from(envelopes)).flavor
            peers = [e.name for e in envelopes if e.flavor == flavor]
            under = draw(st.lists(st.sampled_from(peers), min_size=1, unique=True))
            caps.append(
                Cap(
                    name=f"c{number}",
                    flavor=flavor,
                    envelopes=tuple(under),
                    concurrency_max=draw(st.none() | st.integers(0, gpus)),
                    gpu_ms_max=draw(st.none() | st.none() | _HOURS),
                )
            )
        owner = draw(st.sampled_from(sorted(owners)))
        found.append(Budget(name=name, owner=owner, envelopes=envelopes, caps=tuple(caps)))
    return tuple(found)


@st.composite
def uses(draw: st.DrawFn, money: tuple[Budget, ...]) -> tuple[Use, ...]:
    """Draw what was taken before, within no limit at all; an ended lease has no GPUs."""
    keys = [f"{b.name}/{e.name}" for b in money for e in b.envelopes]
    found = []
    for key in draw(st.lists(st.sampled_from(keys), max_size=3)):
        gpus, lent = draw(st.integers(0, 3)), draw(st.booleans())
        quarters = draw(st.integers(1, 6))
        found.append(Use(key, gpus, quarters * max(1, gpus) * HOUR_MS // 4, lent))
    return tuple(found)


def fundings(owners: Iterable[str]) -> st.SearchStrategy[Funding]:
    """Return a strategy for whether and how a run borrows."""
    return st.just(Funding()) | st.builds(
        Funding,
        allow_borrow=st.just(True),  # noqa: FBT003 - the value of a field
        borrow_gpus_max=st.none() | st.integers(1, 6),
        sponsors=st.lists(st.sampled_from(sorted(owners)), max_size=2, unique=True).map(tuple),
    )


# --- States ---------------------------------------------------------------------------------------


def state_of(
    fleet: Fleet,
    *,
    pool: Pool | None = None,
    owners: Iterable[Owner] = (),
    money: tuple[Budget, ...] = (),
    used: tuple[Use, ...] = (),
) -> State:
    """Return the state in which all this is so; taken slots belong to a run that nobody asks about."""
    filler = budget_of(
        "filler", "filler", *(envelope("all", 10_000),), caps=()
    )
    # Earlier leases are on nodes of their own, in a pool of their own, so that only money meets.
    apart = Pool(name="apart", selector=(("region", "apart"),))
    desks = [
        Node(name=f"desk{i}", flavor="H100", gpus=8, region="apart", cluster="c", domain="Z")
        for i in range(len(used))
    ]
    events: list[Event] = opening(
        nodes=[*fleet.nodes, *desks],
        owners=list(owners),
        budgets=[filler, *money],
        pools=[apart, *([] if pool is None else [pool])],
    )
    events.append(_submitted("filler", "filler"))
    if fleet.taken:
        events.append(_started("filler/0", "filler", fleet.taken, FILLER, Tier.OWNED, HOUR_MS))
    for number, use in enumerate(used):
        events += _used(number, use)
    state = State()
    apply_all(state, events)
    return state


def _used(number: int, use: Use) -> list[Event]:
    """Return the events of a lease that left ``use`` behind."""
    name = f"earlier{number}"
    gpus = max(1, use.gpus)
    slots = ((f"desk{number}", (1 << gpus) - 1),)
    tier = Tier.BORROWED if use.lent else Tier.SHARED
    events: list[Event] = [
        _submitted(name, "filler"),
        _started(f"{name}/0", name, slots, EnvelopeId(use.payer), tier, use.gpu_ms),
    ]
    if not use.gpus:
        events.append(
            LeaseEnded(
                at_ms=NOW_MS,
                actor="test",
                lease=f"{name}/0",
                reason=EndReason.END,
                end_ms=NOW_MS - HOUR_MS * 9 + use.gpu_ms,
            )
        )
    return events


def _submitted(name: str, owner: str) -> RunSubmitted:
    run = Run(name=name, owner=owner, gpus=1, flavors=("H100",), pool="apart")
    return RunSubmitted(at_ms=NOW_MS, actor="test", run=run)


def _started(
    lease: str, run: str, slots: tuple[tuple[str, int], ...], payer: EnvelopeId, tier: Tier, hold: int
) -> LeaseStarted:
    return LeaseStarted(
        at_ms=NOW_MS,
        actor="test",
        lease=lease,
        run=run,
        partner=None,
        comp_path="group/0",
        bundle=0,
        role=Role.ACTIVE,
        slots=slots,
        payer=payer,
        tier=tier,
        hold_gpu_ms=hold,
        start_ms=NOW_MS - HOUR_MS * 9,
        reason=StartReason.START,
    )


def bank_of(owners: dict[str, Owner], money: tuple[Budget, ...], used: tuple[Use, ...]) -> Bank:
    """Return the same money as the oracle sees it."""
    return Bank(owners, money, list(used))
