"""``calc scenario``: plays a script of steps on the production engine, with a ledger in memory.

The answer has the state and the events after every step, the path of each failed expectation, and
the violated invariants. A whole scenario is one file. So a fault that a simulation has found can be
kept, and played again.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from quorate.calc.expecting import mismatches
from quorate.calc.running_world import plain_pool, world_pool
from quorate.calc.scenario_script import Deed, Script, Step, read_documents
from quorate.calc.scenario_stage import Stage, StandstillError
from quorate.calc.scenario_trace import Chronicle, state_tree
from quorate.calc.world_fleet import read_nodes
from quorate.calc.world_funds import Funds, read_funds
from quorate.calc.world_reader import link_or_hash, open_world, settle
from quorate.calc.world_runs import WorldRun, owner_of, read_runs
from quorate.core.commands import Applied, Cancel, Complete, Fail, Submit
from quorate.documents import values
from quorate.documents.document_problem import CalcInputError
from quorate.documents.field_reader import At, Fields, complete, listed
from quorate.documents.times import time_ms, time_text
from quorate.model.refusal import Refusal, sentence
from quorate.model.specs import DEFAULT_POOL, Owner, Pool
from quorate.model.state.records import TERMINAL, Phase
from quorate.sim.simulation import LOTTERY_SECRET
from quorate.views.refusal_answer import refusal_tree
from quorate.views.runs.event_text import format_event


@dataclass(frozen=True, slots=True, kw_only=True)
class _Scenario:
    """The steps of a script, and the world in which they are played."""

    now_ms: int
    specs: tuple[Applied, ...]
    runs: tuple[WorldRun, ...]
    steps: tuple[Step, ...]
    secret: bytes
    has_executor: bool
    quiet: bool


def scenario(world: object) -> dict[str, object]:
    """Return the state after every step, the failed expectations and the violated invariants."""
    script = _read(world)
    stage = Stage(
        now_ms=script.now_ms,
        secret=script.secret,
        has_executor=script.has_executor,
        quiet=script.quiet,
    )
    _set(stage, script)
    told_so_far = Chronicle()
    told_so_far.note(stage.news())
    trace: list[dict[str, object]] = []
    failed: list[dict[str, object]] = []
    violations: list[str] = []
    for number, step in enumerate(script.steps):
        try:
            entry = _play(stage, step, told_so_far)
        except StandstillError as error:
            raise CalcInputError(f"steps[{number}].at", str(error)) from None
        trace.append(entry)
        path = f"steps[{number}]"
        failed += [
            {"path": each.path, "expected": each.expected, "found": each.found}
            for each in mismatches(step.expected, entry, f"{path}.expect")
            if step.expected is not None
        ]
        last = number == len(script.steps) - 1
        violations += [f"{path}: {each}" for each in stage.violations(whole=last)]
    return {
        "ok": not failed and not violations,
        "failed": failed,
        "violations": violations,
        "trace": trace,
    }


def unmet(answer: Mapping[str, object]) -> list[str]:
    """Return the failed expectations and the violated invariants in ``answer``, one line each."""
    lines = []
    failed, violations = answer.get("failed", ()), answer.get("violations", ())
    assert isinstance(failed, list | tuple), answer
    assert isinstance(violations, list | tuple), answer
    for each in failed:
        expected, found = (json.dumps(each[key], ensure_ascii=False) for key in _BOTH)
        lines.append(f"{each['path']}: expected {expected}, found {found}")
    return [*lines, *violations]


_BOTH: Final = ("expected", "found")


def _play(stage: Stage, step: Step, so_far: Chronicle) -> dict[str, object]:
    """Play ``step``; return its refusals and events, and the state after it."""
    if step.at_ms is not None:
        stage.advance(step.at_ms)
    refusals = () if step.deed is None else stage.act(step.deed)
    events = stage.news()
    so_far.note(events)
    entry: dict[str, object] = {"op": step.word, "at": time_text(stage.now_ms)}
    if refusals:
        entry["error"] = "; ".join(sentence(refusal) for refusal in refusals)
        entry["refusals"] = [refusal_tree(refusal) for refusal in refusals]
    entry |= state_tree(stage.view, so_far, stage.now_ms, has_executor=stage.has_executor)
    entry["events"] = [format_event(event) for event in events]
    return entry


# --- The world ------------------------------------------------------------------------------------


def _read(world: object) -> _Scenario:
    fields, at = open_world(world, ["now", "steps"])
    now_ms = fields.required("now", time_ms)
    pool = world_pool(fields)
    secret = fields.optional("secret", link_or_hash, LOTTERY_SECRET)
    has_executor = fields.optional("executor", values.truth, default=False)
    quiet = fields.optional("quiet", values.truth, default=False)
    if "leases" in fields:
        fields.at("leases").fault("is not allowed in a scenario", "start work by submitting runs")
    settle(at)
    assert now_ms is not None, world
    funds = read_funds(fields, at)
    nodes = read_nodes(fields, at)
    runs = read_runs(fields, at, funds)
    documents = fields.optional("documents", _documents, ())
    settle(at)
    if pool is None and "documents" not in fields:
        pool = plain_pool()
    # Every ledger has the default pool, so a world need not declare this pool.
    pools = () if pool is None or pool == Pool(name=DEFAULT_POOL) else (pool,)
    specs = (*pools, *nodes, *_money(funds, runs), *documents)
    return _Scenario(
        now_ms=now_ms,
        specs=specs,
        runs=runs,
        steps=_steps(
            fields, at, Script({r.spec.name: r.spec for r in runs}, owner_of(funds), now_ms=now_ms)
        ),
        secret=secret,
        has_executor=has_executor,
        quiet=quiet,
    )


def _steps(fields: Fields, at: At, script: Script) -> tuple[Step, ...]:
    found = complete(fields.required("steps", lambda v, a: listed(v, a, script.step)))
    settle(at)
    assert found is not None, "a step that cannot be read has a fault"
    return found


def _documents(value: object, at: At) -> tuple[Applied, ...] | None:
    trees = listed(value, at, lambda tree, _: tree)
    if trees is None:
        return None
    return read_documents(list(trees), [at.child(number) for number in range(len(trees))])


def _money(funds: Funds, runs: Sequence[WorldRun]) -> tuple[Applied, ...]:
    """Return all owners, including owners that only a run names, and then all budgets."""
    owners = {owner.name: owner for owner in funds.owners}
    for run in runs:
        for name in (run.spec.owner, *run.spec.funding.sponsors):
            owners.setdefault(name, Owner(name=name))
    return (*owners.values(), *(budget.spec for budget in funds.budgets))


def _set(stage: Stage, script: _Scenario) -> None:
    """Apply the world; submit and end the runs that are over; submit the running runs."""
    if script.specs:
        _insist(stage.apply(script.specs))
    for run in script.runs:
        if run.phase in TERMINAL:
            name = run.spec.name
            _insist(stage.act(Submit(run.spec)))
            ends: dict[Phase, Deed] = {
                Phase.COMPLETED: Complete(name, has_gone=True),
                Phase.FAILED: Fail(name, has_gone=True),
            }
            _insist(stage.act(ends.get(run.phase, Cancel(name))))
    for run in script.runs:
        if run.phase is Phase.RUNNING:
            _insist(stage.act(Submit(run.spec)))


def _insist(refusals: Sequence[Refusal]) -> None:
    """Raise ``CalcInputError`` with the refusals of the world, if there are any."""
    if refusals:
        raise CalcInputError("world", "; ".join(sentence(refusal) for refusal in refusals))
