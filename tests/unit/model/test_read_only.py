"""A reader of a view sees the state and its changes, and cannot change any table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from quorate.core.commands import Apply, Submit
from quorate.loop.engine import Engine
from quorate.model.specs import Owner
from quorate.model.state.read_only import read_only
from quorate.model.state.run_table import Runs
from quorate.model.state.state import SLOTS, State
from quorate.model.state.state_view import StateView
from quorate.model.state.tables import LayeredTable, Table
from quorate.testing.builders import budget, envelope, fleet, run
from quorate.testing.memory_engines import memory_engine

READ = sorted(name for name in dir(StateView) if not name.startswith("_"))


def engine_with_work() -> Engine:
    """Return an engine with a running and a waiting run."""
    engine = memory_engine()
    money = budget("b", "lab", envelope("e", 8))
    engine.execute(Apply((*fleet({"A": 8}), Owner(name="lab"), money)), actor="t")
    for name in ("runs", "waits"):
        engine.execute(Submit(run(name, 8, "lab")), actor="t")
    return engine


@pytest.mark.parametrize("name", READ)
def test_view_has_everything_that_a_decision_may_read_and_hands_out_no_table(name: str) -> None:
    engine = engine_with_work()
    found = getattr(engine.view, name)
    assert not isinstance(found, Table | LayeredTable)
    if isinstance(found, Mapping) and not name.endswith("_cache") and name != "lifted":
        assert not hasattr(found, "__setitem__")
        assert not hasattr(found, "pop")
        assert not hasattr(found, "own")


def test_every_table_that_can_be_read_is_among_those_tried() -> None:
    tables = {name for name in SLOTS if isinstance(getattr(State(), name), Table)}
    assert {name.removeprefix("_") for name in tables} - {"islands"} <= set(READ)


def test_entry_of_a_table_cannot_be_set_or_deleted() -> None:
    view: Any = engine_with_work().view
    with pytest.raises(TypeError):
        view.pools["default"] = None
    with pytest.raises(TypeError):
        del view.leases["runs/0"]
    with pytest.raises(TypeError):
        view.runs["runs"] = None
    with pytest.raises(AttributeError, match="read-only"):
        view.pools = {}
    with pytest.raises(AttributeError):
        view.runs.add("new", None)


def test_view_follows_its_state() -> None:
    engine = engine_with_work()
    view = engine.view
    seq = view.seq
    engine.execute(Submit(run("third", 8, "lab")), actor="t")
    assert view.seq > seq
    assert "third" in view.runs
    assert "third" in view.pending
    assert engine.view is view


def test_runs_read_like_the_table_itself() -> None:
    state = State()
    view = read_only(state)
    assert not view.runs
    engine = engine_with_work()
    over, runs = engine.view.overlay(), engine.view.runs
    assert isinstance(runs, Runs)
    assert list(runs) == list(over.runs) == ["runs", "waits"]
    assert [record.spec.name for record in runs.values()] == ["runs", "waits"]
    assert [name for name, _ in runs.items()] == [name for name, _ in runs.kept()]
    assert len(runs) == 2
    assert runs.get("none") is None
    assert runs.get("runs") is runs["runs"]
    assert runs.is_kept("runs")
    assert not runs.is_returned("runs")
    assert runs.archive is None
