"""The lines that are certainly before another line, as far as older ranks are still valid."""

from __future__ import annotations

import pytest

from quorate.model.state.line_ranks import LineRanks, Ranked
from quorate.model.state.waiting_index import Line, Places, Waiting

FLAVORS = ("H100",)
LINES: list[Line] = [("default", name, FLAVORS) for name in ("ant", "bee", "cat")]
OTHER: Line = ("other", "ant", FLAVORS)
LAST: Ranked = ((False, 0), (9, 9, "mine"), ("default", "me", FLAVORS))
ASKED_MS = 1_000
UNTIL_MS = 2_000


@pytest.fixture
def ranks() -> LineRanks:
    """Return lines ranked at ``ASKED_MS``; the later a line is, the longer its rank is valid."""
    waiting, found = Waiting(), LineRanks()
    for number, line in enumerate((*LINES, OTHER)):
        waiting.lines[line] = Places([(0, number, f"r{number}")])
    numbers = {line: number for number, line in enumerate((*LINES, OTHER))}
    found.in_order(
        waiting,
        ASKED_MS,
        lambda line: (False, numbers[line] - 9),
        lambda line: ((False, numbers[line] - 9), UNTIL_MS + numbers[line]),
    )
    return found


def test_lines_of_its_pool_whose_ranks_hold_are_counted_up_to_the_most(ranks: LineRanks) -> None:
    assert ranks.surely_before(LAST, ASKED_MS, 9) == 3
    assert ranks.surely_before(LAST, ASKED_MS, 2) == 2
    assert ranks.surely_before(ranks.known[LINES[2]], ASKED_MS, 9) == 2
    assert ranks.surely_before(ranks.known[LINES[0]], ASKED_MS, 9) == 0


@pytest.mark.parametrize(
    ("now_ms", "count"),
    [(UNTIL_MS - 1, 3), (UNTIL_MS, 2), (UNTIL_MS + 2, 0), (ASKED_MS - 1, 0)],
)
def test_a_rank_does_not_count_when_its_time_is_over(
    ranks: LineRanks, now_ms: int, count: int
) -> None:
    assert ranks.surely_before(LAST, now_ms, 9) == count


@pytest.mark.parametrize("layers", [0, 1, 2])
def test_a_line_does_not_count_when_it_or_its_owner_has_changed(
    ranks: LineRanks, layers: int
) -> None:
    view = ranks
    for _ in range(layers):
        view = view.layer()
    view.owner_changed("bee")
    assert view.surely_before(LAST, ASKED_MS, 9) == 2
    view.line_changed(LINES[0])
    assert view.surely_before(LAST, ASKED_MS, 9) == 1
    assert view.layer().surely_before(LAST, ASKED_MS, 9) == 1


def test_where_nothing_was_ranked_nothing_is_sure() -> None:
    assert LineRanks().surely_before(LAST, ASKED_MS, 9) == 0
