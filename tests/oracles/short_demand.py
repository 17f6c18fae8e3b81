"""The runs that short histories submit: of every kind, short, and often wider than budgets pay."""

from __future__ import annotations

from random import Random
from typing import Final

from msgspec.structs import replace

from quorate.core.commands import Apply, Command, Submit
from quorate.model.amounts import MINUTE_MS
from quorate.model.specs import (
    Discipline,
    Follow,
    Funding,
    Malleable,
    OnQuota,
    RoundsWork,
    Run,
    TaskArray,
    UpstreamFailure,
)
from quorate.model.state.state import State
from quorate.model.task_arrays import task_runs
from quorate.testing.builders import run
from tests.oracles.short_worlds import STEP_MS, TEAMS, Theme

_WORK: Final = RoundsWork(throughputs=(("H100", 1.0),), total_steps=10**6)


class ShortDemand:
    """Draws the runs of one history, each with a new name."""

    def __init__(self, chance: Random, theme: Theme) -> None:
        self._chance = chance
        self._theme = theme
        self._names: list[str] = []
        self._count = 0

    def submission(self, state: State) -> Command:
        """Return the submission of a run, or sometimes of an array."""
        chance = self._chance
        spec = self._spec(state, self._name())
        if self._has(Theme.ARRAYS, 0.1) and not spec.sensitive and chance.random() < 0.2:
            tasks = f"0-{chance.choice((1, 2, 3))}"
            limit = chance.choice((None, 1, 2))
            array = TaskArray(name=spec.name, tasks=tasks, at_once_max=limit)
            narrow = replace(spec, gpus=min(2, spec.gpus), group_gpus=None, malleable=None)
            return Apply(task_runs(replace(narrow, array=array, follow=None)))
        return Submit(spec)

    def again(self, spec: Run) -> Command:
        """Return the submission of a run like ``spec`` with another name."""
        name = self._name()
        return Submit(replace(spec, name=name, nonce=name))

    def _name(self) -> str:
        self._count += 1
        return f"r{self._count:02d}"

    def _has(self, theme: Theme, elsewhere: float) -> bool:
        """Return whether the history has ``theme``; a mix has it with chance ``elsewhere``."""
        if self._theme is Theme.MIX:
            return self._chance.random() < elsewhere
        return self._theme is theme

    def _spec(self, state: State, name: str) -> Run:
        chance = self._chance
        owner = chance.choice(TEAMS)
        pool = chance.choice(sorted(state.pools))
        shares = state.pools[pool].discipline is Discipline.ROUNDS
        if shares:
            gpus = chance.choice((1, 2, 4))
            steps = chance.choice((1, 2, 3, 6, 12))
            more: dict[str, object] = {"rounds": _WORK, "on_quota": OnQuota.WAIT}
        elif self._has(Theme.CLAIMS, 0.15) and chance.random() < 0.35:
            nodes = sorted(state.nodes)
            gpus = state.nodes[chance.choice(nodes)].spec.gpus * chance.choice((1, 1, 2))
            steps = chance.choice((1, 2, 3, 6))
            more = {"sensitive": True}
        else:
            gpus, more = self._width(state)
            steps = chance.choice((1, 2, 3, 6, 12))
            more |= {"follow": self._follow(), "on_quota": chance.choice(tuple(OnQuota))}
            more["funding"] = self._funding()
            self._names.append(name)
        more["expected_duration_ms"] = steps * STEP_MS + chance.choice((0, 0, 0, 1))
        more["checkpoint_ms"] = chance.choice((0, 0, MINUTE_MS, STEP_MS))
        return run(name, gpus, owner, nonce=name, pool=pool, **more)

    def _width(self, state: State) -> tuple[int, dict[str, object]]:
        """Return the GPUs of a run and the fields that say how they may be divided."""
        chance = self._chance
        total = sum(record.spec.gpus for record in state.nodes.values())
        gpus = max(1, min(total, chance.choice((1, 2, 4, 4, 8, 8, 12, 16))))
        more: dict[str, object] = {}
        if self._has(Theme.MALLEABLE, 0.3) and chance.random() < 0.6:
            least, step = chance.choice((1, 2, 4)), chance.choice((1, 2, 4))
            steps = chance.choice((1, 2, 3))
            gpus = least + step * steps
            desired = chance.choice((gpus, least + step * chance.randrange(steps + 1)))
            more["malleable"] = Malleable(
                gpus_min=least, gpus_max=gpus, gpus_step=step, gpus_desired=desired
            )
        elif chance.random() < 0.2:
            more["group_gpus"] = chance.choice((1, 2, 4))
            more["cross_group_spread"] = chance.random() < 0.6
        if chance.random() < 0.15 and not any(p.whole_nodes for p in state.pools.values()):
            more["spares_per_group"] = chance.choice((1, 2))
        return gpus, more

    def _funding(self) -> Funding:
        chance = self._chance
        if chance.random() < 0.6:
            return Funding()
        return Funding(allow_borrow=True, borrow_gpus_max=chance.choice((None, 2, 8)))

    def _follow(self) -> Follow | None:
        chance = self._chance
        if not self._names or not self._has(Theme.ARRAYS, 0.3) or chance.random() < 0.5:
            return None
        drawn = [chance.choice(self._names) for _ in range(chance.choice((1, 1, 2)))]
        upstream = tuple(dict.fromkeys(drawn))
        failure = chance.choice(tuple(UpstreamFailure))
        if chance.random() < 0.3:
            return Follow(after=(), after_any=upstream, on_upstream_failure=failure)
        grace_ms = chance.choice((1, STEP_MS, 2 * STEP_MS))
        return Follow(after=upstream, on_upstream_failure=failure, grace_ms=grace_ms)
