"""Makes a fork: a ledger up to an instant, then changes, then new decisions on recorded arrivals.

The engine, the driver and every rule are those of production. The fork copies no event after the
instant: it decides everything again. Without changes, the fork has the same events as the ledger.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import groupby
from typing import Final

from quorate.adapters.stores.store_memory import MemoryStore
from quorate.core.commands import Applied, Apply, Complete, Fail, Wiped
from quorate.documents.times import time_text
from quorate.ledger.chain import GENESIS, Head, open_blocks, seal
from quorate.loop.commit_types import Asked
from quorate.loop.driver import ACTOR as CLOCK_ACTOR
from quorate.loop.driver import EXECUTOR_ACTOR, Driver
from quorate.loop.due_work import ROUND_ACTOR
from quorate.loop.engine import Engine
from quorate.model import events as e
from quorate.model.amounts import SECOND_MS
from quorate.model.refusal import sentence
from quorate.ports.executor_port import WipeDone
from quorate.sim.simulation import STEPS_PER_INSTANT_MAX, VirtualClock
from quorate.sim.whatif.recorded_claims import ClaimedNodes, RecordedClaims, Wipe
from quorate.sim.whatif.recorded_executor import RecordedExecutor
from quorate.sim.whatif.recorded_inputs import CannotForkError, inputs_of
from quorate.sim.whatif.recorded_work import LATER, Effort, Efforts, lengths_of

LATE_MS: Final = 2 * SECOND_MS
"""The longest delay of a real driver. The fork reuses a recorded wake-up only if it came at most
this long after the instant at which the driver is due."""
_ACTOR: Final = "what-if"
_WOKEN: Final = (CLOCK_ACTOR, ROUND_ACTOR)
"""The actors of events that a driver causes when it wakes up; the second actor begins rounds."""

Action = Callable[[], bool]
"""An action at an instant; it returns False if it is no longer valid and did nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Forked:
    """The result of a fork: all of its events, and the commands that it refused.

    ``undrawn`` are conflicts that stayed open because the lottery's secret was not given.
    """

    events: tuple[e.Event, ...]
    end_ms: int
    refused: tuple[str, ...]
    undrawn: tuple[str, ...]


def fork(
    blocks: Sequence[Sequence[e.Event]],
    at_ms: int,
    changes: Sequence[Applied] = (),
    *,
    lottery_secret: bytes | None = None,
) -> Forked:
    """Return a fork of a ledger with ``changes``; ``blocks`` has the events of each block.

    The changes are applied at ``at_ms``; then the recorded arrivals follow, up to the ledger's end.
    Raises ``CannotForkError`` if the ledger begins after ``at_ms`` or ends before it, if it has
    events that cannot be played, or if the changes are refused.
    """
    return _Fork(blocks, at_ms, lottery_secret).play(changes)


