"""Declare: carry out an ``Apply`` command, either completely or not at all.

The parser has checked each document by itself; this module checks the documents against the state.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from quorate.core.commands import Applied, Apply, Change, Decision
from quorate.core.decision_log import DecisionLog
from quorate.core.lifecycle.fleet_checks import check_fleet
from quorate.core.lifecycle.follow import is_upstream
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
from quorate.model.task_arrays import is_alike, upstreams_of

_ORDER: dict[type, int] = {System: 0, Pool: 1, Node: 2, Owner: 3, Budget: 4, Run: 5}


def declare(log: DecisionLog, command: Apply) -> Decision:
    """Write the events of all resources that ``command`` declares, or return all refusals."""
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
            continue
        event, old = _event_of(log, view, spec)
        name = "system" if isinstance(spec, System) else spec.name
        if old == spec:
            changes.append((type(spec).__name__, name, Change.UNCHANGED))
            continue
        log.write(event)
        change = Change.CREATED if old is None else Change.CONFIGURED
        changes.append((type(spec).__name__, name, change))
    refusals += _declare_runs(log, [spec for spec in specs if isinstance(spec, Run)], changes)
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
    """Return the event that records ``spec``, and the spec that it replaces (None if it is new)."""
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


def _declare_runs(
    log: DecisionLog, runs: Sequence[Run], changes: list[tuple[str, str, Change]]
) -> list[Refusal]:
    """Accept ``runs``, and return the refusals of the runs that cannot be accepted.

    All tasks of an array have the same faults, so only the faults of one task are returned.
    """
    refusals: list[Refusal] = []
    refused: set[str] = set()
    for run in runs:
        array = "" if run.array is None else run.array.name
        if array in refused:
            continue
        found = _declare_run(log, run, changes)
        refusals += found
        if array and found:
            refused.add(array)
    return refusals


def _declare_run(
    log: DecisionLog, run: Run, changes: list[tuple[str, str, Change]]
) -> list[Refusal]:
    """Accept ``run``, or return its refusals; if the same run exists already, change nothing."""
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
    refusals += _check_array(view, run)
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
                "pools with discipline rounds",
                remedy=f"leave them out, or name a rounds pool instead of {run.pool!r}",
            )
        )
    if run.sensitive:
        refusals += [
            Refusal(code=RefusalCode.INVALID, subject=f"{path}spec.{field}: {what}", remedy=remedy)
            for field, what, remedy in claim_faults(view, run)
        ]
    refusals += [
        unknown(f"{path}spec.follow.after", "run", each.name)
        for each in upstreams_of(run)
        if not is_upstream(view, each.name)
    ]
    refusals += [
        unknown(f"{path}spec.funding.sponsors", "owner", name)
        for name in run.funding.sponsors
        if name not in view.owners
    ]
    return refusals


def _check_array(view: StateView, run: Run) -> list[Refusal]:
    """Return a refusal if the name of ``run``, or of its array, is already in use."""
    if run.array is not None and run.task is None:
        return [
            Refusal(
                code=RefusalCode.INVALID,
                subject=f"Run/{run.name}: spec.array: this command cannot submit an array",
                remedy="use quorate submit -f FILE, or leave array out",
            )
        ]
    if run.array is None:
        taken = "an array" if run.name in view.arrays else ""
    elif run.array.name in view.runs:
        taken = "a run"
    else:
        known = view.arrays.get(run.array.name)
        is_new = known is None or is_alike(view.runs[known.first].spec, run)
        taken = "" if is_new else "another array"
    name = run.name if run.array is None else run.array.name
    if not taken:
        return []
    return [
        Refusal(
            code=RefusalCode.ALREADY_EXISTS,
            subject=f"Run/{run.name}: metadata.name: {taken} of the name {name} exists",
            remedy="choose another name, or use metadata.generateName",
        )
    ]


def _check_names(specs: Sequence[Applied]) -> Iterator[Refusal]:
    """Yield a refusal for each resource that is declared twice.

    Later checks rely on the fact that each name is declared only once.
    """
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
    """Return ``specs`` in an order in which each run comes after the runs that it follows.

    Only runs in ``specs`` matter for this order. The tasks of an array stay together. Runs that
    follow each other in a cycle keep their order; ``_check_follow`` refuses them.
    """
    units = _units(specs)
    ordered = dict.fromkeys(_ordered(_followed_units(units)))
    ordered |= dict.fromkeys(units)  # Runs in a cycle, and runs that follow runs in a cycle.
    runs = [run for unit in ordered for run in units[unit]]
    if len({run.name for run in runs}) < len(runs):
        return list(specs)  # Two runs have one name: ``_declare_run`` handles them.
    return [*(spec for spec in specs if not isinstance(spec, Run)), *runs]


def _ordered(after: Mapping[str, Iterable[str]]) -> Iterator[str]:
    """Yield the keys of ``after`` in an order in which each key comes after the keys in its value.

    The given order is kept where possible. If a key is in its own value, it is ignored there. Keys
    in a cycle are left out, and also keys that come after a key in a cycle.
    """
    left = {name: len(set(names) - {name}) for name, names in after.items()}
    behind: dict[str, list[str]] = {}
    for name, names in after.items():
        for each in set(names) - {name}:
            behind.setdefault(each, []).append(name)
    place = {name: number for number, name in enumerate(after)}
    ready = [name for name, count in left.items() if not count]
    while ready:
        yield from ready
        freed = []
        for name in ready:
            for each in behind.get(name, ()):
                left[each] -= 1
                if not left[each]:
                    freed.append(each)
        ready = sorted(freed, key=place.__getitem__)


def _units(specs: Sequence[Applied]) -> dict[str, list[Run]]:
    """Return the runs in ``specs``, each under its name, or under the name of its array."""
    units: dict[str, list[Run]] = {}
    for spec in specs:
        if isinstance(spec, Run):
            units.setdefault(spec.name if spec.array is None else spec.array.name, []).append(spec)
    return units


def _followed_units(units: Mapping[str, Sequence[Run]]) -> dict[str, set[str]]:
    """Return, for each of ``units``, the units of the same command that it follows.

    A unit is a run or an array. If a unit follows itself, it is in its own set.
    """
    unit_of = {run.name: unit for unit, runs in units.items() for run in runs}
    unit_of |= {unit: unit for unit in units}
    return {
        unit: {unit_of[name] for run in runs[:1] for name in _stated(run) if name in unit_of}
        for unit, runs in units.items()
    }


def _stated(run: Run) -> tuple[str, ...]:
    """Return the names of the runs and arrays that ``run`` follows, as stated in its document.

    All tasks of an array follow the same names.
    """
    follow = run.follow
    return () if follow is None else (*follow.after, *follow.after_any, *follow.after_task)


def _check_follow(specs: Sequence[Applied]) -> Iterator[Refusal]:
    """Yield a refusal for each cycle of runs that follow each other.

    A cycle that shares a run with a cycle that was already reported is left out.
    """
    followed = _followed_units(_units(specs))
    own = {name for name, names in followed.items() if name in names}
    within = followed.keys() - (set(_ordered(followed)) - own)
    after = {name: tuple(followed[name] & within) for name in sorted(within)}
    seen: set[str] = set()
    for name in after:
        cycle = [] if name in seen else cycle_through(after, name)
        if cycle:
            seen.update(cycle)
            yield Refusal(
                code=RefusalCode.CONFLICT,
                subject=f"Run/{name}: spec.follow.after: makes a cycle: {' -> '.join(cycle)}",
                remedy="no run can wait for itself: remove one of these",
            )
