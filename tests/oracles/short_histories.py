"""Short histories of the core, drawn from a seed and a theme, with all checks at each command.

The whole-system simulation has long histories of large worlds. A history here has a few nodes, at
most six waiting runs and fourteen steps of ten minutes. So almost every decision meets a limit, and
many things happen at one instant. Stops of leases are confirmed early, in time or late. Runs end
before or after their declared end. Rounds and conflicts are settled when they are due.
``quorate.testing.brief_history`` is faster, but its histories have only one pool, and test only
planned starts.
"""

from __future__ import annotations

import traceback
from collections import Counter
from dataclasses import dataclass
from random import Random
from typing import Final

from quorate.core.commands import (
    Command,
    Complete,
    Confirm,
    Decision,
    Draw,
    Fail,
    ShareOut,
    Tick,
)
from quorate.core.lifecycle.follow import waits_for_upstream
from quorate.model.amounts import HOUR_MS, MINUTE_MS
from quorate.model.events import Event, LeaseEnded, LeaseEnding, RoundGrant
from quorate.model.specs import Discipline
from quorate.model.state.records import Phase
from quorate.testing.builders import NOW_MS
from quorate.testing.shrinking import Deed, shrink
from tests.oracles.brief_values import brief
from tests.oracles.checked_lives import replayed
from tests.oracles.short_demand import ShortDemand
from tests.oracles.short_disturbances import Disturbances
from tests.oracles.short_worlds import SIDE, STEP_MS, Theme, draw_world

WAITING_MAX: Final = 6
"""No run is submitted while so many wait."""
_DUE_MAX: Final = 400
"""If one step needs more decisions than this, the history fails: the core never comes to rest."""
_PLAYED_MAX: Final = 2_000
"""How many commands the search for a shorter failing history may play."""


@dataclass(frozen=True, slots=True)
class Played:
    """The result of a history: its failure, empty if it passed, and its events by kind."""

    failure: str
    happened: Counter[str]


def play(theme: Theme, seed: int) -> Played:
    """Return the result of the history of ``theme`` and ``seed``.

    The text of a failure has the command line that repeats the history, the world, and the commands
    that are needed to fail.
    """
    history = ShortHistory(theme, seed)
    try:
        history.play()
    except Exception:  # noqa: BLE001 - whatever a history dies of, it must be named with its seed
        return Played(history.story(traceback.format_exc()), history.life.happened)
    return Played("", history.life.happened)


