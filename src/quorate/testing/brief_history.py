"""Plays brief random histories of planned starts on a small fleet, with the core alone.

There is no engine and no store, so a thousand histories take only minutes. There is no executor
either: the history itself confirms that the work of stopping leases has ended, at once, at the
deadline or late. Runs take between a tenth and ten times their declared duration, and stop at once
or slowly. Some runs begin and end at the same instants as other runs. Some runs are cancelled while
they wait. Nodes are drained and lost, budgets are replaced, owners get other parents, and the clock
jumps back. ``PromiseBooks`` checks every decision.
"""

from __future__ import annotations

from random import Random
from typing import Final

from msgspec.structs import replace

from quorate.core.commands import (
    Apply,
    Cancel,
    Command,
    Complete,
    Confirm,
    Drain,
    MarkNode,
    Submit,
    Tick,
)
from quorate.core.decide import decide
from quorate.core.next_due import next_due_ms
from quorate.model.amounts import HOUR_MS, MINUTE_MS
from quorate.model.events import Event, LeaseEnded, LeaseEnding, NodeStatus, ReservationMade
from quorate.model.specs import DEFAULT_POOL, Owner, Pool
from quorate.model.state.apply_event import apply_all
from quorate.model.state.records import Phase
from quorate.model.state.state import State
from quorate.testing.builders import NOW_MS, budget, envelope, fleet, opening, run
from quorate.testing.promise_books import PromiseBooks

OWNERS: Final = ("ant", "bee", "cat")
STEP_MS: Final = 10 * MINUTE_MS
STEPS: Final = 36
"""The steps of a history; runs arrive in the first two thirds."""
TENTHS: Final = (1, 5, 9, 10, 10, 10, 10, 15, 20, 30, 100)
"""The real durations of runs, in tenths of the declared duration."""