class _Fork:
    def __init__(
        self, blocks: Sequence[Sequence[e.Event]], at_ms: int, secret: bytes | None
    ) -> None:
        before, after, first_seq = _parted(blocks, at_ms)
        every = [event for block in blocks for event in block]
        if not before:
            raise CannotForkError("the ledger had not begun at that instant; choose a later time")
        self._lengths, self._claims = lengths_of(every), RecordedClaims(every)
        if at_ms > self._lengths.end_ms:
            raise CannotForkError(
                f"the ledger ends at {time_text(self._lengths.end_ms)}, before that instant; "
                "choose an earlier time"
            )
        self._executor = RecordedExecutor(self._steps) if has_executor(blocks) else None
        # Work that became due by time shows that a driver was running. So does an executor, even if
        # no work ever became due by time alone.
        is_clocked = any(event.actor == CLOCK_ACTOR for event in every)
        self._has_driver = is_clocked or self._executor is not None
        self._store = MemoryStore()
        for events in before:
            self._store.append(seal(self._store.head(), events), expected=self._store.head())
        self._at_ms = at_ms
        self._clock = VirtualClock(at_ms)
        self._read: Head = GENESIS
        self._efforts, self._claimed = Efforts(self._lengths.rates), ClaimedNodes()
        self._heap: list[tuple[int, int, int, Action]] = []
        self._planned = 0
        self._refused: list[str] = []
        self._wakes = sorted({b[0].at_ms for b in after if b[0].actor in _WOKEN})
        self._engine = Engine.open(
            self._store, self._clock, executor=self._executor, lottery_secret=secret
        )
        numbered = _numbered(after, first_seq)
        owners = self._engine.view.owners
        inputs = inputs_of(numbered, self._claims, owners, has_driver=self._has_driver)
        self._begins = [seq for seq, _ in numbered]
        for _, group in groupby(inputs, lambda each: (self._block_of(each.seq), each.at_ms)):
            together = list(group)
            asked = [Asked(each.command, each.actor) for each in together]
            self._at(together[0].at_ms, together[0].seq, self._giving(*asked))
        for seq, events in numbered:
            if events[0].actor in _WOKEN and self._has_driver:
                # Wake-ups without due work are included, because a refused command may wake a
                # driver.
                self._at(events[0].at_ms, seq, _wake)
        self._plan_idle_ends()

    def play(self, changes: Sequence[Applied]) -> Forked:
        """Apply ``changes``, and run everything up to the ledger's end."""
        self._read_on()
        if changes:
            receipt = self._engine.execute(Apply(tuple(changes)), actor=_ACTOR)
            if receipt.decision.refusals:
                told = "; ".join(sentence(each) for each in receipt.decision.refusals)
                raise CannotForkError(f"the change is refused: {told}")
            self._read_on()
        due_ms = self._step() if changes and self._has_driver else self._due()
        steps, instant_ms = 0, self._at_ms
        while True:
            wake_ms = None if due_ms is None else self._late(due_ms)
            heap_ms = self._heap[0][0] if self._heap else None
            next_ms = min((ms for ms in (wake_ms, heap_ms) if ms is not None), default=None)
            if next_ms is None or next_ms > self._lengths.end_ms:
                break
            steps = 0 if next_ms > instant_ms else steps + 1
            instant_ms = max(next_ms, instant_ms)
            assert steps < STEPS_PER_INSTANT_MAX, f"the simulation is stuck at {next_ms}"
            self._clock.true_ms = max(self._clock.true_ms, next_ms)
            if heap_ms == next_ms and not self._act():
                continue
            due_ms = self._step() if self._has_driver else None
            self._read_on()
        return self._result()

    def _result(self) -> Forked:
        events = [event for _, block in open_blocks(self._store.blocks()) for event in block]
        view, end_ms = self._engine.view, self._lengths.end_ms
        due = [
            name for name in view.open_conflicts if view.conflicts[name].declared.due_ms < end_ms
        ]
        return Forked(
            events=tuple(events),
            end_ms=end_ms,
            refused=tuple(self._refused),
            undrawn=tuple(due),
        )

    # --- Time ---

    def _at(self, at_ms: int, seq: int, action: Action) -> None:
        self._planned += 1
        heappush(self._heap, (max(at_ms, self._at_ms), seq, self._planned, action))

    def _act(self) -> bool:
        """Take the next action and the other actions of its block; return whether any was valid.

        The actions are taken together, before any due work, because a driver records all reports of
        its executor in one block.
        """
        at_ms, seq, _, action = heappop(self._heap)
        is_valid = action()
        block = self._block_of(seq)
        while seq != LATER and self._heap:
            next_ms, seq, _, action = self._heap[0]
            if next_ms != at_ms or self._block_of(seq) != block:
                break
            heappop(self._heap)
            is_valid = action() or is_valid
        return is_valid

    def _block_of(self, seq: int) -> int:
        """Return the number of the recorded block that has the event ``seq``."""
        return bisect_right(self._begins, seq)

    def _due(self) -> int | None:
        """Return when the driver first steps: at once, or never (None) without a driver."""
        return self._at_ms if self._has_driver else None

    def _step(self) -> int | None:
        due_ms = Driver(self._engine).step()
        self._read_on()
        return due_ms

    def _late(self, due_ms: int) -> int:
        """Return when a driver that is due at ``due_ms`` wakes up: as late as in the history."""
        due_ms = max(due_ms, self._clock.true_ms)
        place = bisect_left(self._wakes, due_ms)
        if place < len(self._wakes) and self._wakes[place] <= due_ms + LATE_MS:
            return self._wakes[place]
        return due_ms

    # --- What happens ---

    def _giving(self, *asked: Asked) -> Action:
        """Return the action that sends the commands of one block; due work comes after them."""

        def give() -> bool:
            done = 0
            while done < len(asked):
                receipts = self._engine.execute_group(asked[done:])
                done += len(receipts)
                for receipt in receipts:
                    self._refused += [sentence(each) for each in receipt.decision.refusals]
            return True

        return give

    def _read_on(self) -> None:
        """Read the new blocks, and plan the ends of the work that they start."""
        for head, events in open_blocks(
            self._store.blocks(from_height=self._read.height + 1), after=self._read
        ):
            self._read = head
            for seq, event in enumerate(events, start=head.seq - len(events) + 1):
                self._efforts.enter(seq, event)
                if self._executor is not None:
                    self._executor.forget(event)
                if isinstance(event, e.LeaseEnding):
                    self._plan_gone(event)
                left = self._claimed.enter(event)
                if left is not None:
                    self._plan_wipes(*left, event.at_ms)
        for run in self._efforts.take():
            self._plan_exit(self._efforts.runs[run])

    def _plan_gone(self, event: e.LeaseEnding) -> None:
        took_ms, seq = self._lengths.stops.get(event.lease, (self._lengths.usual_stop_ms, LATER))
        gone_ms = min(event.at_ms + took_ms, max(event.deadline_ms, event.at_ms))
        gone_ms = event.at_ms + took_ms if seq != LATER else gone_ms
        executor = self._executor
        if executor is None:
            return

        def go() -> bool:
            is_open = event.lease in self._engine.view.leases
            if is_open:
                executor.go(event.lease)
            return is_open

        self._at(gone_ms, seq, go)

    def _plan_wipes(self, claim: str, node: str, left_ms: int) -> None:
        """Plan the recorded wipes of a node that a claim has left."""
        for wipe in self._claims.after(claim, node):
            at_ms = left_ms + wipe.after_ms
            if at_ms > self._at_ms:
                self._at(at_ms, wipe.seq, self._wiping(claim, node, wipe))

    def _wiping(self, claim: str, node: str, wipe: Wipe) -> Action:
        executor = self._executor

        def end() -> bool:
            known = self._engine.view.unwiped.get(node)
            if known is None or known.claim != claim:
                return False
            if executor is not None and wipe.actor == EXECUTOR_ACTOR:
                executor.wipe(WipeDone(node, claim, wipe.is_clean, wipe.note))
                return True
            return self._giving(Asked(Wiped(node, wipe.is_clean, claim, wipe.note), wipe.actor))()

        return end

    def _plan_idle_ends(self) -> None:
        """Plan the ends of runs in rounds that people ended while the runs had no GPUs."""
        for name, known in self._lengths.efforts.items():
            at_ms, seq = known.over
            if known.spec.rounds is None or not known.was_idle or at_ms <= self._at_ms:
                continue
            if known.outcome in (e.Outcome.COMPLETED, e.Outcome.FAILED):
                is_done = known.outcome is e.Outcome.COMPLETED
                command = Complete(name, known.note) if is_done else Fail(name, known.note)
                self._at(at_ms, seq, self._giving(Asked(command, known.actor)))

    def _steps(self, runs: Collection[str]) -> Mapping[str, int]:
        """Return how many steps each of ``runs`` reports now."""
        self._read_on()
        now_ms = self._clock.true_ms
        told = {run: self._lengths.steps(self._efforts.runs[run], now_ms) for run in runs}
        return {run: steps for run, steps in told.items() if steps is not None}

    def _plan_exit(self, effort: Effort) -> None:
        """Plan the end of a run's work for the case that the run's leases do not change."""
        name = effort.spec.name
        known = self._lengths.efforts.get(name)
        if known is None or effort.outcome is not None:
            return
        if known.outcome is None or known.outcome is e.Outcome.CANCELLED:
            code = e.Outcome.COMPLETED
        else:
            code = known.outcome
        ends_ms = effort.ends_ms(self._lengths.total_work(effort.spec))
        if ends_ms is None:
            return
        at_ms, seq = known.over
        place = seq if ends_ms == at_ms else LATER
        leases = tuple(effort.open)

        def end() -> bool:
            # The end is planned again whenever the leases of the run change.
            is_current = tuple(effort.open) == leases and effort.outcome is None
            if is_current:
                self._exit(name, leases[0], known, code)
            return is_current

        self._at(ends_ms, place, end)

    def _exit(self, run: str, lease: str, known: Effort, outcome: e.Outcome) -> None:
        is_done = outcome is e.Outcome.COMPLETED
        if self._executor is not None and not known.by_hand:
            self._executor.exit(run, lease, 0 if is_done else 1, known.note)
            return
        command = Complete(run, known.note) if is_done else Fail(run, known.note)
        self._giving(Asked(command, known.actor or _ACTOR))()


