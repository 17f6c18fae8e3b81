"""Small worlds: drawn once, and given to the tested code and to the oracle."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from hypothesis import strategies as st

from quorate.model.amounts import HOUR_MS
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
from quorate.model.state.apply_event import apply_all
from quorate.model.state.state import State
from quorate.testing.builders import NOW_MS, envelope, node, opening
from quorate.testing.builders import budget as budget_of
from tests.oracles.choosing import Chooser, chooser
from tests.oracles.packing import Ask, Machine
from tests.oracles.paying import Bank, Use

FLAVORS = ("H100", "A100")
DOMAINS = ("A", "B", "C", "D")
FILLER = EnvelopeId("filler/all")


@dataclass(frozen=True)
class Fleet:
    """Nodes, and their used slots."""

    nodes: tuple[Node, ...]
    taken: tuple[tuple[str, int], ...]

    def machines(self, flavor: str) -> list[Machine]:
        """Return the nodes of ``flavor`` for the oracle."""
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


def choose_fleet(
    choose: Chooser, *, domains: int = 4, nodes: int = 4, gpus: int = 4, flavors: int = 2
) -> Fleet:
    """Return a fleet with random names, some racks, and any used slots."""
    found: list[Node] = []
    taken: list[tuple[str, int]] = []
    count = domains * nodes
    names = choose.some([f"n{i:02d}" for i in range(count)], count, count)
    sizes = [gpus] * 4 if choose.flip() else list(range(1, gpus + 1))
    for domain in DOMAINS[: choose.number(1, domains)]:
        for _ in range(choose.number(1, nodes)):
            flavor = FLAVORS[choose.number(0, flavors - 1) if choose.flip() else 0]
            size = choose.one_of(sizes)
            rack = choose.one_of([None, "r1", "r2"])
            name = names[len(found)]
            found.append(node(name, size, domain, flavor, rack=rack))
            mask = choose.number(0, (1 << size) - 1) if choose.flip() else 0
            if mask:
                taken.append((name, mask))
    return Fleet(tuple(found), tuple(taken))


@st.composite
def fleets(draw: st.DrawFn, *, flavors: int = 2) -> Fleet:
    """Draw a fleet."""
    return choose_fleet(chooser(draw), flavors=flavors)


_SELECTORS: tuple[tuple[tuple[str, str], ...], ...] = (
    (("fabric.domain", "A"),),
    (("fabric.domain", "B"), ("region", "r")),
    (("rack", "r1"),),
    (("fabric.domain", "A"), ("rack", "r2")),
    (("rack", "*"),),
    (("cluster", "*"), ("region", "r")),
    (("region", "elsewhere"),),
)


def choose_selector(choose: Chooser) -> tuple[tuple[str, str], ...]:
    """Return the selector of a run, mostly an empty one."""
    return choose.one_of(_SELECTORS) if choose.number(0, 2) == 0 else ()


def ask_of(run: Run, pool: Pool, width: int, *, by_rack: bool = False) -> Ask:
    """Return the request of ``run`` at ``width`` for the oracle."""
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


def choose_family(choose: Chooser, *, most: int = 4) -> dict[str, Owner]:
    """Return owners and their parents without cycles; an owner may have several parents."""
    owners: dict[str, Owner] = {}
    for number in range(choose.number(1, most)):
        parents = tuple(name for name in owners if choose.flip())
        owners[f"o{number}"] = Owner(name=f"o{number}", parents=parents)
    return owners


_WINDOWS = (
    *[(-100 * HOUR_MS, 100 * HOUR_MS)] * 5,
    (0, 1 * HOUR_MS),
    (-1 * HOUR_MS, HOUR_MS // 2),
    (-2 * HOUR_MS, 0),
    (1, 3 * HOUR_MS),
)
_PLACES: tuple[tuple[tuple[str, str], ...], ...] = (
    (("region", "r"),),
    (("region", "r"),),
    (("fabric.domain", "A"),),
    (("fabric.domain", "B"), ("region", "r")),
    (("rack", "r1"),),
    (("fabric.domain", "A"), ("rack", "r2")),
)


def _hours(choose: Chooser) -> int | None:
    halves = choose.number(0, 12) if choose.number(0, 2) == 0 else None
    return None if halves is None else halves * HOUR_MS // 2


def choose_line(
    choose: Chooser, name: str, owners: Iterable[str], *, gpus: int, racks: bool
) -> Envelope:
    """Return one envelope; tight limits are common, so that several limits apply at once."""
    start, end = choose.one_of(_WINDOWS)
    lending = Lending()
    if choose.flip():
        lending = Lending(
            allow=True,
            to=tuple(choose.some([*sorted(owners), "o*", "x*"], 0, 2)),
            concurrency_max=choose.maybe(0, gpus),
            gpu_ms_max=_hours(choose),
        )
    return Envelope(
        name=name,
        flavor=choose.one_of(("H100", "H100", "H100", "A100")),
        selector=choose.one_of(_PLACES if racks else _PLACES[:4]),
        start_ms=NOW_MS + start,
        end_ms=NOW_MS + end,
        concurrency=choose.number(0, gpus),
        gpu_ms_max=_hours(choose),
        allow_admission=choose.flip(),
        sharing=choose.one_of([Sharing.FAMILY, Sharing.FAMILY, Sharing.NONE]),
        lending=lending,
    )


def choose_caps(choose: Chooser, envelopes: Sequence[Envelope], *, gpus: int) -> tuple[Cap, ...]:
    """Return caps, half of which overlap."""
    caps = []
    for number in range(choose.number(0, 2)):
        flavor = choose.one_of(envelopes).flavor
        peers = [e.name for e in envelopes if e.flavor == flavor]
        caps.append(
            Cap(
                name=f"c{number}",
                flavor=flavor,
                envelopes=tuple(choose.some(peers, 1, len(peers))),
                concurrency_max=choose.maybe(0, gpus),
                gpu_ms_max=_hours(choose),
            )
        )
    return tuple(caps)


def choose_budgets(
    choose: Chooser, owners: Iterable[str], *, most: int = 3, gpus: int = 6, racks: bool = False
) -> tuple[Budget, ...]:
    """Return budgets of up to three envelopes, with random names and owners."""
    found = []
    for name in choose.some([f"b{i}" for i in range(most)], 1, most):
        lines = tuple(
            choose_line(choose, e, owners, gpus=gpus, racks=racks)
            for e in choose.some(["e0", "e1", "e2"], 1, 3)
        )
        owner = choose.one_of(sorted(owners))
        caps = choose_caps(choose, lines, gpus=gpus)
        found.append(Budget(name=name, owner=owner, envelopes=lines, caps=caps))
    return tuple(found)


@st.composite
def budgets(
    draw: st.DrawFn, owners: Iterable[str], *, gpus: int = 6, racks: bool = False
) -> tuple[Budget, ...]:
    """Draw budgets."""
    return choose_budgets(chooser(draw), owners, gpus=gpus, racks=racks)


def choose_uses(choose: Chooser, money: tuple[Budget, ...]) -> tuple[Use, ...]:
    """Return past uses, which may exceed all limits; a use of 0 GPUs is an ended lease."""
    keys = [f"{b.name}/{e.name}" for b in money for e in b.envelopes]
    found = []
    for _ in range(choose.number(0, 3)):
        gpus = choose.number(0, 3)
        quarters = choose.number(1, 6)
        gpu_ms = quarters * max(1, gpus) * HOUR_MS // 4
        found.append(Use(choose.one_of(keys), gpus, gpu_ms, choose.flip()))
    return tuple(found)


def choose_funding(choose: Chooser, owners: Iterable[str]) -> Funding:
    """Return whether a run may borrow, how many GPUs, and from which sponsors."""
    if choose.flip():
        return Funding()
    return Funding(
        allow_borrow=True,
        borrow_gpus_max=choose.maybe(1, 6),
        sponsors=tuple(choose.some(sorted(owners), 0, 2)),
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
    """Return the state with this world; used slots belong to a run that no test examines."""
    filler = budget_of("filler", "filler", envelope("all", 10_000))
    # Earlier leases are on separate nodes in a separate pool, so that they affect only money.
    apart = Pool(name="apart", selector=(("region", "apart"),))
    contexts = [
        Node(name=f"context{i}", flavor="H100", gpus=8, region="apart", cluster="c", domain="Z")
        for i in range(len(used))
    ]
    events: list[Event] = opening(
        nodes=[*fleet.nodes, *contexts],
        owners=list(owners),
        budgets=[filler, *money],
        pools=[apart, *([] if pool is None else [pool])],
    )
    events.append(_submitted("filler", "filler"))
    if fleet.taken:
        events.append(_started("filler", fleet.taken, FILLER, Tier.OWNED, HOUR_MS))
    for number, use in enumerate(used):
        events += _used(number, use)
    state = State()
    apply_all(state, events)
    return state


def _used(number: int, use: Use) -> list[Event]:
    """Return the events of a lease with the effect ``use``."""
    name = f"earlier{number}"
    gpus = max(1, use.gpus)
    slots = ((f"context{number}", (1 << gpus) - 1),)
    tier = Tier.BORROWED if use.lent else Tier.SHARED
    events: list[Event] = [
        _submitted(name, "filler"),
        _started(name, slots, EnvelopeId(use.payer), tier, use.gpu_ms),
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
    run: str,
    slots: tuple[tuple[str, int], ...],
    payer: EnvelopeId,
    tier: Tier,
    hold: int,
) -> LeaseStarted:
    return LeaseStarted(
        at_ms=NOW_MS,
        actor="test",
        lease=f"{run}/0",
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
    """Return the same owners, budgets and uses for the oracle."""
    return Bank(owners, money, list(used))
