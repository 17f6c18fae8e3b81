"""The progress line of a simulation."""

from __future__ import annotations

import io

from quorate.cli.progress import Progress, progress_line


def test_the_line_has_part_count_rate_and_time_left() -> None:
    line = progress_line(0.25, 5_000, "jobs", 10.0)
    assert line == "[######..................]  25%  5,000 jobs, 500/s, 0:30 left"
    assert progress_line(0.0, 0, "jobs", 0.0).endswith("0 jobs, 0/s")
    assert progress_line(0.5, 1, "jobs", 7_200.0).endswith("2:00:00 left")


def test_nothing_is_shown_where_there_is_no_terminal() -> None:
    out = io.StringIO()
    with Progress("jobs", out) as progress:
        progress.show(0.5, 10)
    assert not out.getvalue()
