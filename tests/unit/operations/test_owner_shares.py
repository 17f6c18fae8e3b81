"""Shares of an owner over time, for callers that may see the owner."""

from __future__ import annotations

import msgspec
import pytest

from quorate.operations.money.money_operations import OwnerSharesRequest
from quorate.operations.table import OPERATIONS
from quorate.views.exits import CommandError
from tests.unit.operations.stage import ADMIN, OF_LAB, OF_OTHER, ask, desk_for, lines_of

ASKED = OwnerSharesRequest(name="other", days=1)


@pytest.mark.heavy
def test_they_add_up_to_what_its_runs_had() -> None:
    for caller in (ADMIN, OF_OTHER):
        found = ask(desk_for(caller), "owner-shares", ASKED)
        tree = found.tree()
        told = msgspec.convert(tree, OPERATIONS["owner-shares"].gives)
        (flavor,) = told.flavors
        assert (flavor.flavor, flavor.gpus) == ("H100", 16)
        assert len(flavor.shares) == len(told.steps_ms)
        # Its runs have eight of sixteen GPUs for two hours, which begin within a step.
        first, *rest = [each for each in flavor.shares if each]
        assert 0 < first < 0.5
        assert rest == [0.5, 0.5]
        assert "H100" in lines_of(found)[0]


@pytest.mark.heavy
def test_an_owner_that_is_hidden_is_as_good_as_not_there() -> None:
    for name in ("other", "nowhere"):
        with pytest.raises(CommandError) as raised:
            ask(desk_for(OF_LAB), "owner-shares", OwnerSharesRequest(name=name))
        assert raised.value.fault == "unknown-name"
