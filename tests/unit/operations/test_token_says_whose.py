"""The owner of a run comes from the token, and using a taken name gives no permissions."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from quorate.operations.ledger.plan_operations import PlanRuns
from quorate.operations.resources.resource_operations import Apply
from quorate.operations.resources.run_operations import SubmitRun, SubmitRuns
from tests.unit.operations.ledger_thread import ADA, ADMIN, BEN, LAB_ADMIN, LedgerThread


def tree(name: str, **spec: Any) -> dict[str, Any]:
    """Return a Run document without an owner."""
    return {
        "apiVersion": "quorate.dev/v1",
        "kind": "Run",
        "metadata": {"name": name},
        "spec": {"resources": {"gpuType": "H100", "totalGPUs": 1}, **spec},
    }


def test_a_run_is_of_the_tenant_of_whoever_submits_it() -> None:
    ledger_thread = LedgerThread()
    ledger_thread.ask(ADA, "submit-run", SubmitRun(document=tree("one")))
    ledger_thread.ask(ADA, "submit-runs", SubmitRuns(documents=(tree("two"), tree("three"))))
    ledger_thread.ask(ADA, "apply", Apply(documents=(tree("four"),)))
    for name in ("one", "two", "three", "four"):
        spec = ledger_thread.engine.view.runs[name].spec
        assert (spec.owner, spec.user) == ("vision", "ada")
    assert (
        ledger_thread.tree(ADA, "plan-runs", PlanRuns(documents=(tree("five"),)))["run"] == "five"
    )


def test_who_is_of_no_tenant_says_whose_it_is() -> None:
    ledger_thread = LedgerThread()
    error = ledger_thread.refused(ADMIN, "submit-run", SubmitRun(document=tree("one")))
    assert "spec.owner: is required" in error.lines[0]


def test_what_is_said_is_not_changed() -> None:
    ledger_thread = LedgerThread()
    ledger_thread.ask(LAB_ADMIN, "submit-run", SubmitRun(document=tree("one", owner="vision")))
    assert ledger_thread.engine.view.runs["one"].spec.owner == "vision"
    error = ledger_thread.refused(
        ADA, "submit-run", SubmitRun(document=tree("two", owner="speech"))
    )
    assert error.lines == ("spec.owner: you act for 'vision', not for 'speech'",)


@pytest.mark.parametrize(
    ("caller", "told"),
    [
        (replace(ADA, actor="vision/amy", user="amy"), "a run of this name exists (Running)"),
        (BEN, "a run of this name exists"),
    ],
)
def test_a_name_that_anothers_run_has_is_taken(caller: Any, told: str) -> None:
    ledger_thread = LedgerThread()
    error = ledger_thread.refused(caller, "submit-run", SubmitRun(document=tree("see")))
    assert error.fault == "already-exists"
    remedy = "choose another name, or use metadata.generateName"
    assert error.lines == (f"Run/see: metadata.name: {told}; {remedy}",)


def test_the_same_document_of_the_same_user_changes_nothing() -> None:
    ledger_thread = LedgerThread()
    for change in ("submitted", "unchanged"):
        found = ledger_thread.tree(ADA, "apply", Apply(documents=(tree("again"),)))
        assert [each["change"] for each in found["changes"]] == [change]
