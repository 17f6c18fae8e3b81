"""Views for `watch`: exactly what the caller may see."""

from __future__ import annotations

import msgspec
import pytest

from quorate.operations.caller import Caller
from quorate.operations.ledger.plan_operations import PictureRequest
from quorate.operations.table import OPERATIONS
from quorate.views.exits import CommandError
from tests.unit.operations.stage import (
    ADMIN,
    OF_LAB,
    OF_NONE,
    OF_OTHER,
    OF_TEAM,
    ask,
    desk_for,
    lines_of,
)


@pytest.mark.parametrize(
    ("caller", "reservations", "running", "queue"),
    [
        (ADMIN, 2, 2, 2),
        (OF_LAB, 1, 1, 1),
        (OF_TEAM, 0, 1, 0),
        (OF_OTHER, 1, 1, 1),
        (OF_NONE, 0, 0, 0),
    ],
    ids=lambda each: getattr(each, "actor", None),
)
def test_a_picture_shows_what_may_be_seen(
    caller: Caller, reservations: int, running: int, queue: int
) -> None:
    found = ask(desk_for(caller), "picture", PictureRequest(pool="default"))
    tree = found.tree()
    msgspec.convert(tree, OPERATIONS["picture"].gives)
    counts = [tree[key]["count"] for key in ("reservations", "running", "queue")]
    assert counts == [reservations, running, queue]
    text = "\n".join(lines_of(found))
    assert f"running: {running or 'none'}" in text
    assert ("of-team" in text) == (caller in (ADMIN, OF_LAB, OF_TEAM))
    assert ("of-other" in text) == (caller in (ADMIN, OF_OTHER))


@pytest.mark.heavy
def test_a_picture_of_a_run_is_its_forecast() -> None:
    found = ask(desk_for(OF_OTHER), "picture", PictureRequest(run="other-waits"))
    assert found.tree()["forecast"]["run"] == "other-waits"
    with pytest.raises(CommandError) as raised:
        ask(desk_for(OF_LAB), "picture", PictureRequest(run="other-waits"))
    assert raised.value.fault == "unknown-name"


def test_a_picture_of_reservations_leaves_the_rest_out() -> None:
    tree = ask(desk_for(ADMIN), "picture", PictureRequest(reservations=True)).tree()
    assert set(tree) == {"asOf", "sequence", "reservations", "openConflicts"}
