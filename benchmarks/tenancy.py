"""The costs of one more waiting run, and of waking a run, among many tenants at their limits.

Every tenant runs as many runs as its quota allows, and ten more of its runs wait. Each tenant has
soft budgets of GPU-hours and node-hours, different from those of its neighbours. Time passes
between decisions, and some tenants cross a threshold. A submission must not read the other waiting
runs or the use of other tenants, and the end of a run must not read the runs of other tenants. The
baseline is the same with a hundred tenants.
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
"""The time between two decisions."""


def measure(effort: Effort) -> list[Figure]:
    """Return the costs of enqueueing and waking among many tenants, and among few."""
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
    _us(state, [Submit(_run("any", _free(0)))])  # This command builds all indexes.
    # Each run has another owner, because starts and ends cost more if the owner has other runs.
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
        # The costs of one end and one start are known from runs without a queue.
        "wake": max(0.0, completing - starting - ending),
    }


def _us(state: State, commands: list[Submit] | list[Complete], *seen: type[Event]) -> float:
    """Return the CPU microseconds of deciding each of ``commands``; each must take effect."""
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
    """Return the CPU microseconds of computing the next due instant, after some time."""
    found: list[float] = []
    for number in range(samples):
        start = process_time()
        due_ms = next_due_ms(state, has_executor=True, after_ms=state.at_ms + number * APART_MS)
        found.append(process_time() - start)
        assert due_ms is not None
    return median(found) * 1e6


def _tenant(number: int) -> Owner:
    """Return a tenant that may run one run; the first tenants soon use up their budgets."""
    quota = Quota(
        concurrent_runs_max=1,
        gpu_ms_budget=(1 + number % 997) * 100 * SECOND_MS,
        node_ms_budget=(1 + number % 771) * 60 * SECOND_MS,
    )
    return Owner(name=_name(number), quota=quota)


def _full(tenants: int, others: int) -> State:
    """Return a fleet with room, in which every tenant is at its limit and has waiting runs.

    There are also ``others`` owners without limits and without runs.
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
