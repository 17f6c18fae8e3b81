"""Fields that only Quorate writes are refused in callers' documents, unless they are unchanged."""

from __future__ import annotations

from typing import Any

import pytest

from quorate.core.commands import Apply, Submit
from quorate.documents import render
from quorate.loop.engine import Engine
from quorate.model.selector import selector_of
from quorate.model.specs import Pool, PoolExecutor
from quorate.operations.caller import Caller
from quorate.operations.resources.resource_operations import Apply as ApplyDocuments
from quorate.operations.resources.run_operations import SubmitRun
from quorate.testing.builders import run
from quorate.views.exits import CommandError, Exit
from tests.unit.operations.stage import ADMIN, OF_LAB, ask, desk_for, engine_at_work, lines_of

WORKLOAD = "job.batch/quorate-other/train@12345678-1111"
NAME = "train-12345678"
FIELD = f"Run/{NAME}: spec.workload: only Quorate writes it"
PODS = Pool(
    name="pods",
    selector=selector_of({"cluster": "west"}),
    executor=PoolExecutor.KUBERNETES,
    cluster="west",
)


def engine_with_pods() -> Engine:
    engine = engine_at_work()
    assert not engine.execute(Apply((PODS,)), actor="root").decision.refusals
    return engine


def document(owner: str = "lab") -> dict[str, Any]:
    return {
        "apiVersion": "quorate.dev/v1",
        "kind": "Run",
        "metadata": {"name": NAME},
        "spec": {
            "owner": owner,
            "pool": "pods",
            "resources": {"gpuType": "H100", "totalGPUs": 8},
            "workload": WORKLOAD,
        },
    }


@pytest.mark.heavy
@pytest.mark.parametrize("caller", [ADMIN, OF_LAB], ids=lambda each: each.actor)
def test_a_submitted_run_may_not_name_a_workload(caller: Caller) -> None:
    desk = desk_for(caller, engine_with_pods())
    with pytest.raises(CommandError, match=FIELD) as raised:
        ask(desk, "submit-run", SubmitRun(document=document()))
    assert raised.value.code is Exit.INVALID
    assert NAME not in desk.engine.view.runs


@pytest.mark.heavy
@pytest.mark.parametrize("caller", [ADMIN, OF_LAB], ids=lambda each: each.actor)
def test_an_applied_run_may_not_name_a_workload(caller: Caller) -> None:
    desk = desk_for(caller, engine_with_pods())
    with pytest.raises(CommandError, match=FIELD):
        ask(desk, "apply", ApplyDocuments(documents=(document(),)))


@pytest.mark.heavy
def test_the_run_of_a_workload_is_applied_again_unchanged() -> None:
    engine = engine_with_pods()
    # As the service that admits Jobs records it: no user has submitted it.
    spec = run(NAME, 8, "other", pool="pods", nonce="12345678-1111", workload=WORKLOAD)
    assert not engine.execute(Submit(spec), actor="kubernetes/west").decision.refusals
    found = ask(desk_for(ADMIN, engine), "apply", ApplyDocuments(documents=(render(spec),)))
    assert lines_of(found)[0] == f"run/{NAME} unchanged"


@pytest.mark.heavy
def test_the_run_of_a_workload_cannot_be_changed_or_copied() -> None:
    engine = engine_with_pods()
    spec = run(NAME, 8, "other", pool="pods", nonce="12345678-1111", workload=WORKLOAD)
    engine.execute(Submit(spec), actor="kubernetes/west")
    changed: dict[str, Any] = render(spec)
    changed["spec"]["resources"]["totalGPUs"] = 1
    with pytest.raises(CommandError, match="only Quorate writes it"):
        ask(desk_for(ADMIN, engine), "apply", ApplyDocuments(documents=(changed,)))
    with pytest.raises(CommandError, match=r"Run/again: spec\.workload: only Quorate"):
        ask(desk_for(ADMIN, engine), "submit-run", SubmitRun(like=NAME, name="again"))
