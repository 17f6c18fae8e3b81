from __future__ import annotations

import pytest

from quorate.core.accounting.wait_causes import Wait, WaitCause
from quorate.model.amounts import DAY_MS, HOUR_MS, MINUTE_MS
from quorate.views.runs.wait_view import wait_text, wait_tree
from quorate.views.word_forms import exact_length


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (0, "0s"),
        (250, "0.250s"),
        (45_000, "45s"),
        (3 * HOUR_MS + 12 * MINUTE_MS, "3h 12m"),
        (DAY_MS + 250, "1d 0.250s"),
        (DAY_MS + HOUR_MS + MINUTE_MS + 1_001, "1d 1h 1m 1.001s"),
    ],
)
def test_a_length_of_time_is_written_to_the_millisecond(ms: int, text: str) -> None:
    assert exact_length(ms) == text


def test_a_wait_is_shown_with_its_parts() -> None:
    wait = Wait(
        total_ms=90 * MINUTE_MS, parts_ms={WaitCause.FUNDING: HOUR_MS, WaitCause.ROOM: HOUR_MS // 2}
    )
    assert wait_text(wait) == "1h 30m (funding 1h, room 30m)"
    assert wait_tree(wait) == {
        "totalMs": 5_400_000,
        "byCause": [{"cause": "funding", "ms": 3_600_000}, {"cause": "room", "ms": 1_800_000}],
    }


def test_a_run_that_did_not_wait_has_no_parts() -> None:
    assert wait_text(Wait(total_ms=0, parts_ms={})) == "0s"
