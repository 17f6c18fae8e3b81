"""Makes the outcome of a ledger, live, exported or simulated, for reports.

GPUs count as busy while a lease other than a spare is open on a node that has not failed. The
ledger does not record checkpoints, so lost work is estimated as for conflicts: as the work since
the last start, but at most one hour or the pool's minimum runtime, whichever is longer. The work of
a run that does not count steps is estimated as the time it worked, less the lost work.

A run is preempted when its last open lease ends before the run ends, even at the end of a round.
The run is not preempted if other payers or spares take over, or if a round gives it the same GPUs
again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import groupby
from typing import Final

from quorate.core.accounting.wait_causes import WaitBook
from quorate.core.preemption.conflicts import CHECKPOINT_MS
from quorate.core.rounds.round_rates import declared_rate
from quorate.model import events as e
from quorate.model.amounts import HOUR_MS, PPM, SECOND_MS
from quorate.model.specs import DEFAULT_POOL, Node, Pool, Run
from quorate.sim.outcome import CapacityStep, Outcome, RunInterval, SimulatedRun

_NO_PRICES: Mapping[str, float] = {}
_ESTIMATED: Final = ("finish_time_fairness", "lost_gpu_hours")
"""The figures that are estimates, because they depend on checkpoints."""
_TAKES_OVER: Final = frozenset((e.StartReason.HANDOVER, e.StartReason.SWAP))
"""A run continues without a stop if its new lease started for one of these reasons."""


def outcome_of_ledger(
    events: Iterable[e.Event],
    *,
    name: str,
    now_ms: int | None = None,
    prices: Mapping[str, float] = _NO_PRICES,
    seed: int = 0,
) -> Outcome:
    """Return the outcome of ``events``, which are a whole ledger, up to ``now_ms``.

    If ``now_ms`` is None, it is the time of the last event. ``prices`` has the price of a GPU
    for an hour, by flavor; a flavor without a price costs nothing.
    """
    book, waits = _Book(), WaitBook()
    for event in events:
        book.enter(event)
        waits.enter((event,))
    until_ms = book.now_ms if now_ms is None else max(book.now_ms, now_ms)
    book.close_all(until_ms)
    return Outcome(
        name=name,
        seed=seed,
        started_ms=book.began_ms if book.began_ms is not None else until_ms,
        ended_ms=until_ms,
        capacity=tuple(book.capacity),
        runs=tuple(_run(story, waits, until_ms, prices) for story in book.stories.values()),
        draws=book.draws,
        shares_targets=dict(book.targets),
        estimated=_ESTIMATED,
    )


@dataclass(slots=True)
class _Part:
    """The GPUs of a lease on one node; ``end_ms`` is when the node failed, if it did."""

    node: Node
    gpus: int
    end_ms: int | None = None


@dataclass(slots=True)
class _Hold:
    """An open lease, with the stories of its run and of the partner that shares the lease.

    Only the intervals of the run have the GPUs; the intervals of the partner have 0 GPUs.
    """

    start_ms: int
    slots: e.Slots
    parts: list[_Part]
    stories: tuple[_Story, ...]
    works: bool


@dataclass(slots=True)
class _Story:
    """The recorded history of one run, in attempts: each ends when the run goes back to the queue.

    ``since_ms`` is the start of the run's current work. ``attempt_ms`` is the time that the run
    worked earlier in this attempt. ``kept_ms`` is the time that it worked in earlier attempts, less
    the estimated loss. ``freed`` is the last end of a lease in this attempt, as two instants: when
    the end was recorded, and up to when the lease was charged. ``freed_masks`` has the GPUs that
    became free then, by node.
    """

    spec: Run
    submitted_ms: int
    loss_max_ms: int
    rates_ppm: tuple[int, ...] = ()
    """The declared rates of the run, in millionths of a step per second."""
    intervals: list[RunInterval] = field(default_factory=list)
    started_ms: int | None = None
    since_ms: int = 0
    attempt_ms: int = 0
    kept_ms: int = 0
    open: set[str] = field(default_factory=set)
    freed: tuple[int, int] | None = None
    freed_masks: dict[str, int] = field(default_factory=dict)
    outcome: e.Outcome | None = None
    steps: int = 0
    preemptions: int = 0
    lost_gpu_ms: int = 0

    @property
    def worked_ms(self) -> int:
        """The time the run worked, less the estimated loss."""
        return self.kept_ms + self.attempt_ms

    def lost(self, event: e.LeaseEnded, slots: e.Slots) -> None:
        """Count a preemption if the run has no lease left; ``slots`` are of the ended lease."""
        if self.freed != (event.at_ms, event.end_ms):
            self.freed, self.freed_masks = (event.at_ms, event.end_ms), {}
        for node, mask in slots:
            self.freed_masks[node] = self.freed_masks.get(node, 0) | mask
        self.preemptions += not self.open

    def got(self, event: e.LeaseStarted) -> None:
        """Enter a new lease; if the run only continues with it, take the last preemption back."""
        if self.started_ms is None:
            self.started_ms = event.start_ms
        if not self.open:
            self.since_ms = event.start_ms
            self.preemptions -= self._continues(event)
        self.open.add(event.lease)

    def _continues(self, event: e.LeaseStarted) -> bool:
        if self.freed is None:
            return False
        keeps = all(not mask & ~self.freed_masks.get(node, 0) for node, mask in event.slots)
        return event.reason in _TAKES_OVER or (keeps and event.start_ms == self.freed[1])

    def ended(self, event: e.RunEnded) -> None:
        """End the run; if its last lease ended at the same time, this end was no preemption."""
        self.outcome = event.outcome
        if not self.open and self.freed is not None:
            self.preemptions -= self.freed[0] == event.at_ms


class _Book:
    """The stories of all runs, and the number of GPUs, folded event by event."""

    def __init__(self) -> None:
        self.now_ms = 0
        self.began_ms: int | None = None
        self.stories: dict[str, _Story] = {}
        self.capacity: list[CapacityStep] = []
        self.targets: dict[str, float] = {}
        self.draws = 0
        self._nodes: dict[str, Node] = {}
        self._failed: set[str] = set()
        self._gpus: dict[str, int] = {}
        self._holds: dict[str, _Hold] = {}
        self._on: dict[str, set[str]] = {}
        self._pools = {DEFAULT_POOL: Pool(name=DEFAULT_POOL)}

    def enter(self, event: e.Event) -> None:  # noqa: C901, PLR0912 - one line per kind of event
        self.now_ms = max(self.now_ms, event.at_ms)
        match event:
            case e.NodeApplied():
                self._declared(event.node, event.at_ms)
            case e.NodeMarked():
                self._marked(event)
            case e.PoolApplied():
                self._pools[event.pool.name] = event.pool
            case e.OwnerApplied():
                self._owner(event)
            case e.RunSubmitted():
                self._submitted(event)
            case e.LeaseStarted():
                self._began(event)
            case e.LeaseEnded():
                self._ended(event)
            case e.RunRequeued():
                self._requeued(event)
            case e.RunEnded():
                self.stories[event.run].ended(event)
            case e.StepsCounted():
                for count in event.counts:
                    self.stories[count.run].steps += count.steps
            case e.ConflictResolved():
                self.draws += bool(event.seed)
            case _:
                pass

    def _submitted(self, event: e.RunSubmitted) -> None:
        run = event.run
        self.began_ms = event.at_ms if self.began_ms is None else self.began_ms
        pool = self._pools[run.pool]
        loss_max_ms = max(pool.least_runtime_ms, CHECKPOINT_MS)
        rates_ppm = _declared_rates(run, pool)
        self.stories[run.name] = _Story(run, event.at_ms, loss_max_ms, rates_ppm)

    def _owner(self, event: e.OwnerApplied) -> None:
        target_ppm = event.owner.quota.fair_share_target_ppm
        if target_ppm is not None:
            self.targets[event.owner.name] = target_ppm / PPM
        else:
            self.targets.pop(event.owner.name, None)

    def _declared(self, node: Node, at_ms: int) -> None:
        before = self._nodes.get(node.name)
        if before is not None and node.name not in self._failed:
            self._change(before.flavor, -before.gpus, at_ms)
        self._nodes[node.name] = node
        if node.name not in self._failed:
            self._change(node.flavor, node.gpus, at_ms)

    def _marked(self, event: e.NodeMarked) -> None:
        node, is_failed = self._nodes[event.node], event.status is e.NodeStatus.FAILED
        if is_failed and event.node not in self._failed:
            self._failed.add(event.node)
            self._change(node.flavor, -node.gpus, event.at_ms)
            for lease in self._on.get(event.node, ()):
                for part in self._holds[lease].parts:
                    if part.node.name == event.node and part.end_ms is None:
                        part.end_ms = event.at_ms
        elif not is_failed and event.node in self._failed:
            self._failed.remove(event.node)
            self._change(node.flavor, node.gpus, event.at_ms)

    def _change(self, flavor: str, gpus: int, at_ms: int) -> None:
        self._gpus[flavor] = self._gpus.get(flavor, 0) + gpus
        step = CapacityStep(at_ms=at_ms, flavor=flavor, gpus=self._gpus[flavor])
        if self.capacity and (self.capacity[-1].at_ms, self.capacity[-1].flavor) == (at_ms, flavor):
            self.capacity[-1] = step
        else:
            self.capacity.append(step)

    def _began(self, event: e.LeaseStarted) -> None:
        names = (event.run,) if event.partner is None else (event.run, event.partner)
        stories = tuple(self.stories[name] for name in names)
        parts = [_Part(self._nodes[node], mask.bit_count()) for node, mask in event.slots]
        works = event.role is not e.Role.SPARE
        self._holds[event.lease] = _Hold(event.start_ms, event.slots, parts, stories, works)
        for node, _ in event.slots:
            self._on.setdefault(node, set()).add(event.lease)
        for story in stories if works else ():
            story.got(event)

    def _ended(self, event: e.LeaseEnded) -> None:
        hold = self._holds[event.lease]
        self.close(event.lease, event.end_ms)
        for story in hold.stories if hold.works else ():
            story.lost(event, hold.slots)

    def close(self, lease: str, end_ms: int) -> None:
        """Add the time of a lease to the intervals of its runs."""
        hold = self._holds.pop(lease)
        for part in hold.parts:
            self._on[part.node.name].discard(lease)
        if not hold.works:
            return
        for number, story in enumerate(hold.stories):
            story.intervals += _intervals(hold, end_ms, owns=number == 0)
            story.open.discard(lease)
            if not story.open:
                story.attempt_ms += end_ms - story.since_ms

    def _requeued(self, event: e.RunRequeued) -> None:
        story = self.stories[event.run]
        lost_ms = min(story.attempt_ms, story.loss_max_ms)
        story.lost_gpu_ms += story.spec.gpus * lost_ms
        story.kept_ms += story.attempt_ms - lost_ms
        story.attempt_ms = 0
        story.freed = None

    def close_all(self, now_ms: int) -> None:
        """Count the leases that are still open, each up to ``now_ms``."""
        for lease in list(self._holds):
            self.close(lease, now_ms)


def _declared_rates(run: Run, pool: Pool) -> tuple[int, ...]:
    """Return the known rates of a run that declares its rates or its type of job."""
    if run.rounds is None:
        return ()
    rates = (declared_rate(run, pool, flavor) for flavor in run.flavors)
    return tuple(rate for rate in rates if rate)


def _intervals(hold: _Hold, end_ms: int, *, owns: bool) -> list[RunInterval]:
    """Return a lease's intervals by domain, with 0 GPUs for a run that does not own the GPUs."""

    def key(part: _Part) -> tuple[str, str, int]:
        part_end_ms = end_ms if part.end_ms is None else min(end_ms, part.end_ms)
        return part.node.domain_key, part.node.flavor, part_end_ms

    return [
        RunInterval(
            start_ms=hold.start_ms,
            end_ms=part_end_ms,
            flavor=flavor,
            gpus=sum(part.gpus for part in parts) if owns else 0,
            domain=domain,
        )
        for (domain, flavor, part_end_ms), parts in groupby(sorted(hold.parts, key=key), key)
        if part_end_ms > hold.start_ms
    ]


