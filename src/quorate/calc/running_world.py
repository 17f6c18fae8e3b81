"""Reads a world with running work, and records its objects as events in a state.

Each lease is placed on the node that it names. If the world does not have this node, the lease uses
no GPUs of the world's nodes. If the lease names no budget, an extra budget without limits pays for
it. The groups of a malleable run are counted in order: the first groups make up the minimum of the
run, and the other groups are its steps.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from quorate.calc.world_fleet import read_nodes
from quorate.calc.world_funds import GPU_MS_UNBOUNDED, WIDE_END_MS, WIDE_START_MS, Funds, read_funds
from quorate.calc.world_leases import LEASE
from quorate.calc.world_reader import settle
from quorate.calc.world_runs import WorldRun, read_runs
from quorate.core.admission.holds import hold_duration_ms
from quorate.core.admission.payers import family_payers
from quorate.documents import values
from quorate.documents.document_problem import quoted
from quorate.documents.field_reader import At, Fields, complete, fields_of, listed
from quorate.documents.head import Head
from quorate.documents.pool_document import read_pool
from quorate.documents.times import time_ms
from quorate.model.amounts import DAY_MS, GPUS_MAX, HOLD_QUANTUM_MS, MINUTE_MS
from quorate.model.events import (
    BudgetApplied,
    Event,
    LeaseStarted,
    NodeApplied,
    OwnerApplied,
    PoolApplied,
    Role,
    RunSubmitted,
    StartReason,
    Tier,
)
from quorate.model.specs import (
    DEFAULT_POOL,
    Budget,
    Envelope,
    EnvelopeId,
    Node,
    Owner,
    Pool,
    Run,
    envelope_id,
)
from quorate.model.state.apply_event import apply, apply_all
from quorate.model.state.free_slots import all_slots
from quorate.model.state.state import State

ACTOR: Final = "calc"
SOMEBODY: Final = "somebody"
"""The owner that pays for leases that name no budget."""
ELSEWHERE: Final = "elsewhere"
"""The flavor of the extra nodes, which hold leases on nodes that the world does not have."""

_NUMBER: Final = re.compile(r"[0-9]{1,7}")
_role = values.choice(Role)


@dataclass(frozen=True, slots=True, kw_only=True)
class StandingLease:
    """An open lease of a world: its node, its group of the run, and its payer."""

    name: str
    run: str
    owner: str | None
    payer: EnvelopeId | None
    node: str | None
    gpus: int
    role: Role
    group: int
    start_ms: int


@dataclass(frozen=True, slots=True)
class Standing:
    """The state of a world at ``now_ms``, and all runs of the world, including waiting runs."""

    state: State
    now_ms: int
    runs: dict[str, WorldRun]


def read_standing(fields: Fields, at: At) -> Standing:
    """Return the state that a world describes."""
    now_ms = fields.required("now", time_ms)
    pool = world_pool(fields) or plain_pool()
    settle(at)
    assert now_ms is not None, at
    funds = read_funds(fields, at)
    nodes = read_nodes(fields, at)
    runs = {run.spec.name: run for run in read_runs(fields, at, funds)}
    leases = _read_leases(fields, at, funds, now_ms)
    state = State()
    apply_all(state, _opening(now_ms, pool, [*nodes, *_elsewhere(nodes, leases)], funds))
    _submit(state, runs, leases, now_ms)
    _start(state, at, leases, now_ms)
    settle(at)
    return Standing(state, now_ms, runs)


def plain_pool() -> Pool:
    """Return the pool of a world that declares none.

    The pool's minimum runtime is a minute. A run that declares no duration is expected to take a
    day.
    """
    return Pool(name=DEFAULT_POOL, runtime_min_ms=MINUTE_MS, expected_duration_ms=DAY_MS)


def world_pool(fields: Fields) -> Pool | None:
    """Return the pool that a world declares; None if it declares none."""

    def read(value: object, at: At) -> Pool | None:
        head = Head(name=DEFAULT_POOL, generate_name=None, labels=None, labels_at=at, lenient=True)
        return read_pool(value, at, head)

    return fields.maybe("pool", read)


# --- Leases ---------------------------------------------------------------------------------------


def _read_leases(fields: Fields, at: At, funds: Funds, now_ms: int) -> list[StandingLease]:
    """Return the open leases of a world; give a name to each lease that has none."""
    read = _lease_reader(funds, now_ms)
    drafts = complete(fields.optional("leases", lambda v, a: listed(v, a, read), ()))
    settle(at)
    found: dict[str, StandingLease] = {}
    for index, draft in enumerate(drafts or ()):
        if draft is _OVER:
            continue
        name = draft.name or f"lease-{index}"
        if name in found:
            at.child("leases").child(index).child("name").fault(
                f"is a duplicate lease name {quoted(name)}", "choose another name"
            )
        found[name] = replace(draft, name=name, run=draft.run or name)
    settle(at)
    return list(found.values())


_OVER: Final = StandingLease(
    name="",
    run="",
    owner=None,
    payer=None,
    node=None,
    gpus=0,
    role=Role.ACTIVE,
    group=0,
    start_ms=0,
)
"""Returned in place of a lease that has ended or has not begun."""


def _lease_reader(funds: Funds, now_ms: int) -> Callable[[object, At], StandingLease | None]:
    def read(value: object, at: At) -> StandingLease | None:
        fields = fields_of(value, at, LEASE)
        if fields is None:
            return None
        gpus = fields.required("gpus", values.gpus)
        start_ms = fields.optional("start", time_ms, now_ms)
        closed = fields.optional("closed", values.truth, default=False)
        end_ms = fields.maybe("end", time_ms)
        payer = _payer(fields, funds)
        found = StandingLease(
            name=fields.optional("name", values.line, ""),
            run=fields.optional("run", values.line, ""),
            owner=fields.maybe("owner", values.line),
            payer=payer,
            node=fields.maybe("node", values.line),
            gpus=gpus or 0,
            role=fields.optional("role", _role, Role.ACTIVE),
            group=fields.optional("group", _group, 0),
            start_ms=start_ms,
        )
        fields.maybe("reason", values.line)
        if gpus is None:
            return None
        over = closed or start_ms > now_ms or (end_ms is not None and end_ms <= now_ms)
        return _OVER if over else found

    return read


def _group(value: object, at: At) -> int | None:
    """Return the number of a group, which may be written as text."""
    if isinstance(value, str) and _NUMBER.fullmatch(value):
        return int(value)
    return values.count(value, at)


def _payer(fields: Fields, funds: Funds) -> EnvelopeId | None:
    """Return the payer that a lease names; None if it names no payer, or an unknown payer."""
    budget_name = fields.maybe("budget", values.line)
    envelope_name = fields.maybe("envelope", values.line)
    namespace = fields.maybe("payerNamespace", values.line)
    if budget_name is None or envelope_name is None:
        return None
    budget = funds.find(name=budget_name, namespace=namespace)
    if budget is None:
        fields.at("budget").fault(f"is unknown: {quoted(budget_name)}", "add it to budgets")
        return None
    if all(envelope.name != envelope_name for envelope in budget.spec.envelopes):
        fields.at("envelope").fault(
            f"is unknown in budget {quoted(budget_name)}: {quoted(envelope_name)}", "add it there"
        )
        return None
    return envelope_id(budget.spec.name, envelope_name)


# --- Facts ----------------------------------------------------------------------------------------


def _elsewhere(nodes: Iterable[Node], leases: Iterable[StandingLease]) -> Iterator[Node]:
    """Yield an extra node for each lease that is on none of ``nodes``."""
    known = {node.name for node in nodes}
    for lease in leases:
        if lease.node not in known:
            yield Node(
                name=_place(lease, known),
                flavor=ELSEWHERE,
                gpus=lease.gpus,
                region="",
                cluster="",
                domain="",
            )


def _place(lease: StandingLease, known: Collection[str]) -> str:
    at_home = lease.node is not None and lease.node in known
    return lease.node if at_home and lease.node is not None else f"{ELSEWHERE}/{lease.name}"


def _opening(now_ms: int, pool: Pool, nodes: Sequence[Node], funds: Funds) -> Iterator[Event]:
    """Yield the events that declare the world, and a budget for the leases that name none."""
    yield PoolApplied(at_ms=now_ms, actor=ACTOR, pool=pool)
    for node in nodes:
        yield NodeApplied(at_ms=now_ms, actor=ACTOR, node=node)
    for owner in (*funds.owners, Owner(name=SOMEBODY)):
        yield OwnerApplied(at_ms=now_ms, actor=ACTOR, owner=owner)
    for budget in funds.budgets:
        yield BudgetApplied(at_ms=now_ms, actor=ACTOR, budget=budget.spec)
    payer_list = Envelope(
        name=SOMEBODY,
        flavor=ELSEWHERE,
        selector=(),
        start_ms=WIDE_START_MS,
        end_ms=WIDE_END_MS,
        concurrency=GPUS_MAX,
        gpu_ms_max=GPU_MS_UNBOUNDED,
    )
    yield BudgetApplied(
        at_ms=now_ms,
        actor=ACTOR,
        budget=Budget(name=SOMEBODY, owner=SOMEBODY, envelopes=(payer_list,)),
    )


def _submit(
    state: State, runs: dict[str, WorldRun], leases: Sequence[StandingLease], now_ms: int
) -> None:
    """Record the submission of each run that has a lease; order runs by their first leases."""
    for lease in leases:
        if lease.run in state.runs:
            continue
        known = runs.get(lease.run)
        if known is not None:
            spec = known.spec
        else:
            payer = None if lease.payer is None else state.envelopes[lease.payer].owner
            owner = lease.owner or payer or SOMEBODY
            gpus = sum(
                each.gpus
                for each in leases
                if each.run == lease.run and each.role is not Role.SPARE
            )
            flavor = _flavor(state, lease)
            spec = Run(name=lease.run, owner=owner, flavors=(flavor,), gpus=max(1, gpus))
        if spec.owner not in state.owners:
            apply(state, OwnerApplied(at_ms=now_ms, actor=ACTOR, owner=Owner(name=spec.owner)))
        apply(state, RunSubmitted(at_ms=now_ms, actor=ACTOR, run=spec))


def _flavor(state: State, lease: StandingLease) -> str:
    return state.nodes[_place(lease, state.nodes)].spec.flavor


def _start(state: State, at: At, leases: Sequence[StandingLease], now_ms: int) -> None:
    """Record the start of each lease, on the first free slots of its node."""
    free = {name: all_slots(record.spec.gpus) for name, record in state.nodes.items()}
    bundles = {lease.run: _bundles(state.runs[lease.run].spec, leases) for lease in leases}
    for index, lease in enumerate(leases):
        node = _place(lease, state.nodes)
        mask = _lowest(free[node], lease.gpus)
        if mask is None:
            at.child("leases").child(index).child("node").fault(
                f"does not have {lease.gpus} free GPUs: {quoted(node)}", "check the node's GPUs"
            )
            return
        free[node] &= ~mask
        run = state.runs[lease.run].spec
        payer = lease.payer or envelope_id(SOMEBODY, SOMEBODY)
        elapsed_ms = now_ms - lease.start_ms
        hold_ms = max(hold_duration_ms(run, state.pools[run.pool]), elapsed_ms + HOLD_QUANTUM_MS)
        kind = "spare" if lease.role is Role.SPARE else "group"
        apply(
            state,
            LeaseStarted(
                at_ms=now_ms,
                actor=ACTOR,
                lease=lease.name,
                run=lease.run,
                partner=None,
                comp_path=f"{kind}/{lease.group}",
                bundle=bundles[lease.run].get(lease.group, 0),
                role=lease.role,
                slots=((node, mask),),
                payer=payer,
                tier=_tier(state, run.owner, payer),
                hold_gpu_ms=lease.gpus * hold_ms,
                start_ms=lease.start_ms,
                reason=StartReason.START,
            ),
        )


def _tier(state: State, owner: str, payer: EnvelopeId) -> Tier:
    family = dict(family_payers(state, owner, state.envelopes[payer].spec.flavor))
    return family.get(payer, Tier.BORROWED)


def _bundles(run: Run, leases: Sequence[StandingLease]) -> dict[int, int]:
    """Return the bundle of each group: 0 up to the run's minimum, then the number of the step."""
    if run.malleable is None:
        return {}
    sizes: dict[int, int] = {}
    for lease in leases:
        if lease.run == run.name and lease.role is not Role.SPARE:
            sizes[lease.group] = sizes.get(lease.group, 0) + lease.gpus
    found, width = {}, 0
    for group in sorted(sizes):
        width += sizes[group]
        over = max(0, width - run.malleable.gpus_min)
        found[group] = -(-over // run.malleable.gpus_step)
    return found


def _lowest(free: int, gpus: int) -> int | None:
    """Return the ``gpus`` lowest slots of ``free``; None if ``free`` has fewer."""
    if free.bit_count() < gpus:
        return None
    found = 0
    for _ in range(gpus):
        bit = free & -free
        found |= bit
        free ^= bit
    return found
