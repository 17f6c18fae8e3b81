"""Conflicts resolved by brute force: one cut at a time, with every test computed again.

The number of missing GPUs is found by trying every way to put the groups into domains. The oracle
shares the state and the admission of runs with the resolver, and no other code.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from quorate.core.admission.admit import Admitted, admit
from quorate.core.commands import Cancel, Submit
from quorate.core.decide import decide
from quorate.core.preemption.lottery import chain_link
from quorate.model.amounts import HOUR_MS, MINUTE_MS
from quorate.model.events import (
    EndReason,
    Event,
    LeaseEnded,
    LotteryCommitted,
    ReservationClosed,
    ReservationMade,
    ReservationOutcome,
    Role,
    RunSubmitted,
    Slice,
)
from quorate.model.specs import Malleable, Pool, Run
from quorate.model.state.apply_event import apply_all
from quorate.model.state.records import Phase, RunRecord
from quorate.model.state.state import State
from quorate.testing.builders import NOW_MS, budget, envelope, fleet, run, world
from quorate.testing.memory_engines import LOTTERY_LENGTH, LOTTERY_SECRET
from tests.oracles.choosing import Chooser

Room = dict[str, int]
OWNERS = ("ada", "ben", "cy")
WANTED = "wanted"
RESERVED = "wanted@1"
BEGAN_MS = NOW_MS + 6 * HOUR_MS
"""The time of the conflict; runs that started long enough before may be drawn."""


# --- Worlds ---------------------------------------------------------------------------------------


def committed(length: int = LOTTERY_LENGTH) -> LotteryCommitted:
    """Return the committed lottery of every world here."""
    link = chain_link(LOTTERY_SECRET, 0, length=length).hex()
    return LotteryCommitted(at_ms=NOW_MS, actor="test", commitment=link, length=length)


def link(number: int) -> str:
    """Return link ``number`` of the chain of this lottery, in hex."""
    return chain_link(LOTTERY_SECRET, number, length=LOTTERY_LENGTH).hex()


def begin(domains: Mapping[str, int], pool: Pool | None = None, *, gpus: int = 4) -> State:
    """Return an empty fleet with enough money for everything."""
    state = world(
        nodes=fleet(dict(domains), gpus=gpus),
        budgets=[budget(name, name, envelope("all", 10_000)) for name in (*OWNERS, "wanting")],
        pools=[Pool(name="default") if pool is None else pool],
    )
    apply_all(state, [committed()])
    return state


def start(state: State, spec: Run, at_ms: int) -> bool:
    """Submit ``spec`` and return whether it runs; a run that would wait is withdrawn."""
    for command in (Submit(spec), Cancel(spec.name)):
        if command == Cancel(spec.name) and state.runs[spec.name].phase is not Phase.PENDING:
            return True
        apply_all(state, decide(state, command, now_ms=at_ms, actor="test").events)
    return False


def reserve(state: State, spec: Run, domains: Sequence[str]) -> None:
    """Reserve a start by conflict for ``spec`` in ``domains``, now."""
    made = ReservationMade(
        at_ms=state.at_ms,
        actor="test",
        reservation=f"{spec.name}@1",
        run=spec.name,
        slice=Slice("H100", spec.gpus, tuple((domain, 0) for domain in domains)),
        payers=(),
        planned_start_ms=BEGAN_MS,
        natural_start_ms=None,
        by_conflict=True,
    )
    apply_all(state, [RunSubmitted(at_ms=state.at_ms, actor="test", run=spec), made])


def choose_run(choose: Chooser, name: str) -> Run:
    """Return a run: fixed or malleable, perhaps in groups, perhaps with spares.

    One in five is fixed, wide and in small groups, so that it uses several domains.
    """
    if choose.number(0, 4) == 0:
        return run(
            name,
            choose.number(5, 14),
            choose.one_of(OWNERS),
            group_gpus=choose.number(1, 2),
            expected_duration_ms=1_000 * HOUR_MS,
            nonce=name,
        )
    least, step = choose.number(1, 4), choose.number(1, 2)
    steps = choose.number(0, 3) if choose.flip() else 0
    elastic = None
    if steps or choose.number(0, 5) == 0:
        most = least + steps * step
        elastic = Malleable(gpus_min=least, gpus_max=most, gpus_step=step, gpus_desired=most)
    return run(
        name,
        least + steps * step,
        choose.one_of(OWNERS),
        malleable=elastic,
        group_gpus=choose.maybe(1, 3),
        spares_per_group=choose.one_of((0, 0, 0, 1)),
        expected_duration_ms=1_000 * HOUR_MS,
        nonce=name,
    )


def choose_world(choose: Chooser) -> State:
    """Return a busy fleet of up to three domains, and a run with a firm start there."""
    domains = {name: 4 * choose.number(1, 3) for name in ("A", "B", "C")[: choose.number(1, 3)]}
    collateral = choose.one_of((1, 2, 4))
    state = begin(domains, Pool(name="default", collateral_max=collateral))
    at_ms = NOW_MS
    for number in range(choose.number(1, 9)):
        at_ms += choose.one_of((0, MINUTE_MS, HOUR_MS))
        start(state, choose_run(choose, f"r{number}"), at_ms)
    names = [f"r/c/{name}" for name in domains]
    group = choose.number(1, 4)
    count = choose.number(1, 3)
    spec = run(
        WANTED,
        group * count,
        choose.one_of((*OWNERS, "wanting")),
        group_gpus=group,
        cross_group_spread=choose.number(0, 3) > 0,
        expected_duration_ms=HOUR_MS,
    )
    reserve(state, spec, choose.some(names, 1, len(names)))
    return state


# --- Packing, from scratch ------------------------------------------------------------------------


def packs(state: State, ended: Sequence[str]) -> bool:
    """Return whether the run with the firm start would start if the leases ``ended`` had ended."""
    trial = state.overlay()
    closed: list[Event] = [
        LeaseEnded(
            at_ms=trial.at_ms, actor="", lease=name, reason=EndReason.END, end_ms=trial.at_ms
        )
        for name in ended
    ]
    closed.append(
        ReservationClosed(
            at_ms=trial.at_ms,
            actor="",
            reservation=RESERVED,
            outcome=ReservationOutcome.CANCELLED,
        )
    )
    apply_all(trial, closed)
    return isinstance(admit(trial, trial.runs[WANTED].spec, BEGAN_MS), Admitted)


def least_short(state: State, scope: set[str], room: Room) -> int:
    """Return the fewest GPUs that have to become free in ``scope``, in addition to ``room``.

    Every way to put the groups into domains is tried.
    """
    spec = state.runs[WANTED].spec
    group = spec.group_gpus or spec.gpus
    free: Room = {}
    total: Room = {}
    for node, record in state.nodes.items():
        domain = record.spec.domain_key
        free[domain] = free.get(domain, 0) + state.slots_left(node).bit_count()
        total[domain] = total.get(domain, 0) + record.spec.gpus
    for domain, gpus in room.items():
        free[domain] += gpus
    best = None
    for places in product(sorted(free), repeat=spec.gpus // group):
        if not spec.cross_group_spread and len(set(places)) > 1:
            continue
        wanted = {domain: group * places.count(domain) for domain in set(places)}
        if any(gpus > (total if d in scope else free)[d] for d, gpus in wanted.items()):
            continue
        short = sum(max(0, gpus - free[domain]) for domain, gpus in wanted.items())
        best = short if best is None else min(best, short)
    return 10**9 if best is None else best


# --- The order of cuts, from scratch --------------------------------------------------------------


@dataclass(frozen=True)
class Piece:
    """A part of a run that ends as a whole."""

    run: str
    bundle: int
    leases: frozenset[str]
    is_spare: bool = False


def newest(state: State) -> list[RunRecord]:
    """Return the running runs, the newest start first."""
    found = [r for r in state.runs.values() if r.phase is Phase.RUNNING and r.stopping is None]
    return sorted(found, key=lambda r: (r.since_ms or 0, r.seq), reverse=True)


def room_of(state: State, leases: frozenset[str]) -> Room:
    """Return the GPUs that ``leases`` would free, everywhere."""
    found: Room = {}
    for name in leases:
        for node, mask in state.leases[name].fact.slots:
            domain = state.nodes[node].spec.domain_key
            found[domain] = found.get(domain, 0) + mask.bit_count()
    return found


def is_in(state: State, scope: set[str], leases: frozenset[str]) -> bool:
    """Return whether any of ``leases`` would free a GPU in ``scope``."""
    return not scope.isdisjoint(room_of(state, leases))


def structural(state: State, scope: set[str]) -> Iterator[Piece]:
    """Yield the spares, then the steps of malleable runs, that are in scope."""
    spares: set[str] = set()
    for record in newest(state):
        for name in reversed(list(record.leases)):
            fact = state.leases[name].fact
            one = frozenset([name])
            if fact.role is Role.SPARE and is_in(state, scope, one):
                spares.add(name)
                yield Piece(record.spec.name, fact.bundle, one, is_spare=True)
    for record in newest(state):
        bundles = {state.leases[name].fact.bundle for name in record.leases} - {0}
        for bundle in sorted(bundles, reverse=True):
            leases = frozenset(
                name
                for name in record.leases
                if state.leases[name].fact.bundle == bundle and name not in spares
            )
            if is_in(state, scope, leases):
                yield Piece(record.spec.name, bundle, leases)


def tokens(
    state: State, scope: set[str], gone: set[str], enters: Callable[[RunRecord], bool]
) -> dict[str, frozenset[str]]:
    """Return the leases not ``gone`` of each run that may be drawn and has its minimum in scope."""
    found = {}
    for record in newest(state):
        left = frozenset(record.leases) - gone
        minimum = frozenset(
            name
            for name in left
            if state.leases[name].fact.bundle == 0
            and state.leases[name].fact.role is not Role.SPARE
        )
        if enters(record) and is_in(state, scope, minimum):
            found[record.spec.name] = left
    return found


class Plain:
    """One conflict for the run with the firm start, resolved by the rules."""

    def __init__(self, state: State, scope: set[str]) -> None:
        self.state = state
        self.scope = scope
        self.deficit = self.short([])
        cut: list[Piece] = []
        for piece in structural(state, scope):
            if not self.short(cut):
                break
            cut.append(piece)
        self.left = self.short(cut)
        for piece in reversed(list(cut)):
            fewer = [other for other in cut if other != piece]
            with_it = any(p.run == piece.run and p.bundle == piece.bundle for p in fewer)
            if piece.is_spare and with_it and not all(p.is_spare for p in fewer if _same(p, piece)):
                continue
            if self.short(fewer) <= self.left:
                cut = fewer
        self.cut = cut

    def short(self, pieces: Sequence[Piece], more: Sequence[frozenset[str]] = ()) -> int:
        """Return the number of GPUs that are missing without ``pieces`` and ``more``."""
        leases = frozenset().union(*(piece.leases for piece in pieces), *more)
        return least_short(self.state, self.scope, room_of(self.state, leases))

    @property
    def gone(self) -> set[str]:
        """The leases that are cut."""
        return {name for piece in self.cut for name in piece.leases}

    def draw(
        self, held: Mapping[str, frozenset[str]], order: Sequence[str]
    ) -> tuple[list[str], set[str]] | None:
        """Return the victims when runs are drawn in ``order``, and the leases cut beside them.

        The result is None if the end of all these runs is not enough. Cut parts of a victim stay
        cut, and so do the spares of a cut step.
        """
        drawn: list[str] = []
        for name in order:
            if not self.short(self.cut, [held[run_name] for run_name in drawn]):
                break
            drawn.append(name)
        if self.short(self.cut, [held[name] for name in drawn]):
            return None
        for name in reversed(list(drawn)):
            fewer = [other for other in drawn if other != name]
            if not self.short(self.cut, [held[other] for other in fewer]):
                drawn = fewer
        cut, ended = list(self.cut), [held[name] for name in drawn]
        for piece in reversed(self.cut):
            fewer_cut = [other for other in cut if other != piece]
            with_it = any(not p.is_spare for p in fewer_cut if _same(p, piece))
            if piece.run in drawn or (piece.is_spare and with_it):
                continue
            if not self.short(fewer_cut, ended):
                cut = fewer_cut
        return drawn, {name for piece in cut for name in piece.leases}


def _same(one: Piece, other: Piece) -> bool:
    return (one.run, one.bundle) == (other.run, other.bundle)
