from __future__ import annotations

import re
from dataclasses import replace
from itertools import pairwise
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given

from quorate.sim.outcome import CapacityStep, Outcome, SimulatedRun, WaitCause
from quorate.sim.report.compare import compare
from quorate.views.reports.html_report import html_report
from quorate.views.reports.report_plots import completion_plot
from quorate.views.reports.svg_plot import duration_ticks, number_text, x_scale, y_scale
from tests.oracles.effort import examples
from tests.oracles.outcomes import outcomes

_DRAWING = re.compile(r"<svg .*?</svg>", re.DOTALL)


def _drawings(page: str) -> list[ET.Element]:
    return [ET.fromstring(each) for each in _DRAWING.findall(page)]  # noqa: S314 - our own page


@pytest.mark.heavy
@examples(0.5)
@given(outcomes())
def test_every_drawing_is_well_formed_and_stays_on_its_paper(outcome: Outcome) -> None:
    for drawing in _drawings(html_report([outcome], title="t")):
        _, _, width, height = map(float, drawing.attrib["viewBox"].split())
        for element in drawing.iter():
            for name in ("x", "cx", "x1", "x2", "y", "cy", "y1", "y2"):
                limit = width if "x" in name else height
                if name in element.attrib:
                    assert 0 <= float(element.attrib[name]) <= limit, element.attrib


@examples(0.2)
@given(outcomes())
def test_a_page_fetches_nothing_and_runs_nothing(outcome: Outcome) -> None:
    page = html_report([outcome], title="t")
    assert re.findall(r"https?://[^\"]*", page) in (
        [],
        ["http://www.w3.org/2000/svg"] * page.count("<svg"),
    )
    assert not re.search(r"<script|<link|<img|@import|url\(|src=", page)


def _named(outcome: Outcome, name: str) -> Outcome:
    runs = tuple(replace(run, name=f"{run.name}{name}", owner=name) for run in outcome.runs)
    return replace(outcome, name=name, runs=runs)


@pytest.mark.heavy
@examples(0.2)
@given(outcomes())
def test_names_are_shown_and_never_read_as_markup(outcome: Outcome) -> None:
    page = html_report([_named(outcome, "<b>&\"'")], title="<i>")
    assert "<b>" not in page
    assert "<i>" not in page.replace("<i ", "")
    assert "&lt;b&gt;&amp;" in page


@pytest.mark.heavy
@examples(0.2)
@given(outcomes())
def test_a_comparison_names_both_policies_and_what_is_not_shown(outcome: Outcome) -> None:
    every = [replace(outcome, name=name, seed=seed) for name in "ab" for seed in range(5)]
    page = html_report(every, title="t", comparison=compare(every))
    assert "Comparison" in page
    if any(run.cost for run in outcome.runs):
        assert "not significant: the interval contains 0" in page or "cost" not in page
    assert page.count("Work by domain: a") <= 2


def _done(name: str, took_ms: int, cost: float = 0.0) -> SimulatedRun:
    return SimulatedRun(name=name, owner="a", gpus=1, submitted_ms=0, started_ms=0,
                        ended_ms=took_ms, intervals=(), ideal_ms=1, cost=cost)  # fmt: skip


def _outcome(*runs: SimulatedRun) -> Outcome:
    return Outcome(name="p", seed=0, started_ms=0, ended_ms=9_000, capacity=(), runs=runs)


def test_completion_times_are_steps_over_a_logarithmic_axis() -> None:
    plot = completion_plot([_outcome(_done("one", 1_000), _done("two", 9_000))])
    assert plot is not None
    assert "completion time (logarithmic)" in plot.svg
    (line,) = re.findall(r'<polyline class="line" .* points="([^"]*)"', plot.svg)
    points = [tuple(map(float, each.split(","))) for each in line.split()]
    assert len(points) == 4
    assert all(x1 == x2 or y1 == y2 for (x1, y1), (x2, y2) in pairwise(points))


def test_a_cost_is_shown_if_there_are_prices() -> None:
    assert "<td>cost</td>" not in html_report([_outcome(_done("one", 1_000))], title="t")
    assert "<td>cost</td>" in html_report([_outcome(_done("one", 1_000, 2.5))], title="t")


@pytest.mark.parametrize(
    ("low", "high", "ticks"),
    [
        (0, 1, [0, 0.2, 0.4, 0.6, 0.8, 1.0]),
        (0, 104.9, [0, 25, 50, 75, 100]),
        (-150, 150, [-100, 0, 100]),
        (0, 0, [0, 0.2, 0.4, 0.6, 0.8, 1.0]),
    ],
)
def test_ticks_are_round(low: float, high: float, ticks: list[float]) -> None:
    assert x_scale(low, high).ticks() == pytest.approx(ticks)
    assert y_scale(low, high).ticks() == pytest.approx(ticks)


def test_ticks_of_a_logarithmic_scale_are_powers_of_ten() -> None:
    assert x_scale(30, 40_000, is_log=True).ticks() == [100, 1_000, 10_000]
    assert x_scale(7, 7, is_log=True).ticks() == [10]


def test_large_numbers_are_labelled_in_digits() -> None:
    assert [number_text(each) for each in (0.25, 900, 10_000, 250_000)] == [
        "0.25",
        "900",
        "10,000",
        "250,000",
    ]
    assert number_text(2e7) == "2e7"


@pytest.mark.parametrize(
    ("low_s", "high_s", "labels"),
    [
        (30, 40_000, ["1 min", "10 min", "1 h", "10 h"]),
        (700, 40_000, ["20 min", "1 h", "2 h", "5 h", "10 h"]),
        (1, 8_640_000, ["1 s", "10 s", "1 min", "10 min", "1 h", "10 h", "10 d", "100 d"]),
        (61, 65, ["61 s"]),
    ],
)
def test_durations_have_labels_in_their_own_units(
    low_s: float, high_s: float, labels: list[str]
) -> None:
    assert [label for _, label in duration_ticks(x_scale(low_s, high_s, is_log=True))] == labels


def test_names_that_differ_in_their_ends_are_told_apart() -> None:
    alike = ("max_min_fairness_perf", "max_min_fairness_packed")
    page = html_report([_waiting(name) for name in alike], title="t")
    labels = re.findall(r">([^<>]*…[^<>]*)</text>", page)
    assert labels == ["max_min…ss_perf", "max_min…_packed"]


def _waiting(name: str) -> Outcome:
    """Return an outcome in which a run waited all the time."""
    run = SimulatedRun(
        name="r",
        owner="o",
        gpus=1,
        submitted_ms=0,
        started_ms=None,
        ended_ms=None,
        intervals=(),
        ideal_ms=1,
        waits_ms={WaitCause.ROUNDS: 3_600_000},
    )
    capacity = (CapacityStep(at_ms=0, flavor="v100", gpus=1),)
    return Outcome(
        name=name, seed=0, started_ms=0, ended_ms=3_600_000, capacity=capacity, runs=(run,)
    )
