"""Details of pages: regions, terms of a score, the history of a run, users of a budget."""

from __future__ import annotations

import re
from typing import Any

import pytest
from playwright.sync_api import Page, Route, expect

from tests.bounds import WAIT_S, until
from tests.web.conftest import Visit
from tests.web.world import World

pytestmark = pytest.mark.soak


@pytest.fixture(autouse=True)
def patient() -> None:
    """Let pages take as long as they need on a busy machine."""
    expect.set_options(timeout=WAIT_S * 1_000)


POINTED_AT = """async (canvas) => {
  const { left, top, width, height } = canvas.getBoundingClientRect();
  const found = new Set();
  for (let row = 1; row < 50; row += 1) {
    for (let column = 1; column < 40; column += 1) {
      const clientX = left + (width * column) / 40;
      const clientY = top + (height * row) / 50;
      canvas.dispatchEvent(new PointerEvent("pointermove", { clientX, clientY, bubbles: true }));
      // The note is drawn before the next task begins.
      for (let turn = 0; turn < 3; turn += 1) await new Promise(queueMicrotask);
      const tip = document.querySelector(".tip");
      if (tip) found.add(tip.textContent.split(" ")[0]);
    }
  }
  return [...found];
}"""
"""The nodes named by notes while a pointer crosses the whole map.

The map follows a real pointer once in a frame, so on a busy machine a note would come late.
"""


def _nodes_in_sight(page: Page) -> set[str]:
    return set(page.locator(".map canvas").evaluate(POINTED_AT))


def test_the_map_goes_from_the_fleet_to_a_region_and_to_a_domain(admin: Visit) -> None:
    page = admin.open("fleet")
    whole = _nodes_in_sight(page)
    assert {"a", "b", "n", "s"} <= {name[0] for name in whole}
    choice = page.get_by_label("Zoom to")
    choice.select_option("eu-north")
    region = _nodes_in_sight(page)
    assert {"n1", "n2"} <= region
    # At its edges parts of its neighbours may be visible.
    assert "a1" not in region
    choice.select_option("us-west/c1/B H100")
    near = _nodes_in_sight(page)
    assert {f"b{number}" for number in range(1, 7)} <= near
    assert not near & {"n1", "n2", "s1", "s2"}
    choice.select_option("the whole fleet")
    assert _nodes_in_sight(page) == whole
    assert admin.faults == []


def test_the_map_stays_where_it_is_when_it_is_asked_for_anew(admin: Visit, world: World) -> None:
    page = admin.open("fleet")
    page.get_by_label("Zoom to").select_option("us-west/c1/B H100")
    near = _nodes_in_sight(page)
    with page.expect_response("**/api/v1/map*", timeout=WAIT_S * 1_000), world.client() as client:
        pool = world.get("/pools/shared")
        document = {key: pool[key] for key in ("apiVersion", "kind", "metadata", "spec")}
        document["metadata"] = {"name": "shared"}
        document["spec"] |= {"roundLength": "7m"}
        done = client.post("/api/v1/apply", json={"documents": [document]})
        assert done.status_code == 200, done.text
    page.wait_for_function("() => !document.querySelector('.loading')")
    assert _nodes_in_sight(page) == near


def test_a_run_shows_the_terms_of_its_score_and_who_comes_before_it(
    admin: Visit, world: World
) -> None:
    known = world.get("/runs/ablation/explanation")["queue"]
    page = admin.open("runs/ablation")
    card = page.locator(".card").filter(has_text="Why it waits, and until when")
    expect(card).to_contain_text(f"Its owner has {100 * known['share']:.0f} % of H100")
    for each in known["ahead"]:
        expect(card).to_contain_text(f"{each['runs']} of {each['owner']}")
    page = admin.open("queue")
    row = page.locator("tbody tr").filter(has_text="ablation")
    expect(row.locator(".score small")).to_contain_text("% of")


def test_a_run_shows_its_course_from_its_submission(admin: Visit) -> None:
    page = admin.open("runs/pretrain-7b")
    course = page.locator(".course [role=img]")
    # A node was lost: the run began with 48 GPUs, spares included, and continues with 40.
    expect(course).to_have_attribute(
        "aria-label", re.compile(r"^(waited .*, then )?48 GPUs .*, then 40 GPUs ")
    )
    page = admin.open("runs/ablation")
    expect(page.locator(".course [role=img]")).to_have_attribute(
        "aria-label", re.compile(r"^waited ")
    )


def test_a_budget_shows_who_used_it_and_what_its_owner_borrowed(admin: Visit) -> None:
    page = admin.open("budgets/lab")
    used = page.get_by_role("img", name=re.compile("its owner .*, its family .*, lent to others"))
    expect(used).to_be_visible()
    page = admin.open("budgets/language")
    borrowed = page.locator(".card").filter(has_text="Borrowed by language this month")
    expect(borrowed.locator("tbody tr")).to_have_text(re.compile("lab.*lab/west"))
    page = admin.open("owners/language")
    expect(page.get_by_role("region", name="Borrowed").locator("tbody tr")).to_have_count(1)