def _run(story: _Story, waits: WaitBook, now_ms: int, prices: Mapping[str, float]) -> SimulatedRun:
    spec, ended_ms = story.spec, waits.ended_ms(story.spec.name)
    ideal_ms, asked, done = _work(story)
    intervals = tuple(sorted(story.intervals, key=lambda each: (each.start_ms, each.domain)))
    slo_ms = None if spec.rounds is None else spec.rounds.slo_ms
    return SimulatedRun(
        name=spec.name,
        owner=spec.owner,
        gpus=spec.gpus,
        submitted_ms=story.submitted_ms,
        started_ms=story.started_ms,
        ended_ms=ended_ms,
        intervals=intervals,
        ideal_ms=ideal_ms,
        deadline_ms=None if slo_ms is None else story.submitted_ms + slo_ms,
        waits_ms=waits.wait_of(spec.name, now_ms).parts_ms,
        lost_gpu_ms=story.lost_gpu_ms,
        preemptions=story.preemptions,
        steps_asked=asked,
        steps_done=done,
        cost=sum(
            each.gpus * (each.end_ms - each.start_ms) / HOUR_MS * prices.get(each.flavor, 0.0)
            for each in intervals
        ),
    )


def _work(story: _Story) -> tuple[int, float, float]:
    """Return the run's duration when it works alone, its requested work, and the work it has done.

    For a run that does not count steps, the done work is the time it worked, less the estimated
    loss; a completed run has done all of its work.
    """
    spec, is_complete = story.spec, story.outcome is e.Outcome.COMPLETED
    work = spec.rounds
    if work is not None and work.total_steps is not None:
        alone_ms = story.worked_ms
        if story.rates_ppm:
            alone_ms = round(work.total_steps * SECOND_MS * PPM / max(story.rates_ppm))
        done = work.total_steps if is_complete else min(story.steps, work.total_steps - 1)
        return alone_ms, float(work.total_steps), float(done)
    if is_complete:
        return story.worked_ms, float(story.worked_ms), float(story.worked_ms)
    declared_ms = spec.expected_duration_ms or 0
    # A run that did not complete has work left, even if it worked longer than it declared.
    asked_ms = max(declared_ms, story.worked_ms + 1)
    return asked_ms, float(asked_ms), float(story.worked_ms)
