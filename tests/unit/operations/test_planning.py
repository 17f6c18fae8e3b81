"""Plans and explanations, only for callers that may see the run."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from quorate.documents import render
from quorate.model.amounts import HOUR_MS
from quorate.operations.caller import Caller
from quorate.operations.ledger.plan_operations import AboutRun, PlanRuns
from quorate.operations.table import OPERATIONS
from quorate.testing.builders import run
from quorate.views.exits import CommandError
from tests.unit.operations.stage import (
    ADMIN,
    AUDITOR,
    OF_LAB,
    OF_NONE,
    OF_OTHER,
    OF_TEAM,
    ask,
    desk_for,
    lines_of,
)

NEW = render(run("new", 8, "lab", user="ada", expected_duration_ms=HOUR_MS))
about_one = pytest.mark.parametrize("name", ["plan-run", "explain-run"])


@pytest.mark.heavy
@about_one
@pytest.mark.parametrize("caller", [ADMIN, AUDITOR, OF_OTHER], ids=lambda each: each.actor)
def test_who_sees_a_run_is_told_about_it(name: str, caller: Caller) -> None:
    found = ask(desk_for(caller), name, AboutRun(run="run/other-waits"))
    assert lines_of(found)[0].startswith("run/other-waits ")
    msgspec.convert(found.tree(), OPERATIONS[name].gives)


@pytest.mark.heavy
@about_one
@pytest.mark.parametrize("caller", [OF_LAB, OF_TEAM, OF_NONE], ids=lambda each: each.actor)
def test_a_run_of_others_is_as_good_as_not_there(name: str, caller: Caller) -> None:
    def refused(run: str) -> CommandError:
        with pytest.raises(CommandError) as raised:
            ask(desk_for(caller), name, AboutRun(run=run))
        return raised.value

    hidden, missing = refused("other-waits"), refused("ether-waits")
    assert hidden.fault == missing.fault == "unknown-name"
    assert str(hidden).replace("other-waits", "X") == str(missing).replace("ether-waits", "X")


@pytest.mark.heavy
@pytest.mark.parametrize("caller", [ADMIN, AUDITOR, OF_LAB], ids=lambda each: each.actor)
def test_a_run_is_planned_before_it_is_submitted(caller: Caller) -> None:
    context = desk_for(caller)
    before = context.engine.head
    found = ask(context, "plan-runs", PlanRuns(documents=(NEW,), source="new.yaml"))
    lines = lines_of(found)
    assert lines[0].startswith("run/new would ")
    assert lines[-1] == "dry run: nothing was recorded"
    msgspec.convert(found.tree(), OPERATIONS["plan-runs"].gives)
    assert context.engine.head == before


@pytest.mark.heavy
def test_runs_are_planned_one_after_the_other() -> None:
    more: dict[str, Any] = render(run("more", 8, "lab", user="ada", expected_duration_ms=HOUR_MS))
    found = ask(desk_for(OF_LAB), "plan-runs", PlanRuns(documents=(NEW, more)))
    assert [each["run"] for each in found.tree()] == ["new", "more"]
    assert "" in lines_of(found)


@pytest.mark.heavy
@pytest.mark.parametrize("caller", [OF_TEAM, OF_OTHER, OF_NONE], ids=lambda each: each.actor)
def test_nobody_plans_with_the_money_of_others(caller: Caller) -> None:
    with pytest.raises(CommandError) as raised:
        ask(desk_for(caller), "plan-runs", PlanRuns(documents=(NEW,)))
    assert raised.value.fault == "forbidden"
