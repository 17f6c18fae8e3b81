"""Runs of other tenants are refused with the text for runs that do not exist."""

from __future__ import annotations

import pytest
from msgspec import Struct

from quorate.operations.resources.run_operations import EndRun, ShrinkRun
from tests.unit.operations.ledger_thread import ADA, ADMIN, BEN, LedgerThread


@pytest.mark.parametrize(
    ("name", "hidden", "absent"),
    [
        *((f"{verb}-run", EndRun(run="see"), EndRun(run="sea")) for verb in ("cancel", "fail")),
        ("complete-run", EndRun(run="see"), EndRun(run="sea")),
        ("shrink-run", ShrinkRun(run="see", gpus=1), ShrinkRun(run="sea", gpus=1)),
    ],
)
def test_a_run_of_others_is_refused_like_one_that_is_not_there(
    name: str, hidden: Struct, absent: Struct
) -> None:
    ledger_thread = LedgerThread()
    found, missing = (
        ledger_thread.refused(BEN, name, hidden),
        ledger_thread.refused(BEN, name, absent),
    )
    assert (found.code, found.fault) == (missing.code, missing.fault)
    assert found.fault == "unknown-name"
    assert [line.replace("see", "sea") for line in found.lines] == list(missing.lines)


def test_its_own_tenant_and_an_admin_may_end_it() -> None:
    for caller in (ADA, ADMIN):
        ledger_thread = LedgerThread()
        ledger_thread.ask(caller, "cancel-run", EndRun(run="see"))
        assert not ledger_thread.engine.view.runs["see"].leases
