"""What pages show: likely starts, reserved GPUs, checkpoints, local times, keys."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import UTC, datetime
from time import time_ns
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, FilePayload, Page, Route, expect

from tests.bounds import WAIT_S, until
from tests.oracles.effort import sized
from tests.web.conftest import Visit, visit
from tests.web.world import REPORT, World

pytestmark = pytest.mark.soak

INSTANT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d")


@pytest.fixture(autouse=True)
def patient() -> None:
    """Let pages take as long as they need on a busy machine."""
    expect.set_options(timeout=WAIT_S * 1_000)


def cell(page: Page, run: str, title: str) -> str:
    """Return the cell of ``run`` in the column ``title``."""
    row = page.locator("tbody tr").filter(has=page.get_by_role("link", name=run, exact=True))
    return row.locator(f'td[data-label="{title}"]').inner_text()


def test_the_queue_shows_when_half_and_nine_of_ten_have_started(admin: Visit, world: World) -> None:
    known = {each["run"]: each for each in world.get("/queue/starts")["items"]}
    named = next(run for run, each in known.items() if each["p50Start"])
    page = admin.open("queue")
    until(lambda: "P90" in cell(page, named, "Starts"), "the likely start is shown")
    state = known[named]["planState"]
    assert re.search(rf"in .+ {state}\s+P50 .+, P90 .+", cell(page, named, "Starts"))
    assert admin.faults == []


def test_the_fleet_shows_what_firm_starts_have_of_each_domain(admin: Visit, world: World) -> None:
    firm = [
        each["status"]["slice"]
        for each in world.get("/reservations")["items"]
        if each["status"]["state"] == "Firm"
    ]
    reserved: dict[str, int] = {}
    for place in firm:
        for part in place["domains"]:
            reserved[part["domain"]] = reserved.get(part["domain"], 0) + part["gpus"]
    assert reserved
    page = admin.open("fleet")
    for domain, gpus in reserved.items():
        row = page.locator("tbody tr").filter(has_text=domain)
        expect(row.locator('td[data-label="Reserved"]')).to_have_text(str(gpus))


def test_a_checkpoint_is_signed_kept_and_compared(admin: Visit) -> None:
    page = admin.open("ledger")
    with page.expect_download() as saving:
        page.get_by_role("button", name="Sign a checkpoint").click()
    kept = json.loads(saving.value.path().read_text(encoding="utf-8"))
    expect(page.locator(".verdict")).to_contain_text(kept["hash"])
    check = page.get_by_label("Check one that was kept")
    for change, told in (({}, "The ledger agrees"), ({"hash": "00" * 32}, "It does not agree")):
        content = json.dumps(kept | change).encode()
        file = FilePayload(name="kept.json", mimeType="application/json", buffer=content)
        check.set_input_files(files=[file])
        expect(page.locator(".verdict")).to_contain_text(told)


def test_times_in_sentences_are_in_the_zone_of_the_viewer(browser: Browser, world: World) -> None:
    context = browser.new_context(timezone_id="Asia/Kolkata", locale="en-GB")
    context.set_default_timeout(WAIT_S * 1_000)
    try:
        seen = visit(context, world, world.admin)
        for path in ("", "ledger", "runs/segment"):
            page = seen.open(path)
            page.wait_for_timeout(300)
            assert INSTANT.findall(page.inner_text("main")) == [], path
        event = next(
            each
            for each in world.get("/ledger/events?limit=200")["items"]
            if INSTANT.search(each["text"])
        )
        page = seen.open(f"ledger?from={event['seq']}")
        row = page.locator("tbody tr").filter(has_text=f"{event['seq']:,}").first
        shown = row.locator("summary time").first
        expect(shown).to_have_attribute("title", re.compile(r"GMT\+5:30"))
    finally:
        context.close()


def test_rows_are_reached_by_arrows_and_opened_by_enter(admin: Visit) -> None:
    page = admin.open("runs")
    page.get_by_role("region", name="runs").focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    second = page.locator("tbody tr").nth(1)
    expect(second).to_be_focused()
    name = second.locator("a.name").inner_text()
    page.keyboard.press("Home")
    expect(page.locator("tbody tr").first).to_be_focused()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text(name)


def test_the_palette_finds_every_page(admin: Visit) -> None:
    page = admin.open("")
    links = page.get_by_role("navigation", name="Pages").locator("ul a")
    palette = page.get_by_role("dialog", name="Go to")
    for title in links.all_inner_texts():
        page.keyboard.press("Control+k")
        expect(palette.get_by_role("combobox")).to_be_focused()
        page.keyboard.type(title)
        expect(palette.get_by_role("option").first).to_contain_text(title)
        page.keyboard.press("Enter")
        expect(palette).to_have_count(0)
        expect(page.get_by_role("heading", level=1)).to_have_text(title)
    for kind, name in (("owner", "robotics"), ("budget", "robotics"), ("conflict", "1")):
        page.keyboard.press("Control+k")
        expect(palette.get_by_role("combobox")).to_be_focused()
        page.keyboard.type(name)
        words = re.compile(rf"^\s*{name}\s*{kind}$")
        option = palette.get_by_role("option").filter(has_text=words)
        expect(option.first).to_be_visible()
        page.keyboard.press("Escape")
        expect(palette).to_have_count(0)
    assert admin.faults == []


def test_the_palette_misses_no_key_however_soon_it_is_pressed(admin: Visit) -> None:
    page = admin.open("")
    palette = page.get_by_role("dialog", name="Go to")
    queue = page.get_by_role("link", name="Queue", exact=True)
    queue.focus()
    for _ in range(sized(10, 200)):
        page.keyboard.press("Control+k")
        page.keyboard.type("nothing")
        page.keyboard.press("Escape")
    expect(queue).to_be_focused()
    expect(palette).to_have_count(0)
    page.keyboard.press("Control+k")
    page.keyboard.type("fleet")
    expect(palette.get_by_role("combobox")).to_have_value("fleet")
    page.keyboard.press("Enter")
    page.keyboard.press("Control+k")
    page.keyboard.type("ledger")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("Ledger")
    expect(palette).to_have_count(0)
    assert admin.faults == []


CLOSE_AND_OPEN = """async () => {
  document.querySelector("dialog[open]").close();
  const keys = { key: "k", ctrlKey: true, bubbles: true };
  document.body.dispatchEvent(new KeyboardEvent("keydown", keys));
  for (let frame = 0; frame < 3; frame++) await new Promise(requestAnimationFrame);
}"""
"""A browser reports the close event in the next frame."""


def test_a_palette_that_is_opened_in_the_frame_in_which_one_was_closed_stays(admin: Visit) -> None:
    page = admin.open("")
    box = page.get_by_role("dialog", name="Go to").get_by_role("combobox")
    page.keyboard.press("Control+k")
    page.keyboard.type("fleet")
    expect(box).to_have_value("fleet")
    page.evaluate(CLOSE_AND_OPEN)
    expect(box).to_have_value("")
    expect(box).to_be_focused()
    assert admin.faults == []


def test_the_map_and_the_timeline_are_worked_by_keys(admin: Visit) -> None:
    page = admin.open("fleet")
    page.get_by_label("Find a node").fill("a1")
    page.keyboard.press("Enter")
    expect(page.locator(".panel h2")).to_have_text("a1")
    page = admin.open("timeline")
    page.mouse.move(0, 0)  # A result below the pointer is selected, too.
    page.locator(".gantt canvas").focus()
    page.keyboard.press("ArrowDown")
    name = page.locator(".tip").inner_text().split()[0]
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text(name)


def _drawn(page: Page, x: float, y: float) -> int:
    """Return how opaque the timeline is to the right of a position: 0 if nothing is drawn there.

    A mark of the axis, which may be anywhere, is narrower than this area.
    """
    found: int = page.evaluate(
        """([x, y]) => Math.min(...document.querySelector(".gantt canvas").getContext("2d")
            .getImageData((x + 2) * devicePixelRatio, y * devicePixelRatio, 6 * devicePixelRatio, 1)
            .data.filter((_, at) => at % 4 === 3))""",
        [x, y],
    )
    return found


def _fleet_of(runs: list[str]) -> dict[str, Any]:
    """Return a map of one domain in which each of ``runs`` has a node and works for two hours."""
    now_ms, hour_ms = time_ns() // 1_000_000, 3_600_000
    count = len(runs)
    return {
        "sequence": 1,
        "nodes": {
            "name": [f"n-{run}" for run in runs],
            "domain": ["r/c/d"] * count,
            "flavor": ["H100"] * count,
            "pool": ["default"] * count,
            "gpus": [8] * count,
            "status": ["Ready"] * count,
        },
        "leases": {
            "name": [f"{run}/0" for run in runs],
            "run": runs,
            "owner": ["vision"] * count,
            "role": ["Active"] * count,
            "startMs": [now_ms - hour_ms] * count,
            "untilMs": [now_ms + 2 * hour_ms] * count,
        },
        "held": {"node": [*range(count)], "lease": [*range(count)], "gpus": [8] * count},
    }


def _show(page: Page, fleet: Callable[[], Any], planned: list[Any]) -> None:
    """Let the timeline show ``fleet`` and the starts in ``planned``, and nothing that is over."""
    page.route("**/api/v1/map*", lambda route: route.fulfill(json=fleet()))
    page.route("**/api/v1/reservations*", lambda route: route.fulfill(json={"items": planned}))
    page.route("**/api/v1/ledger/events*", lambda route: route.fulfill(json={"items": []}))


def test_the_chosen_bar_of_the_timeline_stays_chosen_when_more_is_recorded(
    admin: Visit, world: World
) -> None:
    runs = ["b", "c", "d"]
    _show(admin.page, lambda: _fleet_of(runs), [])
    page = admin.open("timeline")
    bars, tip = page.locator(".gantt canvas"), page.locator(".tip")
    expect(bars).to_have_attribute("aria-label", re.compile("^3 leases"))
    page.mouse.move(0, 0)
    bars.focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    expect(tip).to_contain_text("c of vision")
    runs.insert(0, "a")
    with world.client() as client:
        # An event about a node, after which the timeline sends new requests.
        assert client.post("/api/v1/nodes/n1/cordon", json={}).status_code == 200
        expect(bars).to_have_attribute("aria-label", re.compile("^4 leases"))
        assert client.post("/api/v1/nodes/n1/uncordon", json={}).status_code == 200
    expect(tip).to_contain_text("c of vision")
    page.keyboard.press("ArrowDown")
    expect(tip).to_contain_text("d of vision")
    runs.remove("d")
    with world.client() as client:
        assert client.post("/api/v1/nodes/n1/cordon", json={}).status_code == 200
        expect(bars).to_have_attribute("aria-label", re.compile("^3 leases"))
        assert client.post("/api/v1/nodes/n1/uncordon", json={}).status_code == 200
    expect(tip).to_have_count(0)
    assert admin.faults == []


def test_planned_work_hides_no_running_work_on_the_timeline(admin: Visit) -> None:
    """A full domain, with a start that is planned before its present work must end."""
    page = admin.page
    now_ms = time_ns() // 1_000_000
    hour_ms = 3_600_000
    start = datetime.fromtimestamp((now_ms + hour_ms) / 1_000, UTC).isoformat()
    status = {
        "state": "Firm",
        "plannedStart": start,
        "slice": {"flavor": "H100", "domains": [{"domain": "r/c/d", "gpus": 8}]},
        "payers": [{"holdMsPerGPU": 2 * hour_ms}],
    }
    planned = {"metadata": {"name": "next@1"}, "spec": {"runRef": {"name": "next"}}}
    fleet = _fleet_of(["works"])
    _show(page, lambda: fleet, [planned | {"status": status}])
    page = admin.open("timeline")
    page.locator(".gantt canvas").focus()
    places: dict[str, tuple[float, float]] = {}

    def look() -> bool:
        page.keyboard.press("ArrowDown")
        words, left, top = page.locator(".tip").evaluate(
            "tip => [tip.innerText, parseFloat(tip.style.left), parseFloat(tip.style.top)]"
        )
        places[words.split()[0]] = left - 14, top - 14
        return len(places) == 2

    until(look, "both bars were chosen")
    assert set(places) == {"works", "next"}
    assert admin.faults == []
    (works_x, works_y), (next_x, next_y) = places["works"], places["next"]
    assert _drawn(page, works_x, works_y + 3) == 255
    assert _drawn(page, next_x, works_y + 3) == 255, "the running bar goes on beside the plan"
    assert next_y > works_y
    assert _drawn(page, next_x, next_y + 3) == 0, "a hollow bar, with nothing behind it"


def test_runs_are_listed_from_the_newest_to_the_first_page_by_page(
    admin: Visit, world: World
) -> None:
    runs = world.get("/runs?newest=true&limit=4")["items"]
    assert len(runs) == 4
    names = [each["metadata"]["name"] for each in runs]

    def pages(route: Route) -> None:
        is_first = "cursor=" not in route.request.url
        page = {"items": runs[2:], "next": names[2]} if is_first else {"items": runs[:2]}
        route.fulfill(json=page)

    admin.page.route("**/api/v1/runs?*", pages)
    page = admin.open("runs")
    shown = page.locator("tbody tr a.name")
    expect(shown).to_have_text([names[3], names[2]])
    page.get_by_role("button", name="Show 100 more").click()
    expect(shown).to_have_text(names[::-1])
    assert admin.faults == []


def test_an_owner_shows_its_share_against_its_target_over_time(admin: Visit, world: World) -> None:
    (known,) = world.get("/owners/language/shares?days=1")["flavors"]
    assert known["shares"][-1] > 0
    page = admin.open("owners/language?days=1")
    chart = page.get_by_role("img", name=re.compile(r"^H100: .* in the last hour or so, target"))
    expect(chart).to_be_visible()
    expect(chart.locator("canvas")).to_be_visible()
    page.get_by_label("Days").select_option("30")
    expect(page).to_have_url(re.compile("days=30"))
    assert admin.faults == []


def test_a_report_of_a_simulation_is_listed_and_shown(admin: Visit) -> None:
    page = admin.open("reports")
    page.get_by_role("link", name=REPORT).click()
    report = page.get_by_role("region", name="Report")
    expect(report.get_by_role("heading", name="Simulation")).to_be_visible()
    expect(report.locator("svg").first).to_be_visible()
    expect(report.locator(".legend i").first).to_have_css("display", "inline-block")
    assert admin.faults == []


HOSTILE = """<html><head><style>body { color: red } nav { display: none }</style></head><body>
<h1>Hostile</h1><script>document.title = "owned"</script><iframe src="/queue"></iframe>
<p onclick="document.title = 'owned'" id="hit">Click</p><a href="javascript:alert(1)">link</a>
<img src="https://elsewhere.example/x.png" onerror="document.title = 'owned'"><form></form>
</body></html>"""


def test_a_report_brings_neither_script_nor_request_nor_style_of_the_page(admin: Visit) -> None:
    page = admin.open("reports")

    def forged(route: Route) -> None:
        told = {"name": REPORT, "written": "2026-01-01T00:00:00Z", "html": HOSTILE}
        route.fulfill(json=told)

    page.route(f"**/api/v1/reports/{REPORT}", forged)
    page.get_by_role("link", name=REPORT).click()
    report = page.get_by_role("region", name="Report")
    report.get_by_text("Click").click()
    expect(page).not_to_have_title("owned")
    expect(page.get_by_role("navigation", name="Pages")).to_be_visible()
    assert report.locator("script, iframe, a, img, form, [onclick], [id]").count() == 0
    assert admin.faults == []


def test_reports_are_not_for_members(context: BrowserContext, world: World) -> None:
    page = visit(context, world, world.user).open("reports")
    expect(page.locator(".empty")).to_contain_text("for admins and auditors")
