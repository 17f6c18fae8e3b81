"""Refusals use the caller's own names for fields."""

from __future__ import annotations

import pytest

from quorate.operations.resources.resource_operations import GetSystem
from quorate.operations.resources.run_operations import SubmitRun
from tests.unit.operations.ledger_thread import ADA, ADMIN, LedgerThread
from tests.unit.operations.test_token_says_whose import tree


def test_a_key_is_told_as_it_was_sent() -> None:
    ledger_thread = LedgerThread()
    ledger_thread.ask(ADA, "submit-run", SubmitRun(document=tree("one"), idempotency_key="k1"))
    again = SubmitRun(document=tree("two"), idempotency_key="k1")
    error = ledger_thread.refused(ADA, "submit-run", again)
    assert error.fault == "key-reused"
    assert error.lines[0].startswith("the idempotency key 'k1' was used for another request;")


@pytest.mark.parametrize("at", ["yesterday", "2999-01-01T00:00:00Z"])
def test_a_time_is_called_like_the_parameter(at: str) -> None:
    error = LedgerThread().refused(ADMIN, "get-system", GetSystem(at=at))
    assert error.lines[0].startswith("at: "), error.lines


def test_that_a_request_was_kept_is_nothing_of_others() -> None:
    ledger_thread = LedgerThread()
    found = ledger_thread.ask(
        ADA, "submit-run", SubmitRun(document=tree("one"), idempotency_key="k1")
    )
    assert "otherEvents" not in found.tree()
    assert "of others" not in "\n".join(found.lines(False))  # noqa: FBT003
