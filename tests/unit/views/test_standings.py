"""Places in the queue, quotas and shares, in words and numbers."""

from __future__ import annotations

from decimal import Decimal

import pytest

from quorate.core.admission.quota_holders import Holder, QuotaInTheWay
from quorate.core.tenancy.queue_position import Ahead, Because, Standing
from quorate.core.tenancy.share_score import ONE, Terms
from quorate.model.refusal import RefusalCode
from quorate.testing.builders import NOW_MS
from quorate.views.numbers import share_number
from quorate.views.runs.explanation_view import quota_lines
from quorate.views.runs.position_view import (
    AHEAD_MAX,
    budget_line,
    score_cell,
    score_text,
    standing_lines,
    used_text,
)

TERMS = Terms(
    used=None,
    penalty=ONE,
    instant=ONE // 2,
    decayed=ONE // 4,
    share=ONE * 3 // 8,
    target=ONE // 2,
    utilisation=ONE,
    effective=ONE // 2,
    score=ONE // 4,
)


def standing(*ahead: Ahead, eligible_since_ms: int | None = NOW_MS) -> Standing:
    runs = sum(each.runs for each in ahead)
    return Standing(
        report=None,
        position=runs + 1,
        length=runs + 1,
        owner="red",
        flavor="H100",
        terms=TERMS,
        is_stated=False,
        eligible_since_ms=eligible_since_ms,
        ahead=ahead,
    )


def ahead(owner: str, because: Because, runs: int = 1) -> Ahead:
    return Ahead(owner=owner, flavor="H100", because=because, runs=runs, terms=TERMS)


@pytest.mark.parametrize(
    ("parts", "number"),
    [
        (0, "0.000000"),
        (ONE, "1.000000"),
        (ONE // 2, "0.500000"),
        (ONE // 3, "0.333333"),
        (ONE * 2 // 3, "0.666667"),
        (ONE - 1, "1.000000"),
        (150_000 * ONE // 1_000_000, "0.150000"),
        (ONE * 5 // 2, "2.500000"),
    ],
)
def test_a_part_is_a_number_with_six_digits_halves_rounded_up(parts: int, number: str) -> None:
    assert str(share_number(parts)) == number
    assert share_number(parts) == Decimal(number)


@pytest.mark.parametrize(
    ("used", "text"),
    [(None, "-"), (0, "0.0 %"), (ONE - 1, "99.9 %"), (ONE, "100.0 %"), (ONE * 4 // 3, "133.3 %")],
)
def test_use_is_rounded_down_so_that_all_of_it_means_all(used: int | None, text: str) -> None:
    assert used_text(used) == text


def test_a_score_has_four_digits_and_says_who_comes_last_anyway() -> None:
    assert [score_text(parts) for parts in (0, ONE // 3, ONE)] == ["0.0000", "0.3333", "1.0000"]
    assert score_cell(TERMS) == "0.2500"
    over = Terms(
        **{field: getattr(TERMS, field) for field in TERMS.__struct_fields__} | {"used": ONE}
    )
    assert score_cell(over) == "0.2500 over"


@pytest.mark.parametrize(
    ("used", "line"),
    [
        (None, "red has no budget of hours (gpuHoursBudget)"),
        (ONE * 8 // 10, "red has used 79.9 % of its budget: its score is not reduced yet"),
        (ONE * 9 // 10, "red has used 89.9 % of its budget: 52.5 % of its score is left"),
        (ONE, "red has used 100.0 % of its budget: owners within their budgets go first"),
    ],
)
def test_a_budget_is_told_with_what_it_costs(used: int | None, line: str) -> None:
    assert budget_line("red", used) == line


def test_a_place_is_told_in_four_lines() -> None:
    found = standing(
        ahead("blue", Because.SCORE, 2),
        ahead("green", Because.WAITS_LONGER),
        ahead("grey", Because.SUBMITTED_BEFORE),
    )
    assert standing_lines(found, NOW_MS + 2_000) == [
        "red has no budget of hours (gpuHoursBudget)",
        (
            "it has 37.5 % of H100 (50.0 % now, 25.0 % lately); its target is 50.0 % (an equal "
            "part); 100.0 % of H100 is in use"
        ),
        "score 0.2500, step 8 of 32; waiting since 2023-11-14T22:13:20Z (2s ago)",
        (
            "ahead of it: 2 runs of blue (score 0.2500, step 8), 1 run of green (waiting longer), "
            "1 run of grey (submitted before)"
        ),
    ]


def test_a_follower_is_not_in_line_yet() -> None:
    lines = standing_lines(standing(eligible_since_ms=None), NOW_MS)
    assert lines[2:] == ["score 0.2500, step 8 of 32; it waits for others", "no run is ahead of it"]


def test_of_many_ahead_a_handful_is_told_apart() -> None:
    others = [ahead(f"o{n}", Because.WITHIN_BUDGET, runs=n + 1) for n in range(AHEAD_MAX + 2)]
    line = standing_lines(standing(*others), NOW_MS)[-1]
    assert line.startswith("ahead of it: 1 run of o0 (not over a budget), 2 runs of o1 ")
    assert line.endswith(", 13 more")


def test_a_quota_is_told_with_its_numbers_and_holders() -> None:
    found = QuotaInTheWay(
        code=RefusalCode.MAX_CONCURRENT_RUNS,
        tenant="org",
        current=7,
        wanted=1,
        limit=7,
        holders=(Holder(run="a", owner="red", nodes=1, gpus=1),),
        others=6,
    )
    assert quota_lines(found) == [
        "maxConcurrentRuns of tenant org: 7 running runs of 7 in use, 1 more wanted",
        "  run/a of red: 1 GPU on 1 node",
        "  and 6 more runs",
    ]
