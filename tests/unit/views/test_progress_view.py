"""Progress of a run from its reports: what is shown, and what is not predicted."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from quorate.ports.step_report import StepReport
from quorate.views.runs.progress_view import (
    FAR_MS,
    figure_text,
    progress_line,
    progress_lines,
    progress_of,
    progress_tree,
    reports_table,
)

NOW_MS = 1_800_000_000_000


def report(step: int, at_s: float, generation: int = 1, **figures: float | None) -> StepReport:
    at_ms = NOW_MS + round(at_s * 1_000)
    return StepReport(step=step, at_ms=at_ms, generation=generation, figures=figures)


def test_a_run_that_reports_its_total_has_a_bar_a_rate_and_an_end() -> None:
    reports = [
        report(step, step / 2, total=400.0, loss=2.0 - step / 400) for step in range(0, 101, 10)
    ]
    found = progress_of(reports, None)
    assert found is not None
    assert progress_lines(found, NOW_MS + 52_000) == [
        "[#####...............] step 100 of 400 (25.0 %), 2 steps/s, loss 1.75",
        "reported 2s ago",
        "last step expected 2027-01-15T08:03:20Z (in 2m 28s), at this rate",
    ]
    assert reports_table(found, NOW_MS + 52_000).splitlines()[-1] == (
        " 100    1.75   2027-01-15T08:00:50Z (2s ago)"
    )


def test_without_a_total_there_is_no_end_and_with_one_report_no_rate() -> None:
    found = progress_of([report(7, 0, loss=None)], None)
    assert found is not None
    assert progress_lines(found, NOW_MS) == ["step 7, loss nan", "reported 0s ago"]
    found = progress_of([report(7, 0), report(9, 4)], None)
    assert found is not None
    assert (found.steps_per_s, found.expected_end_ms) == (0.5, None)


def test_what_a_run_declares_goes_before_what_it_reports() -> None:
    found = progress_of([report(7, 0, total=9.0)], 20)
    assert found is not None
    assert found.total == 20


def test_steps_of_an_earlier_start_say_nothing_about_the_rate() -> None:
    found = progress_of([report(100, 0), report(50, 60, 2), report(60, 65, 2)], 70)
    assert found is not None
    assert (found.steps_per_s, found.expected_end_ms) == (2.0, NOW_MS + 70_000)
    assert progress_of([report(100, 0), report(50, 60, 2)], 70).steps_per_s is None  # type: ignore[union-attr]


def test_figures_have_four_digits() -> None:
    texts = [figure_text(value) for value in (1.73456, 0.00031234, 12_345.6, 0.0, None, -2e20)]
    assert texts == ["1.735", "0.0003123", "12,346", "0", "nan", "-2e+20"]


@given(
    st.lists(
        st.builds(
            StepReport,
            step=st.integers(0, 2**53),
            at_ms=st.integers(0, 7_258_118_400_000),
            generation=st.integers(0, 3),
            figures=st.dictionaries(
                st.sampled_from(["loss", "total", "lr"]), st.none() | st.floats(allow_nan=False)
            ).map(
                lambda found: {
                    name: None if value is None or abs(value) == float("inf") else value
                    for name, value in found.items()
                }
            ),
        ),
        max_size=5,
    ),
    st.none() | st.integers(1, 2**53),
)
def test_anything_that_a_run_reports_can_be_shown(
    reports: list[StepReport], total: int | None
) -> None:
    found = progress_of(reports, total)
    tree = progress_tree("r", found)
    assert len(tree["reports"]) == len(reports)
    if found is not None:
        assert progress_line(found)
        assert progress_lines(found, NOW_MS)
        assert reports_table(found, NOW_MS)
        end_ms = found.expected_end_ms
        assert end_ms is None or reports[-1].at_ms <= end_ms <= reports[-1].at_ms + FAR_MS