def test_the_timeline_is_zoomed_and_moved_by_buttons(admin: Visit) -> None:
    page = admin.open("timeline")
    canvas = page.locator(".gantt canvas")
    expect(canvas).to_be_visible()
    seen = [canvas.evaluate("each => each.toDataURL()")]
    for name in ("Zoom in", "Earlier", "Zoom out", "Later"):
        page.get_by_role("button", name=name, exact=True).click()
        seen.append(canvas.evaluate("each => each.toDataURL()"))
        assert seen[-1] != seen[-2], name


def test_a_note_at_the_right_edge_of_the_timeline_is_not_cut_off(admin: Visit) -> None:
    admin.page.set_viewport_size({"width": 390, "height": 844})
    page = admin.open("timeline")
    canvas = page.locator(".gantt canvas")
    canvas.focus()
    seen = set[str]()

    def every_bar_was_chosen() -> bool:
        page.keyboard.press("ArrowDown")
        tip = page.locator(".tip")
        expect(tip).to_be_visible()
        box, around = tip.bounding_box(), page.locator(".gantt").bounding_box()
        assert box is not None
        assert around is not None
        if "leftwards" in (tip.get_attribute("class") or ""):
            assert box["x"] + box["width"] <= around["x"] + around["width"]
        text = tip.inner_text()
        is_again = text in seen
        seen.add(text)
        return is_again

    until(every_bar_was_chosen, "all bars were chosen")


def test_the_round_of_a_pool_is_found_behind_many_later_events(admin: Visit) -> None:
    asked: list[str] = []

    def without_rounds_at_the_end(route: Route) -> None:
        """Answer as if the last round were further back than one page of events."""
        asked.append(route.request.url)
        answer = route.fetch()
        events: dict[str, Any] = answer.json()
        if "from=" not in route.request.url:
            items = [each for each in events["items"] if not each["tag"].startswith("round-")]
            events["items"] = items[-5:]
        route.fulfill(response=answer, json=events)

    admin.page.route("**/api/v1/ledger/events*", without_rounds_at_the_end)
    page = admin.open("rounds")
    expect(page.locator(".facts")).to_contain_text("max_min_fairness_perf, since")
    assert any("from=" in url for url in asked)
    assert admin.faults == []


def test_the_what_if_slider_asks_for_a_dry_run_and_changes_nothing(
    admin: Visit, world: World
) -> None:
    def concurrency() -> int:
        (envelope,) = world.get("/budgets/audio")["spec"]["envelopes"]
        found: int = envelope["concurrency"]
        return found

    before = concurrency()
    page = admin.open("budgets/audio")
    asked = re.compile(r"/api/v1/budgets/audio\?dryRun=true$")
    with page.expect_request(asked, timeout=WAIT_S * 1_000):
        page.get_by_label("What if it paid for").fill(str(before + 2))
    said = page.locator(".whatif [role=status]")
    expect(said).to_contain_text("It changes nothing for any run now.")
    page.get_by_role("button", name=f"Set it to {before + 2}").click()
    expect(page.get_by_role("dialog")).to_contain_text("quorate patch budget audio --set")
    page.get_by_role("dialog").get_by_role("button", name="Close").click()
    assert concurrency() == before
    page.get_by_role("button", name=f"Set it to {before + 2}").click()
    page.get_by_role("dialog").get_by_role("button", name="Set it").click()
    until(lambda: concurrency() == before + 2, "it is set after a confirmation")
    assert admin.faults == []


def test_a_table_is_saved_as_csv_as_it_is_filtered(admin: Visit) -> None:
    page = admin.open("budgets")
    page.get_by_label("Filter envelopes").fill("lab")
    expect(page.locator("tbody tr")).to_have_count(1)
    with page.expect_download(timeout=WAIT_S * 1_000) as saving:
        page.get_by_role("button", name="Save CSV").click()
    head, row = saving.value.path().read_text("utf-8").splitlines()
    assert head.startswith("Envelope,Owner,Flavor,")
    assert row.startswith("lab/west,lab,H100,")


def test_a_statement_is_printed_without_the_page_around_it(admin: Visit) -> None:
    page = admin.open("owners/language")
    statement = page.get_by_role("region", name="Statement")
    expect(statement).to_be_visible()
    page.emulate_media(media="print", color_scheme="dark")
    assert page.evaluate("getComputedStyle(document.body).color") == "rgb(23, 27, 36)"
    expect(page.get_by_role("navigation", name="Pages")).to_be_hidden()
    expect(page.get_by_role("button", name="Print")).to_be_hidden()
    expect(statement).to_be_visible()
    assert page.pdf().startswith(b"%PDF")
