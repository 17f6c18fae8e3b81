"""Random histories of arrays and followers, compared with their documents."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.core.commands import (
    Apply,
    Cancel,
    CancelTasks,
    Command,
    Complete,
    Decision,
    Fail,
    Tick,
)
from quorate.model.amounts import HOUR_MS, MINUTE_MS
from quorate.model.events import RunRefused
from quorate.model.refusal import RefusalCode
from quorate.model.specs import Follow, Pool, Run, TaskArray, UpstreamFailure
from quorate.model.state.records import TERMINAL, Phase, RunRecord
from quorate.model.task_arrays import task_name, task_runs
from quorate.testing.builders import budget, envelope, fleet, run
from tests.oracles.effort import examples
from tests.oracles.lives import Life

STEPS = 24
OF_UPSTREAM = {RefusalCode.WAITING_FOR_UPSTREAM, RefusalCode.UPSTREAM_FAILED}


class History:
    """A ledger with arrays and runs that end in every way and follow earlier ones."""

    def __init__(self, seed: int) -> None:
        self.chance = Random(seed)
        self.life = Life(
            pools=[Pool(name="default", reservation_depth=self.chance.choice((1, 2, 20)))],
            nodes=fleet({"A": 8, "B": 4}),
            budgets=[
                budget("b", "team", envelope("e", 12)),
                budget("o", "other", envelope("e", 6)),
            ],
            has_executor=False,
            audits=False,
        )
        self.names: list[str] = []
        self.sizes: dict[str, int] = {}

    def step(self) -> Decision:
        """Carry out one command."""
        self.life.now_ms += self.chance.choice((0, 0, 1, MINUTE_MS, 20 * MINUTE_MS, HOUR_MS))
        return self.life.try_(self._command())

    def _command(self) -> Command:
        records = self.life.state.runs
        running = [name for name in records if records[name].phase is Phase.RUNNING]
        open_ = [name for name in records if records[name].phase not in TERMINAL]
        arrays = [name for name in self.sizes if name in self.life.state.arrays]
        kind = self.chance.randrange(8)
        if kind < 3 or not open_:
            return Apply(
                tuple(each for _ in range(self.chance.choice((1, 1, 3))) for each in self._new())
            )
        if kind < 5 and running:
            how = self.chance.choice((Complete, Complete, Complete, Fail))
            return how(self.chance.choice(running))
        if kind == 5 and arrays:
            array = self.chance.choice(arrays)
            return CancelTasks(tuple(task_name(array, n) for n in range(self.sizes[array])))
        if kind == 6:
            return Cancel(self.chance.choice(open_))
        return Tick()

    def _new(self) -> tuple[Run, ...]:
        """Return a run, or the tasks of an array, which may follow earlier ones."""
        chance, name = self.chance, f"r{len(self.names)}"
        arrays = [each for each in self.names if each in self.sizes]
        size = chance.choice((0, 0, 2, 3, 5))
        follow = None
        if self.names and chance.randrange(3):
            alike = [each for each in arrays if self.sizes[each] == size]
            follow = Follow(
                after=self._some(self.names),
                after_any=self._some(self.names),
                after_task=self._some(alike) if size else (),
                on_upstream_failure=chance.choice(tuple(UpstreamFailure)),
                grace_ms=chance.choice((0, 1, 10 * MINUTE_MS)),
            )
            if not (follow.after or follow.after_any or follow.after_task):
                follow = None
        self.names.append(name)
        array = None
        if size:
            self.sizes[name] = size
            limit = chance.choice((None, 1, 2))
            array = TaskArray(name=name, tasks=f"0-{size - 1}", at_once_max=limit)
        new = run(
            name,
            chance.choice((1, 2, 5)),
            chance.choice(("team", "other")),
            array=array,
            follow=follow,
            expected_duration_ms=chance.choice((10 * MINUTE_MS, HOUR_MS)),
        )
        return task_runs(new) if size else (new,)

    def _some(self, names: list[str]) -> tuple[str, ...]:
        return tuple(self.chance.sample(names, k=min(len(names), self.chance.choice((0, 1, 1, 2)))))

    def is_blocked(self, record: RunRecord) -> bool:
        """Return whether its document blocks ``record``, computed from phases alone."""
        spec = record.spec
        follow = spec.follow or Follow(after=())
        any_end = follow.on_upstream_failure is UpstreamFailure.START
        tasks = tuple(task_name(each, spec.task or 0) for each in follow.after_task)
        for names, is_any in (((*follow.after, *tasks), any_end), (follow.after_any, True)):
            phases = [phase for name in names for phase in self._phases(name)]
            if any(phase not in TERMINAL for phase in phases):
                return True
            if not is_any and any(phase is not Phase.COMPLETED for phase in phases):
                return True
        if spec.array is None or spec.array.at_once_max is None or spec.task is None:
            return False
        earlier = [task_name(spec.array.name, index) for index in range(spec.task)]
        unended = sum(self.life.phase(each) not in TERMINAL for each in earlier)
        return unended >= spec.array.at_once_max

    def _phases(self, name: str) -> list[Phase]:
        if name not in self.sizes:
            return [self.life.phase(name)]
        return [self.life.phase(task_name(name, index)) for index in range(self.sizes[name])]


@pytest.mark.heavy
@examples(0.5)
@given(st.integers(0, 2**32))
def test_followers_wait_for_what_their_documents_say_and_are_told_once(seed: int) -> None:
    history = History(seed)
    for _ in range(STEPS):
        decision = history.step()
        told = Counter(each.run for each in decision.events if isinstance(each, RunRefused))
        assert max(told.values(), default=0) <= 2, told
        for record in history.life.state.runs.values():
            if record.phase is not Phase.PENDING:
                continue
            says_so = record.refusal is not None and record.refusal.code in OF_UPSTREAM
            assert says_so == history.is_blocked(record), (record.spec.name, record.refusal)
    history.life.audit()
