"""The progress that a run reports: steps, rate, figures, expected end. Pure.

Reports of a run are shown, and never used for a decision.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from quorate.documents.times import time_text
from quorate.model.amounts import DAY_MS, SECOND_MS
from quorate.ports.step_report import StepReport
from quorate.views.table import Column, right, table
from quorate.views.word_forms import age, bar, percent, until

TOTAL: Final = "total"
"""The figure by which a run reports its total number of steps."""
FAR_MS: Final = 3_650 * DAY_MS
"""No end is predicted if the remaining steps take longer than this."""
SHOWN_MAX: Final = 5
"""How many reports are shown as text, at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """The last ``reports`` of a run, oldest first, and the rate since the run's last start.

    ``total`` is the number of steps, if known; ``steps_per_s`` is None if the reports show no rate.
    """

    reports: Sequence[StepReport]
    total: int | None
    steps_per_s: float | None
    expected_end_ms: int | None

    @property
    def last(self) -> StepReport:
        """The newest report."""
        return self.reports[-1]


def progress_of(reports: Sequence[StepReport], total: int | None) -> Progress | None:
    """Return the progress that ``reports`` show; None without reports.

    ``total`` is the number of steps that the run declares. If it is None, the reported figure
    ``total`` is used.
    """
    if not reports:
        return None
    last = reports[-1]
    if total is None:
        said = last.figures.get(TOTAL)
        total = int(said) if said is not None and said >= 1 else None
    rate = _rate(reports)
    return Progress(
        reports=reports,
        total=total,
        steps_per_s=rate,
        expected_end_ms=_expected_end_ms(last, total, rate),
    )


def _rate(reports: Sequence[StepReport]) -> float | None:
    """Return the steps per second since the first report after the last start of the run."""
    last = reports[-1]
    first = next(each for each in reports if each.generation == last.generation)
    if last.at_ms <= first.at_ms or last.step <= first.step:
        return None
    return (last.step - first.step) * SECOND_MS / (last.at_ms - first.at_ms)


def _expected_end_ms(last: StepReport, total: int | None, rate: float | None) -> int | None:
    if total is None or rate is None or last.step > total:
        return None
    left_ms = (total - last.step) * SECOND_MS / rate
    return last.at_ms + round(left_ms) if left_ms <= FAR_MS else None


def progress_tree(run: str, found: Progress | None) -> dict[str, Any]:
    """Return the progress of a run for programs; null fields if it has reported nothing."""
    if found is None:
        nothing = dict.fromkeys(("step", "total", "stepsPerSecond", "at", "expectedEnd"))
        return {"run": run, **nothing, "reports": []}
    end_ms = found.expected_end_ms
    return {
        "run": run,
        "step": found.last.step,
        "total": found.total,
        "stepsPerSecond": found.steps_per_s,
        "at": time_text(found.last.at_ms),
        "expectedEnd": None if end_ms is None else time_text(end_ms),
        "reports": [
            {
                "step": each.step,
                "at": time_text(each.at_ms),
                "generation": each.generation,
                "figures": dict(each.figures),
            }
            for each in found.reports
        ],
    }


def progress_line(found: Progress) -> str:
    """Return the newest report in one line: ``step 1,200 of 4,000, 2.5 steps/s, loss 1.73``."""
    last, total = found.last, found.total
    step = f"step {last.step:,}"
    if total is not None:
        step += f" of {total:,} ({percent(min(last.step, total), total)})"
    rate = [] if found.steps_per_s is None else [f"{figure_text(found.steps_per_s)} steps/s"]
    figures = [f"{name} {figure_text(value)}" for name, value in _shown(last.figures).items()]
    return ", ".join([step, *rate, *figures])


def progress_lines(found: Progress, now_ms: int) -> list[str]:
    """Return the newest report with a bar, its age, and when the last step is expected."""
    line = progress_line(found)
    if found.total is not None:
        line = f"{bar(min(found.last.step, found.total), found.total)} {line}"
    lines = [line, f"reported {age(max(0, now_ms - found.last.at_ms))} ago"]
    if found.expected_end_ms is not None:
        lines.append(f"last step expected {until(found.expected_end_ms, now_ms)}, at this rate")
    return lines


def reports_table(found: Progress, now_ms: int) -> str:
    """Return the newest reports as a table with a column for each figure."""
    shown = found.reports[-SHOWN_MAX:]
    names = list(dict.fromkeys(name for each in shown for name in _shown(each.figures)))
    columns = [right("STEP"), *(right(name.upper()) for name in names), Column("REPORTED")]
    rows = [
        [
            f"{each.step:,}",
            *(figure_text(each.figures[name]) if name in each.figures else "-" for name in names),
            f"{time_text(each.at_ms)} ({age(max(0, now_ms - each.at_ms))} ago)",
        ]
        for each in shown
    ]
    return table(columns, rows)


def figure_text(value: float | None) -> str:
    """Return a figure with four significant digits: ``1.734``, ``0.0003``, ``12,300``."""
    if value is None:
        return "nan"
    if abs(value) >= 1_000 and abs(value) < 1e15:  # noqa: PLR2004 - beyond it digits say nothing
        return f"{value:,.0f}"
    return f"{value:.4g}"


def _shown(figures: Mapping[str, float | None]) -> dict[str, float | None]:
    return {name: value for name, value in figures.items() if name != TOTAL}
