"""The starts of the first waiting runs: the caller's own by name, others without."""

from __future__ import annotations

import msgspec
import pytest

from quorate.operations.ledger.plan_operations import QueueStarts
from quorate.operations.table import OPERATIONS
from quorate.views.exits import CommandError
from tests.unit.operations.stage import ADMIN, OF_LAB, OF_NONE, OF_OTHER, ask, desk_for, lines_of

ASKED = QueueStarts()


@pytest.mark.heavy
def test_everyone_who_oversees_sees_every_start_in_the_order_of_the_queue() -> None:
    context = desk_for(ADMIN)
    tree = ask(context, "queue-starts", ASKED).tree()
    msgspec.convert(tree, OPERATIONS["queue-starts"].gives)
    names = [each["run"] for each in tree["items"]]
    assert names == [name for name in context.outlook.queue if name in names]
    assert set(names) >= {"other-waits"}
    alone = ask(desk_for(ADMIN), "queue-starts", QueueStarts(limit=1)).tree()
    assert [each["run"] for each in alone["items"]] == names[:1]


@pytest.mark.heavy
def test_a_member_sees_only_starts_of_its_own() -> None:
    for caller, owner in ((OF_LAB, "lab"), (OF_OTHER, "other")):
        found = ask(desk_for(caller), "queue-starts", ASKED)
        runs = {each["run"] for each in found.tree()["items"]}
        assert runs <= {f"{owner}-waits", "of-team", "of-other"}
        hidden = "other" if owner == "lab" else "lab"
        assert hidden not in "\n".join(lines_of(found))
    assert ask(desk_for(OF_NONE), "queue-starts", ASKED).tree()["items"] == []


@pytest.mark.heavy
def test_an_owner_that_is_hidden_is_as_good_as_not_there() -> None:
    for name in ("other", "nowhere"):
        with pytest.raises(CommandError) as raised:
            ask(desk_for(OF_LAB), "queue-starts", QueueStarts(owner=name))
        assert raised.value.fault == "unknown-name"
    found = ask(desk_for(OF_LAB), "queue-starts", QueueStarts(owner="lab"))
    assert all(each["run"].startswith("lab") for each in found.tree()["items"])