class BriefHistory:
    """The random history of ``seed``; if ``is_honest``, every run takes its declared duration."""

    def __init__(self, seed: int, *, is_honest: bool = False) -> None:
        self.seed = seed
        self.books = PromiseBooks(b"", 0)
        self.events = 0
        self.firm = 0
        self._chance = Random(f"{seed}/brief")  # noqa: S311 - chance of a test, no secret
        self._is_honest = is_honest
        self._state = State()
        self._height = 0
        self._now_ms = NOW_MS
        self._gone_ms: dict[str, int] = {}
        self._ends_ms: dict[str, tuple[int, int]] = {}
        self._runs = 0
        self._open()

    def play(self) -> None:
        """Play the whole history; an assertion fails at the first firm start that is broken."""
        for step in range(1, STEPS + 1):
            at_ms = NOW_MS + step * STEP_MS
            self._tick_until(at_ms)
            self._end_runs(at_ms)
            if 3 * step <= 2 * STEPS:
                for _ in range(self._chance.choice((0, 1, 1, 2))):
                    self._submit(at_ms)
            if not self._is_honest and self._chance.randrange(6) == 0:
                self._disturb(at_ms)

    def _open(self) -> None:
        chance = self._chance
        domains = {name: chance.choice((8, 16, 24)) for name in ("A", "B")[: chance.choice((1, 2))]}
        pool = Pool(name=DEFAULT_POOL, firm_horizon_ms=chance.choice((1, 2, 6)) * HOUR_MS)
        lines = [envelope("e", chance.choice((8, 16, 48))) for _ in OWNERS]
        events = opening(
            nodes=fleet(domains, gpus=chance.choice((4, 8))),
            owners=[Owner(name="org"), *(Owner(name=name, parents=("org",)) for name in OWNERS)],
            budgets=[budget(name, name, line) for name, line in zip(OWNERS, lines, strict=True)],
            pools=[replace(pool, whole_nodes=chance.randrange(4) == 0)],
        )
        self._enter(events)

    def _tick_until(self, at_ms: int) -> None:
        """Tick at each instant before ``at_ms`` at which something is due.

        Also confirm each stop at the instant at which the work ends.
        """
        while True:
            due_ms = next_due_ms(self._state, has_executor=True, after_ms=self._now_ms)
            stops = [(gone_ms, lease) for lease, gone_ms in self._gone_ms.items()]
            gone_ms, lease = min(stops, default=(at_ms + 1, ""))
            if gone_ms <= at_ms and (due_ms is None or gone_ms <= due_ms):
                del self._gone_ms[lease]
                self._do(Confirm(lease), max(gone_ms, self._now_ms))
            elif due_ms is not None and due_ms < at_ms:
                self._do(Tick(), due_ms)
            else:
                return

    def _end_runs(self, at_ms: int) -> None:
        """End the runs that have worked long enough, and tick."""
        for name, record in list(self._state.runs.items()):
            if record.phase is not Phase.RUNNING or record.since_ms is None:
                continue
            since_ms, work_ms = self._ends_ms[name]
            if since_ms != record.since_ms:
                # The run has started, for the first time or again.
                said_ms = record.spec.expected_duration_ms or HOUR_MS
                tenths = 10 if self._is_honest else self._chance.choice(TENTHS)
                since_ms, work_ms = record.since_ms, max(STEP_MS, said_ms * tenths // 10)
                self._ends_ms[name] = (since_ms, work_ms)
            if since_ms + work_ms <= at_ms:
                self._do(Complete(name, has_gone=True), at_ms)
        self._do(Tick(), at_ms)

    def _submit(self, at_ms: int) -> None:
        chance = self._chance
        name = f"run{self._runs:02d}"
        self._runs += 1
        self._ends_ms[name] = (0, 0)
        spec = run(
            name,
            chance.choice((1, 2, 4, 8, 8, 12, 16)),
            chance.choice(OWNERS),
            expected_duration_ms=chance.choice((1, 2, 3, 6, 12)) * STEP_MS,
            checkpoint_ms=chance.choice((0, 0, MINUTE_MS, STEP_MS)),
            nonce=name,
        )
        self._do(Submit(spec), at_ms)

    def _disturb(self, at_ms: int) -> None:
        """Make one random change: of nodes, budgets, owners, runs or the clock."""
        chance, state = self._chance, self._state
        nodes = sorted(state.nodes)
        command: Command
        match chance.randrange(6):
            case 0 | 1:
                waiting = sorted(state.pending)
                command = Cancel(chance.choice(waiting), "a decoy") if waiting else Tick()
            case 2:
                marked = sorted(state.node_status)
                node = chance.choice(nodes)
                command = chance.choice((MarkNode(node, NodeStatus.FAILED), Drain(node)))
                command = MarkNode(marked[0], NodeStatus.READY) if marked else command
            case 3:
                known = state.budgets[chance.choice(OWNERS)]
                line = replace(known.envelopes[0], concurrency=chance.choice((4, 8, 16, 48)))
                command = Apply((replace(known, envelopes=(line,)),))
            case 4:
                parents = chance.choice(((), ("org",)))
                command = Apply((Owner(name=chance.choice(OWNERS), parents=parents),))
            case _:
                command, at_ms = Tick(), at_ms - STEP_MS // 2
        self._do(command, at_ms)

    def _do(self, command: Command, at_ms: int) -> None:
        """Decide a command; a refused command changes nothing."""
        self.books.looked(at_ms)
        decision = decide(self._state, command, now_ms=at_ms, actor="test", has_executor=True)
        self._now_ms = max(self._now_ms, at_ms)
        if decision.events:
            self._enter(list(decision.events))

    def _confirmed_ms(self, event: LeaseEnding) -> int:
        """Return when the work of a stopping lease ends: in an honest history, at the deadline."""
        if self._is_honest:
            return event.deadline_ms
        late_ms = event.deadline_ms + STEP_MS // 2
        choices = (event.at_ms, event.deadline_ms, event.deadline_ms, event.deadline_ms, late_ms)
        return self._chance.choice(choices)

    def _enter(self, events: list[Event]) -> None:
        apply_all(self._state, events)
        self._height += 1
        for event in events:
            if isinstance(event, LeaseEnding):
                self._gone_ms[event.lease] = self._confirmed_ms(event)
            elif isinstance(event, LeaseEnded):
                self._gone_ms.pop(event.lease, None)
        self.events += len(events)
        self.firm += sum(isinstance(event, ReservationMade) for event in events)
        faults = list(self.books.enter(self._height, events, self._state))
        assert not faults, "; ".join(faults[:5])
