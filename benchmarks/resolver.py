"""The cost of resolving one conflict in a full fleet: choosing the cuts and draws.

The fleet has no free GPU: it has small gangs, gangs on two nodes, malleable runs with a step above
their minimum, and spares. The figure includes the slow parts of declaring and settling a conflict:
finding the leases in scope, the cuts, the tokens of the lottery, and one draw. Real admission
checks every answer. The baseline uses the plain rule: cut one candidate, and try admission again.

The last case has no target: its lottery has a token for every run that may be drawn, and listing
the tokens takes most of the time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from statistics import median
from time import process_time

from benchmarks.figure import Baseline, Effort, Figure
from benchmarks.scan_resolver import scan_resolve
from benchmarks.worlds import FLAVOR, families, fleet, owner_name
from benchmarks.worlds import budgets as money
from quorate.core.preemption.conflict_scope import Prepared, Question, prepare
from quorate.core.preemption.lottery import dummy_seed
from quorate.model.amounts import HOUR_MS
from quorate.model.events import (
    ConflictCause,
    Event,
    LeaseStarted,
    ReservationMade,
    Role,
    RunSubmitted,
    Scope,
    Slice,
    StartReason,
    Tier,
)
from quorate.model.specs import DEFAULT_POOL, Malleable, Run, envelope_id
from quorate.model.state.apply_event import apply_all
from quorate.model.state.state import State
from quorate.testing.builders import NOW_MS, world

OWNERS = 200
REPEATS = 9
STARTED_MS = NOW_MS - 30 * HOUR_MS


@dataclass(frozen=True, slots=True)
class _Case:
    """The required GPUs: for a planned run of ``groups`` groups, or to be freed by hand."""

    name: str
    domains: int
    groups: int = 0
    group_gpus: int = 0
    gpus: int = 0
    target_ms: int | None = 50


CASES = (
    _Case("resolver, 1 group of 384 in 1 domain", 1, 1, 384),
    _Case("resolver, 8 groups of 256 in 8 domains", 8, 8, 256),
    _Case("resolver, 128 groups of 64 in 22 domains", 22, 128, 64),
    _Case("resolver, 2 GPUs of the whole fleet, by hand", 200, gpus=2),
    _Case("resolver, 12,000 GPUs of the whole fleet, by hand", 200, gpus=12_000, target_ms=None),
)


def measure(effort: Effort) -> list[Figure]:
    """Return the CPU time of one conflict on 10,000 nodes with 16,000 leases."""
    nodes = effort.of(10_000, 1_000)
    state = _full(nodes)
    leases = len(state.leases)
    repeats = effort.of(REPEATS, 3)
    found = []
    for case in CASES:
        question = _question(state, case, nodes)
        taken = [_once(state, question) for _ in range(repeats + 1)][1:]
        prepared, victims = _resolve(state, question)
        naive = _naive(state, question) if case.domains < 200 else None
        found.append(
            Figure(
                name=case.name,
                unit="ms",
                value=1_000 * median(taken),
                better="less",
                target=case.target_ms,
                baseline=None if naive is None else Baseline("cut one, ask again", naive),
                details={
                    "nodes": nodes,
                    "leases": leases,
                    "GPUs short": prepared.resolver.deficit,
                    "cuts": len(prepared.resolver.cuts),
                    "short after them": prepared.resolver.short,
                    "tokens": len(prepared.tokens),
                    "drawn": victims,
                },
            )
        )
    return found


def _once(state: State, question: Question) -> float:
    start = process_time()
    _resolve(state, question)
    return process_time() - start


def _resolve(state: State, question: Question) -> tuple[Prepared, int]:
    resolver = question.resolver(state, NOW_MS)
    assert resolver is not None, question
    prepared = prepare(state, question, resolver, NOW_MS)
    assert isinstance(prepared, Prepared), prepared
    drawn = prepared.draw(dummy_seed(1))
    return prepared, 0 if drawn is None else len(drawn.victims)


def _naive(state: State, question: Question) -> float:
    """Return the milliseconds of the plain rule, which must end the same candidates."""
    start = process_time()
    scan_resolve(state, question, NOW_MS)
    return 1_000 * (process_time() - start)


# --- The fleet ------------------------------------------------------------------------------------


def _question(state: State, case: _Case, nodes: int) -> Question:
    """Return the question of ``case``, for which a run is submitted and gets a reservation."""
    keys = [key.domain for key in state.domains(DEFAULT_POOL, FLAVOR).keys]
    domains = tuple(keys[: case.domains])
    if not case.groups:
        scope = Scope(DEFAULT_POOL, FLAVOR, ())
        gpus = case.gpus * nodes // 10_000 or 1
        return Question(ConflictCause.BY_HAND, scope, gpus=gpus)
    groups = min(case.groups, len(domains) * (400 // case.group_gpus))
    name = f"wanted-{case.domains}"
    run = Run(
        name=name,
        owner="wanting",
        flavors=(FLAVOR,),
        gpus=groups * case.group_gpus,
        group_gpus=case.group_gpus,
    )
    place = Slice(FLAVOR, run.gpus, tuple((domain, case.group_gpus) for domain in domains))
    apply_all(
        state,
        [
            RunSubmitted(at_ms=NOW_MS, actor="bench", run=run),
            ReservationMade(
                at_ms=NOW_MS,
                actor="bench",
                reservation=f"{name}@1",
                run=name,
                slice=place,
                payers=(),
                planned_start_ms=NOW_MS,
                natural_start_ms=None,
                by_conflict=True,
            ),
        ],
    )
    # No reservation of another case may remain.
    for other in [r for r in state.reservations if r != f"{name}@1"]:
        del state.reservations[other]
    return Question(ConflictCause.RESERVATION, Scope(DEFAULT_POOL, FLAVOR, domains), f"{name}@1")


@cache
def _full(nodes: int) -> State:
    """Return a fleet without free GPUs, with about 1.6 leases per node."""
    spec = money(OWNERS, concurrency=40_000)
    wanting = [
        budget.__class__(name="wanting", owner="wanting", envelopes=budget.envelopes[:1])
        for budget in spec[:1]
    ]
    state = world(nodes=fleet(nodes), owners=families(OWNERS), budgets=[*spec, *wanting])
    events: list[Event] = []
    for number, event in enumerate(_leases(nodes)):
        events.append(event)
        assert number < 4 * nodes, number
    apply_all(state, events)
    state.overlay()
    return state


def _leases(nodes: int) -> Iterator[Event]:
    """Yield the runs of each pair of nodes: in turn small runs, a gang, a malleable run, spares."""
    for pair in range(nodes // 2):
        first, second = f"n{2 * pair:05d}", f"n{2 * pair + 1:05d}"
        match pair % 5:
            case 0:
                yield from _run(pair, 0, [(0, Role.ACTIVE, [(first, 255), (second, 255)])])
            case 1:
                for part, (node, mask) in enumerate(
                    [(first, 0x0F), (first, 0xF0), (second, 0x0F), (second, 0xF0)]
                ):
                    yield from _run(pair, part, [(0, Role.ACTIVE, [(node, mask)])])
            case 2:
                steps = [(0, Role.ACTIVE, [(first, 255)]), (1, Role.ACTIVE, [(second, 255)])]
                yield from _run(pair, 0, steps, malleable=True)
            case 3:
                parts = [(0, Role.ACTIVE, [(first, 255), (second, 0x3F)])]
                yield from _run(pair, 0, [*parts, (0, Role.SPARE, [(second, 0xC0)])], spares=2)
            case _:
                masks = [0x03, 0x0C, 0x30, 0xC0]
                for part, mask in enumerate(masks):
                    yield from _run(pair, part, [(0, Role.ACTIVE, [(first, mask)])])
                for part, mask in enumerate([0x0F, 0x30, 0xC0], start=len(masks)):
                    yield from _run(pair, part, [(0, Role.ACTIVE, [(second, mask)])])


def _run(
    pair: int,
    part: int,
    leases: Sequence[tuple[int, Role, list[tuple[str, int]]]],
    *,
    malleable: bool = False,
    spares: int = 0,
) -> Iterator[Event]:
    name, owner = f"r{pair:05d}-{part}", owner_name((7 * pair + part) % OWNERS)
    working = sum(m.bit_count() for _, role, s in leases if role is Role.ACTIVE for _, m in s)
    elastic = Malleable(gpus_min=8, gpus_max=16, gpus_step=8, gpus_desired=16)
    run = Run(
        name=name,
        owner=owner,
        flavors=(FLAVOR,),
        gpus=working,
        malleable=elastic if malleable else None,
        spares_per_group=spares,
        nonce=name,
    )
    yield RunSubmitted(at_ms=NOW_MS, actor="bench", run=run)
    start_ms = STARTED_MS + 1_000 * (pair * 7919 % 50_000)
    for number, (bundle, role, slots) in enumerate(leases):
        gpus = sum(mask.bit_count() for _, mask in slots)
        yield LeaseStarted(
            at_ms=NOW_MS,
            actor="bench",
            lease=f"{name}/{number}",
            run=name,
            partner=None,
            comp_path=f"{'spare' if role is Role.SPARE else 'group'}/{bundle}",
            bundle=bundle,
            role=role,
            slots=tuple(slots),
            payer=envelope_id(f"{owner}-h100", "any"),
            tier=Tier.OWNED,
            hold_gpu_ms=gpus * 100 * HOUR_MS,
            start_ms=start_ms,
            reason=StartReason.START,
        )
