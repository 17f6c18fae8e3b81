"""Declare: carry out an ``Apply`` on the current state, all of it or none.

A document by itself was checked when it was parsed; here it is checked against the state.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from quorate.core.commands import Applied, Apply, Change, Decision
from quorate.core.decision_log import DecisionLog
from quorate.core.lifecycle.fleet_checks import check_fleet
from quorate.core.lifecycle.pool_executors import image_faults
from quorate.core.lifecycle.sensitive_claims import claim_faults
from quorate.core.preemption.tightening import tighten
from quorate.core.rounds.round_checks import rounds_faults
from quorate.core.tenancy.budget_checks import check_budget, promise_warnings
from quorate.core.tenancy.owner_checks import (
    check_owners,
    cycle_through,
    share_warnings,
    unknown,
    unknown_pool,
)
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
from quorate.model.specs import (
    Budget,
    Discipline,
    Node,
    Owner,
    Pool,
    Run,
    System,
)
from quorate.model.state.state_view import StateView

_ORDER: dict[type, int] = {System: 0, Pool: 1, Node: 2, Owner: 3, Budget: 4, Run: 5}


def declare(log: DecisionLog, command: Apply) -> Decision:
    """Write what ``command`` declares, or return every reason why that is refused."""
    view = log.view
    specs = sorted(command.specs, key=lambda spec: _ORDER[type(spec)])
    specs = _upstreams_first(specs)
    refusals = [
        *_check_names(specs),
        *check_fleet(view, specs),
        *check_owners(view, _owners_of(specs)),
        *_check_follow(specs),
    ]
    owners = {*_owners_of(specs), *view.owners}
    for spec in specs:
        if isinstance(spec, Budget):
            refusals += check_budget(view, spec, owners)
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
        *promise_warnings(log.view, specs),
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
