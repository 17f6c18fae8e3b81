"""A watch ends with its token, which is checked again while it lasts."""

from __future__ import annotations

import pytest

from quorate.core.commands import IssueToken, RevokeToken
from quorate.operations.caller import Caller, Role
from quorate.operations.caller_standing import check_standing
from quorate.testing.memory_engines import HandClock, memory_engine
from quorate.views.exits import CommandError

ID = "t1"
ADA = Caller(actor="ada", role=Role.ADMIN, user="ada", token=ID)


def test_a_token_that_was_revoked_proves_nothing_any_more() -> None:
    engine = memory_engine(clock=HandClock())
    issued = IssueToken(ID, "0" * 64, role="admin", tenant="", user="ada")
    engine.execute(issued, actor="ada")
    check_standing(engine.view, ADA, engine.now_ms())
    engine.execute(RevokeToken(ID), actor="eve")
    with pytest.raises(CommandError, match="revoked") as raised:
        check_standing(engine.view, ADA, engine.now_ms())
    assert raised.value.fault == "unauthenticated"


def test_a_proof_ends_when_it_says() -> None:
    view = memory_engine(clock=HandClock()).view
    caller = Caller(actor="ada", role=Role.USER, user="ada", tenant="lab", until_ms=1_000)
    check_standing(view, caller, 999)
    with pytest.raises(CommandError, match="expired") as raised:
        check_standing(view, caller, 1_000)
    assert raised.value.fault == "unauthenticated"
