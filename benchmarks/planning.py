"""The cost of planning on a full fleet with a queue, while runs end and arrive.

Each figure is the CPU time of deciding and applying a command, or of a whole answer. The baseline
does the same without caches: every index, rank, bound and expected end is computed again. The
targets are for a machine that adds a million numbers one by one in 50 ms; the time of this machine
is reported with the figures.
"""

from __future__ import annotations

from collections.abc import Callable
from statistics import median
from time import process_time

from benchmarks.figure import Baseline, Effort, Figure, additions_ms
from benchmarks.queues import Busy, busy
from quorate.core.commands import Complete, Decision, Submit
from quorate.core.explain.explanation import explain
from quorate.core.explain.start_plan import foretell
from quorate.core.planning.foresight import Foresight
from quorate.model.events import LeaseStarted, ReservationMade

STEP_MS = 20_000
NODES, DOMAINS, OWNERS, WAITING = 10_000, 128, 500, 50_000
ANEW = "everything found anew"


def measure(effort: Effort) -> list[Figure]:
    """Return the costs of decisions and answers on a small and on a large fleet with a queue."""
    small = _ends(busy(30, 4, 20, effort.of(500, 50)), effort.of(200, 5))
    few = _ends(_large(effort, effort.of(1_000, 100)), effort.of(60, 5))
    large = _large(effort, effort.of(WAITING, 500))
    ends = _ends(large, effort.of(100, 5))
    return [
        _completion("30 nodes, 500 wait", small, 5),
        _completion("10,000 nodes, 50,000 wait", ends, 4),
        Figure(
            name="completion, 50,000 waiting to 1,000",
            unit="x",
            value=median(ends.kept) / median(few.kept),
            better="less",
            target=1.3,
        ),
        *_submits(large, effort.of(200, 10)),
        *_answers(large, effort.of(5, 1)),
        *_deep(effort),
    ]


def _large(effort: Effort, waiting: int, *, depth: int = 20) -> Busy:
    nodes, domains = effort.of(NODES, 300), effort.of(DOMAINS, 8)
    return busy(nodes, domains, effort.of(OWNERS, 50), waiting, depth=depth)


class _Ends:
    """The times of completions: with caches, and with everything computed again."""

    def __init__(self, world: Busy) -> None:
        self.world = world
        self.kept: list[float] = []
        self.anew: list[float] = []
        self.starts = 0


def _ends(world: Busy, repeats: int) -> _Ends:
    found = _Ends(world)
    world.do(Complete(world.ending()))  # The first completion computes everything in any case.
    for number in range(repeats):
        world.now_ms += STEP_MS
        is_anew = number % 8 == 7
        if is_anew:
            world.forget()
        decision, took = world.do(Complete(world.ending()))
        (found.anew if is_anew else found.kept).append(took)
        found.starts += sum(isinstance(event, LeaseStarted) for event in decision.events)
        world.do(Submit(world.next_run()))
    return found


def _completion(what: str, found: _Ends, target_ms: float) -> Figure:
    return Figure(
        name=f"completion p50, {what}",
        unit="ms",
        value=median(found.kept),
        better="less",
        target=target_ms,
        baseline=Baseline(ANEW, median(found.anew)) if found.anew else None,
        details={
            "worst ms": max(found.kept),
            "starts": found.starts,
            "leases": len(found.world.state.leases),
            "firm": len(found.world.state.reservations),
            "a million additions here, ms": additions_ms(),
        },
    )


def _submits(world: Busy, repeats: int) -> list[Figure]:
    """Return the costs of submissions that are only accepted to wait, and of all others."""
    away, anew, others = list[float](), list[float](), list[float]()
    for number in range(repeats):
        world.now_ms += STEP_MS // 10
        if number % 4 == 3:
            world.do(Complete(world.ending()))
        is_anew = number % 8 == 6
        if is_anew:
            world.forget()
        decision, took = world.do(Submit(world.next_run(width=64 if number % 2 else 1)))
        if is_anew:
            anew.append(took)
        else:
            (others if _is_walked(decision) else away).append(took)
    found = [
        Figure(
            name="submit turned away p50, 10,000 nodes, 50,000 wait",
            unit="ms",
            value=median(away),
            better="less",
            target=0.3,
            baseline=Baseline(ANEW, median(anew)) if anew else None,
            details={"worst ms": max(away), "submits": len(away)},
        )
    ]
    world.now_ms += STEP_MS
    world.do(Complete(world.ending()))
    return [*found, *_other_submits(world, repeats // 4, others)]


def _other_submits(world: Busy, repeats: int, others: list[float]) -> list[Figure]:
    """Return the costs of submitting small runs just after GPUs have become free."""
    for _ in range(repeats):
        world.now_ms += STEP_MS // 10
        world.do(Complete(world.ending()))
        # A run of one GPU and one minute fits before every planned start, if a GPU is free.
        decision, took = world.do(Submit(world.next_run(width=1, minutes=1)))
        if _is_walked(decision):
            others.append(took)
    if not others:
        return []
    return [
        Figure(
            name="any other submit p50, 10,000 nodes, 50,000 wait",
            unit="ms",
            value=median(others),
            better="less",
            target=10,
            details={"worst ms": max(others), "submits": len(others)},
        )
    ]


def _is_walked(decision: Decision) -> bool:
    """Return whether a submission did more than accept a waiting run."""
    return len(decision.events) > 2 or any(
        isinstance(event, LeaseStarted | ReservationMade) for event in decision.events
    )


def _answers(world: Busy, repeats: int) -> list[Figure]:
    """Return the costs of the forecast of one run, of ``plan`` and of ``explain``."""
    name = max(world.state.pending, key=lambda run: world.state.pending[run])

    def forecast() -> object:
        seen = Foresight.of(world.state, world.now_ms, has_executor=False)
        return seen.start_of(world.state.runs[name])

    asked: tuple[tuple[str, Callable[[], object], float], ...] = (
        ("forecast of one run", forecast, 30),
        ("plan", lambda: foretell(world.state, world.state.runs[name].spec, world.now_ms), 250),
        ("explain", lambda: explain(world.state, name, world.now_ms), 250),
    )
    return [_answer(world, repeats, *each) for each in asked]


def _answer(
    world: Busy, repeats: int, what: str, ask: Callable[[], object], target_ms: float
) -> Figure:
    kept, anew = list[float](), list[float]()
    ask()
    for number in range(2 * repeats):
        if number % 2:
            world.forget()
        began = process_time()
        ask()
        (anew if number % 2 else kept).append((process_time() - began) * 1_000)
        ask()  # This call restores the dropped caches.
    return Figure(
        name=f"{what}, 10,000 nodes, 50,000 wait",
        unit="ms",
        value=median(kept),
        better="less",
        target=target_ms,
        baseline=Baseline(ANEW, median(anew)),
    )


def _deep(effort: Effort) -> list[Figure]:
    """Return the costs of completions with 100 planned runs, and of trying to start these runs."""
    world = _large(effort, effort.of(WAITING, 500), depth=effort.of(100, 20))
    found = _ends(world, effort.of(228, 5))
    walk = _answer(
        world,
        effort.of(5, 1),
        "walk of 100 entries",
        lambda: Foresight.of(world.state, world.now_ms, has_executor=False),
        30,
    )
    worst = Figure(
        name=f"completion worst of {len(found.kept)}, depth 100",
        unit="ms",
        value=max(found.kept),
        better="less",
        target=50,
    )
    return [_completion("depth 100", found, 10), worst, walk]
