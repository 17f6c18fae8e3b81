"""The owed time of runs: computed once for a round, and again when a lease has changed.

``tests.oracles.rounds.Room`` compares the cached result with a new one after every step.
"""

from __future__ import annotations

import pytest

from quorate.core.commands import Cancel
from quorate.model.state import entitlements
from quorate.model.state.entitlements import entitlements_ms
from quorate.model.state.state_view import StateView
from tests.oracles.rounds import Room, run, team, world


def test_round_computes_once_what_its_runs_are_due(monkeypatch: pytest.MonkeyPatch) -> None:
    room = Room(world(team("ant"), team("bee"), per_flavor=1, gpus=1))
    room.submit_together(*(run(f"r{n}", "ant" if n % 2 else "bee") for n in range(5)))
    room.rounds(2)
    computed: list[tuple[str, int]] = []
    plainly = entitlements._computed

    def counted(state: StateView, pool: str, until_ms: int) -> object:
        computed.append((pool, until_ms))
        return plainly(state, pool, until_ms)

    monkeypatch.setattr(entitlements, "_computed", counted)
    (until_ms,) = {each.shared.until_ms for each in room.view.rounds.values()}
    room.simulation.run(until_ms)
    assert computed == [(pool, until_ms) for pool in room.view.rounds]


def test_kept_result_is_dropped_when_a_run_leaves() -> None:
    room = Room(world(team("ant"), per_flavor=1, gpus=1))
    room.submit_together(run("stays", "ant"), run("leaves", "ant"))
    room.rounds(2)
    (pool,), now_ms = room.view.rounds, room.timeline.now_ms
    assert list(entitlements_ms(room.view, pool, now_ms)) == ["stays", "leaves"]
    room.did(Cancel("leaves"))
    room.simulation.run(now_ms)
    room.pass_ms(60_000)
    now_ms = room.timeline.now_ms
    assert list(entitlements_ms(room.view, pool, now_ms)) == ["stays"]