def has_executor(blocks: Sequence[Sequence[e.Event]]) -> bool:
    """Return whether the ledger had an executor: a report, or a stop that took several blocks."""
    for block in blocks:
        ended = {each.lease for each in block if isinstance(each, e.LeaseEnded)}
        for event in block:
            if event.actor == EXECUTOR_ACTOR:
                return True
            if isinstance(event, e.LeaseEnding) and event.lease not in ended:
                return True
    return False


def _wake() -> bool:
    """Return True, which lets the driver step; do nothing else."""
    return True


def _parted(
    blocks: Sequence[Sequence[e.Event]], at_ms: int
) -> tuple[list[Sequence[e.Event]], list[Sequence[e.Event]], int]:
    """Return the blocks up to ``at_ms``, the later blocks, and the first later event's number."""
    before: list[Sequence[e.Event]] = []
    after: list[Sequence[e.Event]] = []
    seq = 0
    for block in blocks:
        early = [event for event in block if event.at_ms <= at_ms]
        late = [event for event in block if event.at_ms > at_ms]
        if early:
            before.append(early)
            seq += len(early)
        if late:
            after.append(late)
    return before, after, seq + 1


def _numbered(
    blocks: Sequence[Sequence[e.Event]], first_seq: int
) -> list[tuple[int, Sequence[e.Event]]]:
    found: list[tuple[int, Sequence[e.Event]]] = []
    for block in blocks:
        found.append((first_seq, block))
        first_seq += len(block)
    return found
