"""Many tenants at their limits: what one more waiting run costs, and what waking one does.

Every tenant runs as many runs as it may, and ten more of each wait for it. Each has budgets of
GPU-hours and of node-hours, no two in a row alike; time passes between decisions, and some cross a
threshold. A run that is submitted must not look at the others that wait nor at what other tenants
have used, and one that ends must not touch those of other tenants. The baseline is the same with a
hundred tenants.
"""

from __future__ import annotations

from statistics import median
from time import process_time

from benchmarks.figure import Baseline, Effort, Figure
from benchmarks.worlds import FLAVOR, REGION_NAME, fleet
from quorate.core.admission.hard_quota import too_many_runs, waiting
from quorate.core.commands import Command, Complete, Submit
from quorate.core.decide import decide
from quorate.core.next_due import next_due_ms
from quorate.model.amounts import HOUR_MS, SECOND_MS
from quorate.model.events import Event, LeaseStarted, RunRefused, RunSubmitted
from quorate.model.selector import REGION
from quorate.model.specs import OnQuota, Owner, Quota, Run
from quorate.model.state.apply_event import apply_all
from quorate.model.state.state import State
from quorate.testing.builders import NOW_MS, budget, envelope, world

WAITING_EACH = 10
SMALL = 100
APART_MS = 10
"""How far decisions are apart."""


def measure(effort: Effort) -> list[Figure]:
    """Return what enqueueing and waking cost among many tenants, and among few."""
    many = _costs(effort.of(10_000, 500), effort.of(2_000, 100))
    few = _costs(SMALL, SMALL // 2)
    return [
        Figure(
            name=name,
            unit="us",
            value=many[key],
            better="less",
            target=100,
            baseline=Baseline(f"the same with {SMALL} tenants", few[key]),
            details={
                "tenants": many["tenants"],
                "waiting": many["waiting"],
                "thresholds crossed": many["crossed"],
                "us to find what is due next": many["due"],
                "us for the command that wakes": many["completing"],
                "of it for the start": many["starting"],
                "of it for the end": many["ending"],
            },
        )
        for name, key in (("a run that waits for a quota", "enqueue"), ("waking the next", "wake"))
    ]


def _costs(tenants: int, samples: int) -> dict[str, float]:
    state = _full(tenants, samples)
    _us(state, [Submit(_run("any", _free(0)))])  # Which leaves no index for later.
    # Each of another owner: what an owner has besides makes its starts and ends dearer.
    begin = [Submit(_run(f"other-{n}", _free(n))) for n in range(samples)]
    starting = _us(state, begin, LeaseStarted)
    ending = _us(state, [Complete(command.run.name) for command in begin])
    enqueue = _us(state, [Submit(_run(f"more-{n}", _name(n))) for n in range(samples)], RunRefused)
    completing = _us(state, [Complete(f"first-{n}") for n in range(samples)], LeaseStarted)
    return {
        "tenants": tenants,
        "waiting": len(state.pending),
        "enqueue": enqueue,
        "starting": starting,
        "ending": ending,
        "completing": completing,
        "crossed": len(state.thresholds),
        "due": _due_us(state, samples),
        # Ending one run and starting another cost what they cost when no run waits.
        "wake": max(0.0, completing - starting - ending),
    }


def _us(state: State, commands: list[Submit] | list[Complete], *seen: type[Event]) -> float:
    """Return the CPU microseconds of deciding each of ``commands``; all of them take effect."""
    found: list[float] = []
    for command in commands:
        asked: Command = command
        start = process_time()
        decision = decide(state, asked, now_ms=state.at_ms + APART_MS, actor="bench")
        found.append(process_time() - start)
        kinds = {type(event) for event in decision.events}
        assert not decision.refusals, decision.refusals
        assert kinds.issuperset(seen), kinds
        apply_all(state, decision.events)
    return median(found) * 1e6


def _due_us(state: State, samples: int) -> float:
    """Return the CPU microseconds of computing the next due instant, some time later."""
    found: list[float] = []
    for number in range(samples):
        start = process_time()
        due_ms = next_due_ms(state, has_executor=True, after_ms=state.at_ms + number * APART_MS)
        found.append(process_time() - start)
        assert due_ms is not None
    return median(found) * 1e6


def _tenant(number: int) -> Owner:
    """Return a tenant that may run one run; the first of them have soon used up what they may."""
    quota = Quota(
        concurrent_runs_max=1,
        gpu_ms_budget=(1 + number % 997) * 100 * SECOND_MS,
        node_ms_budget=(1 + number % 771) * 60 * SECOND_MS,
    )
    return Owner(name=_name(number), quota=quota)


def _full(tenants: int, others: int) -> State:
    """Return a fleet with room, in which every tenant is at its limit and has runs that wait.

    And ``others`` that have no limit and nothing else.
    """
    quota = Quota(gpu_ms_budget=HOUR_MS, node_ms_budget=HOUR_MS)
    free = [Owner(name=_free(n), quota=quota) for n in range(others)]
    owners = [*map(_tenant, range(tenants)), *free]
    state = world(
        nodes=fleet(-(-tenants // 4)),
        owners=owners,
        budgets=[
            budget(f"b-{o.name}", o.name, envelope("e", 100_000, selector=((REGION, REGION_NAME),)))
            for o in owners
        ],
    )
    for n in range(tenants):
        command = Submit(_run(f"first-{n}", _name(n)))
        apply_all(state, decide(state, command, now_ms=NOW_MS, actor="bench").events)
    events: list[Event] = []
    for number in range(WAITING_EACH):
        for n in range(tenants):
            run = _run(f"wait-{number}-{n}", _name(n))
            over = too_many_runs(state, run.owner)
            assert over is not None
            told = waiting(state, run, over)
            events += (
                RunSubmitted(at_ms=NOW_MS, actor="bench", run=run),
                RunRefused(at_ms=NOW_MS, actor="bench", run=run.name, refusal=told),
            )
    apply_all(state, events)
    return state


def _name(number: int) -> str:
    return f"tenant-{number}"


def _free(number: int) -> str:
    return f"free-{number}"


def _run(name: str, owner: str) -> Run:
    return Run(
        name=name,
        owner=owner,
        flavors=(FLAVOR,),
        gpus=1,
        on_quota=OnQuota.WAIT,
        expected_duration_ms=HOUR_MS,
    )
