"""When the work of a run must have ended, so that its keeper may be killed with it."""

from __future__ import annotations

import pytest

from quorate.adapters.executors.lease_book import nothing_wanted
from quorate.adapters.executors.silent_keepers import is_overdue
from quorate.keeper.wanted import Part, Wanted

NOW_MS = 1_000
WORK = nothing_wanted("r").work
SLOT = ("n1", 0)
WHOLE = Part(lease="r/0", bundle=0, slots=(SLOT,))
LATER = Part(lease="r/1", bundle=1, slots=(SLOT,), stop_by_ms=NOW_MS + 1)
DUE = Part(lease="r/1", bundle=1, slots=(SLOT,), stop_by_ms=NOW_MS)
LOST = Part(lease="r/1", bundle=1, slots=(SLOT,), lost=(SLOT,))


def overdue(*parts: Part) -> bool:
    return is_overdue(Wanted(life="L", work=WORK, parts=parts), NOW_MS)


def test_work_without_a_lease_is_overdue() -> None:
    assert overdue()


@pytest.mark.parametrize("part", [DUE, LOST])
def test_work_with_a_lease_that_is_due_or_lost_is_overdue(part: Part) -> None:
    assert overdue(WHOLE, part)


@pytest.mark.parametrize("part", [WHOLE, LATER])
def test_other_work_is_not(part: Part) -> None:
    assert not overdue(WHOLE, part)
