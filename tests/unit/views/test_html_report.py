from __future__ import annotations

import re
from dataclasses import replace
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given

from quorate.sim.outcome import Outcome
from quorate.sim.report.compare import compare
from quorate.views.reports.html_report import html_report
from quorate.views.reports.svg_plot import x_scale, y_scale
from tests.oracles.effort import examples
from tests.oracles.outcomes import outcomes

_DRAWING = re.compile(r"<svg .*?</svg>", re.DOTALL)


def _drawings(page: str) -> list[ET.Element]:
    return [ET.fromstring(each) for each in _DRAWING.findall(page)]  # noqa: S314 - our own page


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
        assert "not shown: the interval holds 0" in page or "cost" not in page
    assert page.count("Work by domain: a") <= 2


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
