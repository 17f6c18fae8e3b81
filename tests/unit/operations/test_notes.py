"""Notes and reasons are one printable line, so that none looks like another line of the log."""

from __future__ import annotations

import pytest
from msgspec import Struct

from quorate.operations.fleet.fleet_operations import MarkNode
from quorate.operations.resources.resource_operations import DeleteThing
from quorate.operations.resources.run_operations import EndRun
from quorate.operations.resources.tenant_operations import DeleteTenant
from quorate.operations.short_notes import check_notes
from quorate.operations.table import OPERATIONS
from quorate.views.exits import CommandError
from quorate.views.word_forms import one_line

FORGED = "x\n9999   admin   budget-removed/1   budget/rai removed"


@pytest.mark.parametrize(
    "asked",
    [
        EndRun(run="r", note=FORGED),
        DeleteThing(name="n", reason="\x1b[2J"),
        DeleteTenant(id="t", reason="a\tb"),
        MarkNode(node="n", note="\u2028"),
    ],
)
def test_what_is_no_line_is_refused_by_its_field(asked: Struct) -> None:
    with pytest.raises(CommandError) as raised:
        check_notes(asked)
    field = "note" if hasattr(asked, "note") else "reason"
    assert str(raised.value) == f"{field}: must be one printable line"


def test_every_note_of_a_request_is_called_so() -> None:
    """``check_notes`` checks fields by name: a note under another name would not be checked."""
    for operation in OPERATIONS.values():
        for name, kind in operation.takes.__annotations__.items():
            if kind in ("Note", "Note | None"):
                assert name in ("note", "reason"), (operation.name, name)


def test_an_old_note_is_shown_on_one_line() -> None:
    assert one_line(FORGED).startswith("x\\n9999")
    assert one_line("loss 1.7 - fine") == "loss 1.7 - fine"
