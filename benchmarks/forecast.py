"""Forecasting one start behind 5,000 leases and 100 reservations; and a tick with nothing to do.

The fleet is full of runs that end at different times, and a hundred wide ones wait for theirs. The
baseline walks the same ends one by one and tries to start the run after each of them.
"""

from __future__ import annotations

from random import Random
from time import process_time

from quorate.core.forecast import Found, find_start
from quorate.core.outlook import Outlook
from quorate.core.promises import take_out
from quorate.core.timeline import release

from benchmarks.figure import Baseline, Effort, Figure, median_of
from benchmarks.worlds import FLAVOR, REGION_NAME, fleet
from quorate.core.admit import Admitted, admit
from quorate.core.commands import Submit, Tick
from quorate.core.decide import decide
from quorate.core.expected import lease_end_ms
from quorate.model.amounts import HOUR_MS, MINUTE_MS, SECOND_MS
from quorate.model.apply import apply_all
from quorate.model.selector import REGION
from quorate.model.specs import Pool, Run
from quorate.model.state import State
from quorate.testing.world import NOW_MS, budget, envelope, world

OWNERS = 20
GPUS = (1, 2, 4, 8, 8, 16)


def measure(effort: Effort) -> list[Figure]:
    """Return what one forecast costs, and what an idle tick costs on a small and a large fleet."""
    leases, reservations = effort.of(5_000, 300), effort.of(100, 10)
    state = busy(leases, reservations)
    asked = _run("asked", 96, 0, group=32)
    found = find_start(state, asked, NOW_MS, has_executor=False)
    assert isinstance(found, Found), found
    walked = walk(state, asked)
    assert walked == found.start_ms, (walked, found.start_ms)
    mine = median_of(effort.of(15, 3), _Asking(state, asked))
    first = median_of(effort.of(9, 3), lambda: _cpu_ms(lambda: _first(state, asked)))
    naive = median_of(effort.of(3, 1), lambda: _cpu_ms(lambda: walk(state, asked)))
    small, large = busy(effort.of(100, 50), 0), busy(effort.of(10_000, 500), 0)
    idle = [_idle_us(each, effort.of(2_000, 100)) for each in (small, large)]
    return [
        Figure(
            name="forecast of one run",
            unit="ms",
            value=mine,
            better="less",
            target=50,
            baseline=Baseline("trying to start after each end", naive),
            details={
                "leases": len(state.leases),
                "reservations": len(state.reservations),
                "ms for the first after a restart": first,
                "hours ahead": (found.start_ms - NOW_MS) / HOUR_MS,
            },
        ),
        Figure(
            name="idle tick, many leases over few",
            unit="x",
            value=idle[1] / idle[0],
            better="less",
            target=1.5,
            details={
                "us": idle[1],
                "leases": len(large.leases),
                "leases of the small one": len(small.leases),
            },
        ),
    ]


class _Asking:
    """A forecast, as it is asked for in service: some lease has changed, and a second has gone."""

    def __init__(self, state: State, run: Run) -> None:
        self._state, self._run = state, run
        self._leases = Random(2).sample(sorted(state.leases), k=min(100, len(state.leases)))
        self._now_ms = NOW_MS

    def __call__(self) -> float:
        self._state.end_changed(self._state.leases[self._leases.pop()])
        self._now_ms += SECOND_MS
        return _cpu_ms(lambda: find_start(self._state, self._run, self._now_ms, has_executor=False))


def _first(state: State, run: Run) -> Found | None:
    """Return the start of ``run`` with nothing known about when leases end."""
    state.ends_changed()
    return find_start(state, run, NOW_MS, has_executor=False)


def busy(leases: int, reservations: int) -> State:
    """Return a full fleet with so many leases that end one after the other, and runs that wait."""
    chance = Random(1)
    sizes = [chance.choice(GPUS) for _ in range(leases)]
    state = world(
        nodes=fleet(-(-sum(sizes) // 8)),
        pools=[Pool(name="default", disruption_rate_ppm=0)],
        budgets=[
            budget(f"b{n}", f"team{n}", envelope("e", 1_000_000, selector=((REGION, REGION_NAME),)))
            for n in range(OWNERS)
        ],
    )
    for number, gpus in enumerate(sorted(sizes, reverse=True)):
        minutes = chance.randrange(60, 60 * 48)
        _submit(state, _run(f"r{number}", gpus, minutes, owner=number % OWNERS))
    for number in range(reservations):
        gpus = chance.choice((32, 64, 128, 256))
        _submit(state, _run(f"w{number}", gpus, 600, owner=number % OWNERS, group=32))
    assert len(state.reservations) == reservations, len(state.reservations)
    return state


def _run(name: str, gpus: int, minutes: int, owner: int = 0, group: int | None = None) -> Run:
    return Run(
        name=name,
        owner=f"team{owner}",
        flavors=(FLAVOR,),
        gpus=gpus,
        group_gpus=group,
        expected_duration_ms=(minutes or 600) * MINUTE_MS,
    )


def _submit(state: State, run: Run) -> None:
    decision = decide(state, Submit(run), now_ms=NOW_MS, actor="bench")
    assert not decision.refusals, decision.refusals
    apply_all(state, decision.events)


def walk(state: State, run: Run) -> int:
    """Return when ``run`` can start, found by trying after each expected end."""
    outlook = Outlook.of(state, NOW_MS)
    ends = sorted((lease_end_ms(state, lease, NOW_MS), n) for n, lease in state.leases.items())
    # Reservations end, too, and so make room.
    later = sorted({plan.end_ms for plan in outlook.plans})
    trial, place = state.overlay(), 0
    instants = sorted({NOW_MS, *(end_ms for end_ms, _ in ends), *later})
    for at_ms in instants:
        while place < len(ends) and ends[place][0] <= at_ms:
            release(trial, [trial.leases[ends[place][1]]])
            place += 1
        assert run.expected_duration_ms is not None
        until_ms = at_ms + run.expected_duration_ms + run.checkpoint_ms
        if isinstance(admit(trial, run, at_ms), Admitted):
            room = take_out(trial, outlook, run, at_ms, until_ms)
            if isinstance(admit(room, run, at_ms), Admitted):
                return at_ms
    raise AssertionError(run)


def _idle_us(state: State, ticks: int) -> float:
    state.overlay()  # The indexes are there before anything is measured.
    decide(state, Tick(), now_ms=NOW_MS, actor="bench")
    start = process_time()
    for _ in range(ticks):
        decision = decide(state, Tick(), now_ms=NOW_MS, actor="bench")
        assert not decision.events
    return (process_time() - start) / ticks * 1e6


def _cpu_ms(work: object) -> float:
    assert callable(work)
    start = process_time()
    work()
    return (process_time() - start) * 1_000
