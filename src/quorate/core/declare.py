"""Declare: carry out an ``Apply`` on the current state, all of it or none.

A document by itself was checked when it was parsed; here it is checked against the state.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from quorate.core.commands import Applied, Apply, Change, Decision
from quorate.core.decision_log import DecisionLog
from quorate.core.lifecycle.pool_executors import (
    executor_faults,
    image_faults,
    refused_with_runs,
)
from quorate.core.lifecycle.sensitive_claims import claim_faults
from quorate.core.preemption.tightening import tighten
from quorate.core.rounds.round_checks import rounds_faults
from quorate.core.tenancy.owner_checks import (
    check_owners,
    cycle_through,
    share_warnings,
    unknown,
    unknown_pool,
)
from quorate.model.amounts import hours_text
from quorate.model.closed_words import counted
from quorate.model.events import (
    BudgetApplied,
    Event,
    NodeApplied,
    OwnerApplied,
    PoolApplied,
    RunSubmitted,
    SystemApplied,
)
from quorate.model.refusal import Refusal, RefusalCode
from quorate.model.selector import matches
from quorate.model.specs import (
    DEFAULT_POOL,
    Budget,
    Discipline,
    Envelope,
    Node,
    Owner,
    Pool,
    Run,
    System,
    envelope_id,
)
from quorate.model.state.records import EnvelopeAccount
from quorate.model.state.state_view import StateView

_ORDER: dict[type, int] = {System: 0, Pool: 1, Node: 2, Owner: 3, Budget: 4, Run: 5}


def declare(log: DecisionLog, command: Apply) -> Decision:
    """Write what ``command`` declares, or return every reason why that is refused."""
    view = log.view
    specs = sorted(command.specs, key=lambda spec: _ORDER[type(spec)])
    specs = _upstreams_first(specs)
    refusals = [
        *_check_names(specs),
        *_check_fleet(view, specs),
        *check_owners(view, _owners_of(specs)),
        *_check_follow(specs),
    ]
    owners = {*_owners_of(specs), *view.owners}
    for spec in specs:
        if isinstance(spec, Budget):
            refusals += _check_budget(view, spec, owners)
    if refusals:
        return Decision(refusals=tuple(refusals))
    changes: list[tuple[str, str, Change]] = []
    for spec in specs:
        if isinstance(spec, Run):
            refused = _declare_run(log, spec, changes)
            refusals += refused
            continue
        event, old = _event_of(log, view, spec)
        name = "system" if isinstance(spec, System) else spec.name
        if old == spec:
            changes.append((type(spec).__name__, name, Change.UNCHANGED))
            continue
        log.write(event)
        change = Change.CREATED if old is None else Change.CONFIGURED
        changes.append((type(spec).__name__, name, change))
    for spec in specs:
        if isinstance(spec, Budget):
            refusals += tighten(log, spec)
    if refusals:
        return Decision(refusals=tuple(refusals))
    warnings = (
        *_promises(log.view, specs),
        *share_warnings(log.view, _owners_of(specs)),
    )
    return Decision(changes=tuple(changes), warnings=warnings)


def _owners_of(specs: Sequence[Applied]) -> dict[str, Owner]:
    return {spec.name: spec for spec in specs if isinstance(spec, Owner)}


def _event_of(log: DecisionLog, view: StateView, spec: Applied) -> tuple[Event, Applied | None]:
    """Return the event that records ``spec`` and what it replaces."""
    at_ms, actor = log.now_ms, log.actor
    match spec:
        case System():
            return SystemApplied(at_ms=at_ms, actor=actor, system=spec), view.system
        case Pool():
            return PoolApplied(at_ms=at_ms, actor=actor, pool=spec), view.pools.get(spec.name)
        case Node():
            node = view.nodes.get(spec.name)
            event = NodeApplied(at_ms=at_ms, actor=actor, node=spec)
            return event, None if node is None else node.spec
        case Owner():
            return OwnerApplied(at_ms=at_ms, actor=actor, owner=spec), view.owners.get(spec.name)
        case Budget():
            return BudgetApplied(at_ms=at_ms, actor=actor, budget=spec), view.budgets.get(spec.name)
        case Run():
            raise AssertionError(spec)


def _declare_run(
    log: DecisionLog, run: Run, changes: list[tuple[str, str, Change]]
) -> list[Refusal]:
    """Accept ``run`` unless the same run exists already; it is tried with the waiting runs."""
    existing = log.view.runs.get(run.name)
    if existing is not None and existing.spec == run:
        changes.append(("Run", run.name, Change.UNCHANGED))
        return []
    refusals = check_run(log.view, run)
    if not refusals:
        log.write(RunSubmitted(at_ms=log.now_ms, actor=log.actor, run=run))
        changes.append(("Run", run.name, Change.SUBMITTED))
    return refusals


def check_run(view: StateView, run: Run) -> list[Refusal]:
    """Return why ``run`` cannot be accepted; empty if it can."""
    refusals: list[Refusal] = []
    path = f"Run/{run.name}: "
    if run.name in view.runs:
        phase = view.runs[run.name].phase
        refusals.append(
            Refusal(
                code=RefusalCode.ALREADY_EXISTS,
                subject=f"{path}metadata.name: a run of this name exists ({phase})",
                remedy="choose another name, or use metadata.generateName",
            )
        )
    if run.owner not in view.owners:
        refusals.append(unknown(f"{path}spec.owner", "owner", run.owner))
    pool = view.pools.get(run.pool)
    if pool is None:
        refusals.append(unknown_pool(f"{path}spec.pool", run.pool, view.pools))
    elif pool.discipline is Discipline.ROUNDS:
        refusals += [
            Refusal(code=code, subject=f"{path}spec{field}: {what}", remedy=remedy)
            for code, field, what, remedy in rounds_faults(view, run)
        ]
    refusals += [] if pool is None else image_faults(run, pool)
    if run.rounds is not None and (pool is None or pool.discipline is Discipline.BIND):
        refusals.append(
            Refusal(
                code=RefusalCode.INVALID,
                subject=f"{path}spec: jobType, throughputs, totalSteps, weight and slo are for "
                "pools that share in rounds",
                remedy=f"leave them out, or name a rounds pool instead of {run.pool!r}",
            )
        )
    if run.sensitive:
        refusals += [
            Refusal(code=RefusalCode.INVALID, subject=f"{path}spec.{field}: {what}", remedy=remedy)
            for field, what, remedy in claim_faults(view, run)
        ]
    refusals += [
        unknown(f"{path}spec.follow.after", "run", name)
        for name in (run.follow.after if run.follow is not None else ())
        if name not in view.runs
    ]
    refusals += [
        unknown(f"{path}spec.funding.sponsors", "owner", name)
        for name in run.funding.sponsors
        if name not in view.owners
    ]
    return refusals


def _check_names(specs: Sequence[Applied]) -> Iterator[Refusal]:
    """Yield what is declared twice: the checks below look at each resource once, as it will be."""
    seen: set[tuple[str, str]] = set()
    for spec in specs:
        if isinstance(spec, Run):
            continue
        kind, name = type(spec).__name__, "system" if isinstance(spec, System) else spec.name
        if (kind, name) in seen:
            yield Refusal(
                code=RefusalCode.INVALID,
                subject=f"{kind}/{name}: metadata.name: declared twice in one command",
                remedy="keep one of the documents",
            )
        seen.add((kind, name))


def _check_fleet(view: StateView, specs: Sequence[Applied]) -> Iterator[Refusal]:
    """Yield what is wrong with pools and nodes: a node in two pools, a node in use that moves."""
    pools = dict(view.pools)
    for spec in specs:
        if isinstance(spec, Pool):
            pools[spec.name] = spec
            yield from _check_discipline(view, spec)
            yield from executor_faults(view, spec)
            if spec.name == DEFAULT_POOL and spec.selector:
                yield Refusal(
                    code=RefusalCode.INVALID,
                    subject=f"Pool/{DEFAULT_POOL}: spec.selector: the default pool has every node "
                    "that no other pool selects",
                    remedy="leave the selector out, or give the pool another name",
                )
    pools_change = any(isinstance(spec, Pool) for spec in specs)
    new = {spec.name: spec for spec in specs if isinstance(spec, Node)}
    # Sorted by name: the order of the table depends on whether it came from a snapshot.
    kept = (view.nodes[name].spec for name in sorted(view.nodes) if name not in new)
    for node in (*new.values(), *(kept if pools_change else ())):
        yield from _check_node(view, pools, node)


def _check_discipline(view: StateView, pool: Pool) -> Iterator[Refusal]:
    """Yield a refusal where a pool changes its discipline while it has runs of the old one.

    And where a pool shares in rounds without a policy.
    """
    if pool.discipline is Discipline.ROUNDS and pool.policy is None:
        yield Refusal(
            code=RefusalCode.INVALID,
            subject=f"Pool/{pool.name}: spec.policy: is required when discipline is rounds",
            remedy="name one: quorate policy list",
        )
    old = view.pools.get(pool.name)
    was = Discipline.BIND if old is None else old.discipline
    if was is not pool.discipline:
        change = f"spec.discipline: cannot change from {was} to {pool.discipline}"
        yield from refused_with_runs(view, pool, change)


def _check_node(view: StateView, pools: Mapping[str, Pool], node: Node) -> Iterator[Refusal]:
    labels = dict(node.labels) | node.location
    chosen = [
        name
        for name, pool in sorted(pools.items())
        if name != DEFAULT_POOL and matches(pool.selector, labels)
    ]
    if len(chosen) > 1:
        yield Refusal(
            code=RefusalCode.CONFLICT,
            subject=f"Node/{node.name}: pools {chosen[0]!r} and {chosen[1]!r} both select it",
            remedy="a node is in exactly one pool: narrow one of the selectors",
        )
    held = view.node_leases.get(node.name)
    if not held:
        return
    old = view.nodes[node.name]
    moved = (old.spec.flavor, old.spec.domain_key, old.spec.rack, old.island.pool) != (
        node.flavor,
        node.domain_key,
        node.rack,
        chosen[0] if chosen else DEFAULT_POOL,
    )
    unwiped = view.unwiped.get(node.name)
    if unwiped is not None and unwiped.leases and node.gpus != old.spec.gpus:
        yield Refusal(
            code=RefusalCode.CONFLICT,
            subject=f"Node/{node.name}: claim {unwiped.claim!r} has all of it, so it cannot change "
            "its GPUs",
            remedy=f"wait for its end, or have it released: quorate release {unwiped.claim}",
        )
    elif moved or node.gpus < old.spec.gpus:
        yield Refusal(
            code=RefusalCode.CONFLICT,
            subject=f"Node/{node.name}: has {counted(len(held), 'open lease')}, so its flavor, "
            "place and pool cannot change and it cannot shrink",
            remedy=f"end the runs on it first: quorate describe node {node.name}",
        )


def _upstreams_first(specs: Sequence[Applied]) -> list[Applied]:
    """Return ``specs`` with every run behind the runs of the same command that it follows.

    Runs that follow each other in a circle stay as they are; ``_check_follow`` refuses them.
    """
    runs = {spec.name: spec for spec in specs if isinstance(spec, Run)}
    ordered: dict[str, Run] = {}
    waiting = list(runs.values())
    while waiting:
        ready = [run for run in waiting if not (_follows(run) & runs.keys()) - ordered.keys()]
        for run in ready or waiting:
            ordered[run.name] = run
        waiting = [run for run in waiting if run.name not in ordered]
    if len(runs) < sum(isinstance(spec, Run) for spec in specs):
        return list(specs)  # Two of one name: ``_check_names`` refuses them.
    return [*(spec for spec in specs if not isinstance(spec, Run)), *ordered.values()]


def _follows(run: Run) -> set[str]:
    return set() if run.follow is None else set(run.follow.after)


def _check_follow(specs: Sequence[Applied]) -> Iterator[Refusal]:
    """Yield each circle of runs that follow each other, once."""
    after = {spec.name: tuple(_follows(spec)) for spec in specs if isinstance(spec, Run)}
    for name in after:
        cycle = cycle_through(after, name)
        if cycle and name == min(cycle):
            yield Refusal(
                code=RefusalCode.CONFLICT,
                subject=f"Run/{name}: spec.follow.after: makes a cycle: {' -> '.join(cycle)}",
                remedy="no run can wait for itself: remove one of these",
            )


def _check_budget(view: StateView, budget: Budget, owners: set[str]) -> Iterator[Refusal]:
    """Yield an unknown owner, and changes that would leave open leases unpaid or over a limit."""
    path = f"Budget/{budget.name}: spec"
    if budget.owner not in owners:
        yield unknown(f"{path}.owner", "owner", budget.owner)
    for envelope in budget.envelopes:
        for name in envelope.lending.to:
            if not name.endswith("*") and name not in owners:
                yield unknown(f"{path}.envelopes[{envelope.name}].lending.to", "owner", name)
    old = view.budgets.get(budget.name)
    lines = () if old is None else old.envelopes
    new = {envelope.name: envelope for envelope in budget.envelopes}
    # An envelope that was left out before, or removed with its owner, and is declared again still
    # answers for what it paid then.
    for name in dict.fromkeys((*(envelope.name for envelope in lines), *new)):
        account = view.envelopes.get(envelope_id(budget.name, name))
        if account is None or (account.gpus_active == 0 and account.committed_gpu_ms == 0):
            continue
        where = f"{path}.envelopes[{name}]"
        kept = new.get(name)
        if account.gpus_active and kept is None:
            yield _in_use(where, account.gpus_active, "its envelope cannot go")
        if kept is not None and budget.owner != account.owner:
            yield _paid_before(path, name, account)
        if kept is not None:
            tried = account.copy()
            tried.spec = kept
            yield from _overdrawn(view, where, tried)
            yield from _terms_worse(where, account, kept)
    yield from _caps_overdrawn(view, path, budget)


def _paid_before(path: str, name: str, account: EnvelopeAccount) -> Refusal:
    """Return why a budget cannot have another owner: that owner would see who was paid for."""
    return Refusal(
        code=RefusalCode.CONFLICT,
        subject=f"{path}.owner: envelope {name!r} has paid, or holds money, for {account.owner!r}",
        remedy="give the new owner a budget or an envelope of another name",
    )


def _terms_worse(where: str, account: EnvelopeAccount, kept: Envelope) -> Iterator[Refusal]:
    """Yield refusals of terms that would give borrowers a shorter notice than when they started."""
    lent = account.lent_gpus_active
    had, has = account.spec.lending.recall_notice_ms, kept.lending.recall_notice_ms
    if lent and has is not None and (had is None or has < had):
        what = "recall cannot be added" if had is None else "its notice cannot be shortened"
        yield _in_use(f"{where}.lending.recall.notice", lent, what)


def _overdrawn(view: StateView, where: str, account: EnvelopeAccount) -> Iterator[Refusal]:
    """Yield each limit of ``account`` that is below what it has spent or promised to spend.

    Its concurrency may be lowered: ``preemption/tightening.py`` handles that.
    """
    spec = account.spec
    if account.committed_gpu_ms > spec.gpu_ms_granted:
        yield _spent(f"{where}.maxGPUHours", account.committed_gpu_ms, spec.gpu_ms_granted)
    lending = spec.lending
    lent = account.lent_gpus_active
    if lent and not lending.allow:
        yield _in_use(f"{where}.lending.allow", lent, "lending cannot stop")
    if lending.gpu_ms_max is not None and account.lent_committed_gpu_ms > lending.gpu_ms_max:
        yield _spent(
            f"{where}.lending.maxGPUHours", account.lent_committed_gpu_ms, lending.gpu_ms_max
        )
    if not account.gpus_active:
        return
    for lease in view.leases.values():
        if lease.fact.payer != account.envelope_id:
            continue
        nodes = [view.nodes[node].spec for node, _ in lease.fact.slots]
        late = lease.hold_ends_ms > spec.end_ms or (
            lease.fact.start_ms < spec.start_ms and not spec.allow_admission
        )
        if late or not all(
            node.flavor == spec.flavor and matches(spec.selector, node.location) for node in nodes
        ):
            yield _in_use(where, lease.gpus, "its flavor, selector or window leaves them out")
            return


def _caps_overdrawn(view: StateView, path: str, budget: Budget) -> Iterator[Refusal]:
    """Yield each cap on GPU-hours that is below what its envelopes have already promised."""
    for cap in budget.caps:
        accounts = [
            account
            for name in cap.envelopes
            if (account := view.envelopes.get(envelope_id(budget.name, name))) is not None
        ]
        committed = sum(account.committed_gpu_ms for account in accounts)
        where = f"{path}.aggregateCaps[{cap.name}]"
        if cap.gpu_ms_max is not None and committed > cap.gpu_ms_max:
            yield _spent(f"{where}.maxGPUHours", committed, cap.gpu_ms_max)


def _in_use(where: str, gpus: int, why: str) -> Refusal:
    return Refusal(
        code=RefusalCode.CONFLICT,
        subject=f"{where}: {counted(gpus, 'GPU')} {'is' if gpus == 1 else 'are'} running on it, "
        f"{why}",
        wanted=gpus,
        remedy="end runs it pays for first: quorate get leases -o wide",
    )


def _spent(where: str, committed_gpu_ms: int, gpu_ms: int) -> Refusal:
    """Return why ``gpu_ms`` is too little: it must be at least what is spent and held."""
    least = hours_text(committed_gpu_ms, up=True)
    return Refusal(
        code=RefusalCode.CONFLICT,
        subject=f"{where}: {least} GPU-hours are spent or held already, {hours_text(gpu_ms)} is "
        "too low",
        remedy=f"use {least} or more; what is held and not used comes back when its runs end",
    )


def _promises(view: StateView, specs: Sequence[Applied]) -> Iterator[str]:
    """Yield a warning for each scope whose envelopes promise more GPUs than its nodes have."""
    scopes: dict[tuple[str, tuple[tuple[str, str], ...]], int] = {}
    if not any(isinstance(spec, Budget | Node) for spec in specs):
        return
    for account in view.envelopes.values():
        if not account.retired:
            key = (account.spec.flavor, account.spec.selector)
            scopes[key] = scopes.get(key, 0) + account.spec.concurrency
    places: dict[tuple[str, tuple[tuple[str, str], ...]], int] = {}
    for record in view.nodes.values():
        place = (record.spec.flavor, tuple(sorted(record.spec.location.items())))
        places[place] = places.get(place, 0) + record.spec.gpus
    for (flavor, selector), promised in sorted(scopes.items()):
        held = sum(
            gpus
            for (kind, place), gpus in places.items()
            if kind == flavor and matches(selector, dict(place))
        )
        if promised > held:
            scope = ",".join(f"{label}={value}" for label, value in selector)
            yield (
                f"envelopes promise {promised} {flavor} GPUs where {scope}, "
                f"nodes have {held}: not all of it can run at once"
            )