class ShortHistory:
    """The history of ``theme`` and ``seed``; ``play`` asserts at the first fault."""

    def __init__(self, theme: Theme, seed: int) -> None:
        self._chance = chance = Random(f"{seed}/{theme}")
        self._name = f"{theme}:{seed}"
        self._world = draw_world(chance, theme)
        self._demand = ShortDemand(chance, theme)
        self._disturbances = Disturbances(chance, theme, self._world, self._demand)
        self.life = self._world.life()
        self._goes_ms: dict[str, int] = {}
        """When the executor confirms the stop of each lease."""
        self._works: dict[str, tuple[int, int]] = {}
        """When each run started, and when its work ends."""

    def play(self) -> None:
        """Play all steps, and check the whole history at the end."""
        chance = self._chance
        for step in range(1, chance.choice((5, 9, 14)) + 1):
            at_ms = NOW_MS + step * STEP_MS
            self._wait_until(at_ms)
            self._end_work(at_ms)
            for _ in range(chance.choice((0, 1, 1, 2, 3)) + (step == 1)):
                if len(self.life.state.pending) < WAITING_MAX:
                    self._do(self._demand.submission(self.life.state), at_ms)
            if chance.random() < 0.45:
                for deed in self._disturbances.next(self.life.state, at_ms):
                    assert deed.command is not None
                    self._do(deed.command, deed.at_ms)
            if chance.random() < 0.5:
                self._do(Tick(), at_ms)
        self.life.end()

    def story(self, error: str) -> str:
        """Return a text with the world, the commands that the failure needs, and ``error``."""
        deeds = self.life.deeds
        how = replayed(self._world.life(), deeds)
        if how:
            kind = how[:60]
            deeds = shrink(
                deeds,
                lambda fewer: replayed(self._world.life(), fewer)[:60] == kind,
                work_max=_PLAYED_MAX,
            )
        told = [f"{_minutes(deed):>7} min  {brief(deed.command)}" for deed in deeds]
        again = (
            f"run it again: QUORATE_SHORT={self._name} "
            "python -m pytest -s tests/dst/test_short_histories.py"
        )
        return "\n".join((f"--- {self._name}", *self._world.lines(), *told, error.rstrip(), again))

    def _do(self, command: Command, at_ms: int) -> Decision:
        decision = self.life.play(command, at_ms)
        for event in decision.events:
            self._see(event)
        return decision

    def _see(self, event: Event) -> None:
        """Note when the executor will confirm a stop: at once, at its deadline, or late."""
        if isinstance(event, LeaseEnding):
            late_ms = event.deadline_ms + STEP_MS // 2
            times = (event.at_ms, event.deadline_ms, event.deadline_ms, late_ms)
            self._goes_ms[event.lease] = self._chance.choice(times)
        elif isinstance(event, LeaseEnded):
            self._goes_ms.pop(event.lease, None)

    def _wait_until(self, at_ms: int) -> None:
        """Do everything that is due before ``at_ms``, the earliest first."""
        for _ in range(_DUE_MAX):
            due = self._next(at_ms)
            if due is None:
                return
            assert due.command is not None
            decision = self._do(due.command, due.at_ms)
            if isinstance(due.command, Draw):
                assert not decision.refusals, decision.refusals
        message = ("does not come to rest", self.life.due_ms())
        raise AssertionError(message)

    def _next(self, at_ms: int) -> Deed | None:
        """Return what happens first: a stop is confirmed, a conflict drawn, or a decision due."""
        state, now_ms, due_ms = self.life.state, self.life.now_ms, self.life.due_ms()
        found = [
            (max(gone_ms, now_ms), 0, lease)
            for lease, gone_ms in self._goes_ms.items()
            if gone_ms <= at_ms
        ]
        for conflict in state.open_conflicts:
            draw_ms = state.conflicts[conflict].declared.due_ms
            # No later decision may come before the draw.
            if draw_ms <= min(at_ms, max(due_ms or at_ms, now_ms)):
                found.append((max(draw_ms, now_ms), 1, conflict))
        if due_ms is not None and due_ms < at_ms:
            found.append((due_ms, 2, ""))
        if not found:
            return None
        when_ms, kind, name = min(found)
        if kind == 0:
            del self._goes_ms[name]
            return Deed(when_ms, Confirm(name))
        return Deed(when_ms, Draw(name) if kind == 1 else self._round(when_ms) or Tick())

    def _round(self, at_ms: int) -> ShareOut | None:
        """Return the next round, if it is due; its grants fit in the pool if no node is lost.

        As in the service, a run that waits for an upstream gets no grant. A stopping run may get a
        grant, because a policy decides on the state of a moment ago.
        """
        state = self.life.state
        pool = state.pools.get(SIDE)
        runs = sorted(name for name, member in state.in_rounds.items() if member.pool == SIDE)
        if pool is None or pool.discipline is not Discipline.ROUNDS or not runs:
            return None
        last = state.rounds.get(SIDE)
        if last is not None and last.shared.until_ms > at_ms:
            return None
        self._chance.shuffle(runs)
        free = sum(
            record.spec.gpus for record in state.nodes.values() if record.island.pool == SIDE
        )
        grants = []
        for name in runs:
            spec = state.runs[name].spec
            if waits_for_upstream(state, spec) is not None:
                continue
            gpus = spec.gpus
            if gpus <= free and self._chance.random() < 0.8:
                free -= gpus
                grants.append(RoundGrant(name, "H100"))
        number = 1 if last is None else last.shared.number + 1
        return ShareOut(pool=SIDE, number=number, policy="p", grants=tuple(grants))

    def _end_work(self, at_ms: int) -> None:
        """Report the runs whose work is over by ``at_ms``: too soon, in time or overdue."""
        chance = self._chance
        for name in list(self.life.state.runs):
            record = self.life.state.runs[name]
            since_ms = record.since_ms
            if record.phase is not Phase.RUNNING or since_ms is None or record.spec.sensitive:
                continue
            if self._works.get(name, (None, 0))[0] != since_ms:
                declared_ms = record.spec.expected_duration_ms or HOUR_MS
                tenths = chance.choice((1, 5, 9, 10, 10, 10, 10, 15, 20, 50))
                end_ms = since_ms + max(MINUTE_MS, declared_ms * tenths // 10)
                self._works[name] = (since_ms, end_ms)
            if self._works[name][1] <= at_ms:
                done = Complete(name, has_gone=chance.random() < 0.8)
                failed = Fail(name, has_gone=True)
                self._do(done if chance.random() < 0.85 else failed, at_ms)


def _minutes(deed: Deed) -> str:
    return f"{(deed.at_ms - NOW_MS) / MINUTE_MS:g}"
