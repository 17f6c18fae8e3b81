"""What goes wrong in short histories: people change their minds, documents change, nodes are lost.

Some of these commands are refused. A history has the disturbances of its theme more often than
others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import Final

from msgspec.structs import replace

from quorate.core.commands import (
    Apply,
    Cancel,
    Command,
    Drain,
    MarkNode,
    NotStarted,
    Release,
    Resolve,
    Shrink,
    Tick,
    Wiped,
)
from quorate.model.amounts import HOUR_MS
from quorate.model.events import NodeStatus
from quorate.model.specs import Envelope, Owner
from quorate.model.state.records import Phase
from quorate.model.state.state import State
from quorate.testing.builders import lending
from quorate.testing.shrinking import Deed
from tests.oracles.short_demand import ShortDemand
from tests.oracles.short_worlds import FAMILY, STEP_MS, TEAMS, Theme, World


class Disturbances:
    """Draws the disturbances of one history."""

    def __init__(self, chance: Random, theme: Theme, world: World, demand: ShortDemand) -> None:
        self._chance = chance
        self._kinds = (*_KINDS, *3 * _MORE_OF.get(theme, ()))
        self._world = world
        self._demand = demand

    def next(self, state: State, at_ms: int) -> Sequence[Deed]:
        """Return the commands of a disturbance at ``at_ms``; empty if it finds nothing to do."""
        kind = self._chance.choice(self._kinds)
        if kind == "clock back":
            return [Deed(at_ms - STEP_MS // 2, Tick())]
        return [Deed(at_ms, command) for command in self._commands(kind, state, at_ms)]

    def _commands(self, kind: str, state: State, at_ms: int) -> list[Command]:  # noqa: C901, PLR0911 - one line each
        chance = self._chance
        running = sorted(n for n, r in state.runs.items() if r.phase is Phase.RUNNING)
        match kind:
            case "cancel waiting":
                return self._cancel_waiting(state)
            case "cancel running" if running:
                return [Cancel(chance.choice(running), now=chance.random() < 0.3)]
            case "node":
                return [self._node(state)]
            case "budget":
                return [self._budget(state, at_ms)]
            case "owner":
                return [self._owner(state)]
            case "pool":
                return [self._pool(state)]
            case "move node":
                node = chance.choice(self._world.nodes)
                return [Apply((replace(node, domain=chance.choice("ABC")),))]
            case "shrink":
                return self._shrink(state, running)
            case "resolve":
                return [Resolve("default", "H100", (), chance.choice((1, 2, 4, 8)))]
            case "claim":
                return self._claim(state, running)
            case "not started" if running:
                return [NotStarted(chance.choice(running), "x")]
            case _:
                return []

    def _cancel_waiting(self, state: State) -> list[Command]:
        """Cancel a run that waits; sometimes the same work is submitted again under a new name."""
        if not state.pending:
            return []
        name = self._chance.choice(sorted(state.pending))
        spec = state.runs[name].spec
        found: list[Command] = [Cancel(name, now=self._chance.random() < 0.3)]
        if self._chance.random() < 0.4 and not spec.sensitive and spec.array is None:
            found.append(self._demand.again(spec))
        return found

    def _node(self, state: State) -> Command:
        chance = self._chance
        marked = sorted(state.node_status)
        if marked and chance.random() < 0.6:
            return MarkNode(chance.choice(marked), NodeStatus.READY)
        node = chance.choice(self._world.nodes).name
        lost, closed = MarkNode(node, NodeStatus.FAILED), MarkNode(node, NodeStatus.CORDONED)
        return chance.choice((lost, closed, Drain(node)))

    def _budget(self, state: State, at_ms: int) -> Command:
        chance = self._chance
        budget = state.budgets[chance.choice(sorted(state.budgets))]
        lines = list(budget.envelopes)
        number = chance.randrange(len(lines))
        lines[number] = self._line(lines[number], at_ms)
        caps = budget.caps
        if chance.random() < 0.4:
            caps = tuple(
                replace(cap, concurrency_max=chance.choice((None, 2, 4, 8))) for cap in caps
            )
        return Apply((replace(budget, envelopes=tuple(lines), caps=caps),))

    def _line(self, line: Envelope, at_ms: int) -> Envelope:
        """Return ``line`` with another width, end, grant or other terms of lending."""
        chance = self._chance
        lent = lending(
            concurrency_max=chance.choice((None, 1, 4)),
            recall_notice_ms=chance.choice((None, STEP_MS)),
        )
        end_ms = max(line.start_ms + STEP_MS, at_ms + chance.randrange(-1, 12) * STEP_MS)
        return chance.choice(
            (
                replace(line, concurrency=chance.choice((1, 2, 4, 8, 16, 48))),
                replace(line, end_ms=end_ms),
                replace(line, gpu_ms_max=chance.choice((None, 10 * HOUR_MS, 50 * HOUR_MS))),
                replace(line, lending=lent),
            )
        )

    def _owner(self, state: State) -> Command:
        chance = self._chance
        name = chance.choice((*TEAMS, FAMILY))
        known = state.owners[name]
        parents: tuple[str, ...] = known.parents
        if name != FAMILY:
            parents = chance.choice(((), (FAMILY,), parents))
        quota = replace(
            known.quota,
            nodes_max=chance.choice((None, known.quota.nodes_max, 1, 2)),
            concurrent_runs_max=chance.choice((None, known.quota.concurrent_runs_max, 0, 1, 3)),
        )
        return Apply((Owner(name=name, parents=parents, quota=quota),))

    def _pool(self, state: State) -> Command:
        """Return a change of the default pool's promises, or of the line between the two pools."""
        chance = self._chance
        pool = state.pools["default"]
        other = state.pools.get("side")
        if other is not None and chance.random() < 0.3:
            selector = (("fabric.domain", chance.choice("BC")),)
            return Apply((replace(other, selector=selector),))
        changed = replace(
            pool,
            firm_horizon_ms=chance.choice((1, 3, 6)) * HOUR_MS,
            reservation_depth=chance.choice((1, 2, 20)),
            disruption_rate_ppm=chance.choice((pool.disruption_rate_ppm, 0)),
        )
        return Apply((changed,))

    def _shrink(self, state: State, running: Sequence[str]) -> list[Command]:
        elastic = [name for name in running if state.runs[name].spec.malleable is not None]
        if not elastic:
            return []
        name = self._chance.choice(elastic)
        widths = state.runs[name].spec.malleable
        assert widths is not None
        wide = range(widths.gpus_min, widths.gpus_max + 1, widths.gpus_step)
        return [Shrink(name, self._chance.choice(wide))]

    def _claim(self, state: State, running: Sequence[str]) -> list[Command]:
        """Wipe a node that a claim has used, and sometimes release a claim."""
        chance = self._chance
        found: list[Command] = [
            Wiped(node, chance.random() < 0.9) for node in sorted(state.unwiped)[:1]
        ]
        claims = [name for name in running if state.runs[name].spec.sensitive]
        if claims and chance.random() < 0.5:
            found.append(Release(chance.choice(claims)))
        return found


_KINDS: Final = (
    "cancel waiting",
    "cancel waiting",
    "cancel running",
    "node",
    "node",
    "budget",
    "owner",
    "pool",
    "move node",
    "shrink",
    "clock back",
    "resolve",
    "claim",
    "not started",
)
"""The kinds of disturbances; those named twice come twice as often."""
_MORE_OF: Final[Mapping[Theme, tuple[str, ...]]] = {
    Theme.CLAIMS: ("claim",),
    Theme.MALLEABLE: ("shrink",),
    Theme.POOLS: ("pool", "move node"),
    Theme.ROUNDS: ("budget", "not started"),
}
