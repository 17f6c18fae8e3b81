"""The page of ``quorate simulate --report`` in a real browser, from a file, without a network."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pytest
from playwright.sync_api import Browser, Page

from tests.bounds import WAIT_S
from tests.cli.shell import EXAMPLES, process
from tests.web.accessibility import serious_violations

PHONE: Final = (390, 844)
PROJECTOR: Final = (1920, 1080)
POLICIES: Final = ("max_min_fairness_packed", "finish_time_fairness_perf", "fifo_perf")
LETTERS_PX_MIN: Final = 10.5
"""The least size of letters as they are drawn on a phone."""
LETTERS_PX_MIN_FAR: Final = 15.0
"""The least size on a projector, which is read from a distance."""
LETTERS_PX_MAX: Final = 40.0

_MEASURES: Final = """() => {
  const px = element => parseFloat(getComputedStyle(element).fontSize);
  const drawn = [...document.querySelectorAll('svg text')].map(each => {
    const drawing = each.ownerSVGElement;
    return px(each) * drawing.getBoundingClientRect().width / drawing.viewBox.baseVal.width;
  });
  const words = [...document.querySelectorAll('h1, h2, h3, p, td, th, li, summary')].map(px);
  const beyond = [...document.querySelectorAll('svg, h1, h2, h3, p, ul, .wide, summary')]
    .filter(each => each.getBoundingClientRect().right > innerWidth + 1)
    .map(each => each.outerHTML.slice(0, 80));
  const clipped = [...document.querySelectorAll('svg text')].filter(each => {
    const [words, paper] = [each, each.ownerSVGElement].map(one => one.getBoundingClientRect());
    return words.left < paper.left - 1 || words.right > paper.right + 1
      || words.top < paper.top - 1 || words.bottom > paper.bottom + 1;
  }).map(each => each.textContent);
  return {
    clipped,
    letters: [...drawn, ...words],
    beyond,
    width: document.documentElement.scrollWidth,
  };
}"""
_MARKS: Final = """each => [...each.querySelectorAll('polyline, rect, circle')].filter(mark => {
  const {width, height} = mark.getBoundingClientRect();
  return (width > 0 || height > 0) && !getComputedStyle(mark).stroke.includes('var(');
}).length"""


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the page of a comparison of three policies with long names."""
    folder = tmp_path_factory.mktemp("report")
    scenario = {
        "cluster": "v100=8,p100=8,k80=8",
        "throughputs": str(EXAMPLES / "gavel-osdi20" / "rates.json"),
        "generate": "lam=2000,jobs=8,multi=1",
        "round_s": 3_600,
    }
    (folder / "s.yaml").write_text(json.dumps(scenario), encoding="utf-8")
    compared = ("--compare", ",".join(POLICIES), "--seeds", "0-4", "--report", "report.html")
    said = process(folder, "simulate", "s.yaml", *compared)
    assert said.code == 0, said
    return folder / "report.html"


@dataclass
class Reading:
    """The page, and its errors and forbidden requests."""

    page: Page
    faults: list[str] = field(default_factory=list)

    def open(self, file: Path) -> None:
        """Open ``file``; note errors of the console, and every request for anything else."""
        self.page.on("console", lambda message: self.faults.append(f"console: {message.text}"))
        self.page.on("pageerror", lambda error: self.faults.append(f"error: {error}"))
        self.page.on("request", lambda asked: self._asked(asked.url, file))
        self.page.goto(file.as_uri())
        self.page.wait_for_load_state("networkidle")
        for each in self.page.locator("details").all():
            each.locator("summary").click()

    def _asked(self, url: str, file: Path) -> None:
        if url != file.as_uri():
            self.faults.append(f"request: {url}")

    def measures(self) -> dict[str, Any]:
        """Return the sizes of letters, elements wider than the screen, and the page's width."""
        found: dict[str, Any] = self.page.evaluate(_MEASURES)
        return found


@pytest.fixture(params=[PHONE, PROJECTOR], ids=["phone", "projector"])
def reading(
    browser: Browser, report: Path, request: pytest.FixtureRequest
) -> Iterator[tuple[Reading, tuple[int, int]]]:
    """Return the page on a screen, and the size of the screen; the browser has no network."""
    width, height = request.param
    context = browser.new_context(viewport={"width": width, "height": height}, offline=True)
    context.set_default_timeout(WAIT_S * 1_000)
    found = Reading(context.new_page())
    found.open(report)
    yield found, (width, height)
    context.close()


def test_a_report_fits_its_screen_and_asks_for_nothing(
    reading: tuple[Reading, tuple[int, int]],
) -> None:
    read, screen = reading
    found = read.measures()
    assert found["width"] <= screen[0]
    assert found["beyond"] == []
    assert found["clipped"] == []
    least = LETTERS_PX_MIN_FAR if screen == PROJECTOR else LETTERS_PX_MIN
    assert min(found["letters"]) >= least
    assert max(found["letters"]) <= LETTERS_PX_MAX
    assert read.faults == []


def test_every_plot_of_a_report_has_marks(reading: tuple[Reading, tuple[int, int]]) -> None:
    read, _ = reading
    drawings = read.page.locator("svg").all()
    # Four for all policies, three comparisons; and for each policy its shares and its work.
    assert len(drawings) == 4 + 3 + 2 * len(POLICIES)
    for each in drawings:
        assert each.evaluate(_MARKS) > 0, each.get_attribute("aria-label") or each.inner_html()[:80]


def test_wide_tables_scroll_inside_themselves_by_keys(
    reading: tuple[Reading, tuple[int, int]],
) -> None:
    read, screen = reading
    wide = [
        each
        for each in read.page.locator(".wide").all()
        if each.evaluate("each => each.scrollWidth > each.clientWidth")
    ]
    assert (len(wide) > 0) == (screen == PHONE)
    for each in wide:
        each.focus()
        assert each.evaluate("each => document.activeElement === each")
        read.page.keyboard.press("ArrowRight")
        read.page.wait_for_function(
            "each => each.scrollLeft > 0", arg=each.element_handle(), timeout=WAIT_S * 1_000
        )
        assert read.page.evaluate("scrollX") == 0


def test_a_report_can_be_read_without_seeing_it(
    reading: tuple[Reading, tuple[int, int]],
) -> None:
    read, _ = reading
    assert serious_violations(read.page) == []
