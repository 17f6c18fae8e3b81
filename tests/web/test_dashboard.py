"""The dashboard in a real browser, over a real service with real work."""

from __future__ import annotations

import json
import re
import sys
from typing import Any

import pytest
from playwright.sync_api import BrowserContext, FilePayload, Page, Route, expect

from tests.bounds import WAIT_S, until
from tests.oracles.effort import IS_SOAK, few_of
from tests.web.accessibility import serious_violations
from tests.web.browsing import sign_in
from tests.web.conftest import Visit, visit
from tests.web.prefix_proxy import proxied
from tests.web.world import REPORT, World, run_document

PATIENT_MS = WAIT_S * 1_000
PAGES = {
    "": "Overview",
    "queue": "Queue",
    "runs": "Runs",
    "runs/pretrain-7b": "pretrain-7b",
    "fleet": "Fleet",
    "timeline": "Timeline",
    "owners": "Owners",
    "owners/language": "language",
    "budgets": "Budgets",
    "budgets/language": "language",
    "rounds": "Rounds",
    "conflicts": "Conflicts",
    "ledger": "Ledger",
    "reports": "Reports",
}
HIDDEN = re.compile(r"\b(robotics|segment|distill|sweep|biology|fold-\w|audio|reporting)\b")
"""Names of other tenants that a member of ``language`` must not see."""
DRAWN = re.compile(r"\b(vision|speech|detect|listen|grasp)\b")
"""Names of other tenants that a conflict has published so that everyone can repeat its draw."""


@pytest.fixture(autouse=True)
def patient() -> None:
    """Let pages take as long as they need on a busy machine."""
    expect.set_options(timeout=PATIENT_MS)


def role_of(world: World, role: str) -> str:
    return {"admin": world.admin, "user": world.user, "auditor": world.auditor}[role]


@pytest.mark.parametrize("role", few_of(["admin", "user", "auditor"], 1))
def test_every_page_shows_its_subject_without_a_fault(
    role: str, context: BrowserContext, world: World
) -> None:
    seen = visit(context, world, role_of(world, role))
    for path, title in PAGES.items():
        page = seen.open(path)
        expect(page.get_by_role("heading", level=1)).to_have_text(title)
        expect(page.locator(".fault")).to_have_count(0)
    assert seen.faults == []


def test_a_member_reads_nothing_of_other_tenants(context: BrowserContext, world: World) -> None:
    seen = visit(context, world, world.user)
    for path in [*PAGES, "conflicts/1"]:
        page = seen.open(path)
        page.wait_for_timeout(300)
        text = page.inner_text("main")
        assert HIDDEN.findall(text) == [], path
        # The overview and the ledger show events, including those of conflicts.
        if path and not path.startswith(("conflicts", "ledger")):
            assert DRAWN.findall(text) == [], path
    page = seen.open("fleet")
    expect(page.locator(".owners")).to_contain_text("(others)")


def test_a_page_of_another_tenants_run_is_not_there(context: BrowserContext, world: World) -> None:
    seen = visit(context, world, world.user)
    page = seen.open("runs/detect")
    expect(page.get_by_role("alert").first).to_contain_text("there is no run 'detect'")


def test_a_wrong_token_is_refused_and_signing_out_ends_the_session(
    context: BrowserContext, world: World
) -> None:
    page = context.new_page()
    page.goto(world.served.url)
    page.get_by_label("Access token").fill("qt_no_such")
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("alert")).to_contain_text("access token is not known")
    page.get_by_label("Access token").fill(world.user)
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("navigation", name="Pages")).to_contain_text("user of language")
    (cookie,) = context.cookies()
    assert cookie.get("httpOnly")
    assert page.evaluate("document.cookie") == ""
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_label("Access token")).to_be_visible()
    assert context.cookies() == []


def test_a_lottery_drawn_in_the_browser_is_that_of_the_ledger(admin: Visit, world: World) -> None:
    (outcome,) = [
        each for each in world.get("/resolver/outcomes")["items"] if each["status"]["seed"]
    ]
    page = admin.open(f"conflicts/{outcome['metadata']['name']}")
    page.get_by_role("button", name="Draw again here").click()
    verdict = page.locator(".verdict")
    expect(verdict).to_contain_text("The same draw.")
    expect(verdict).to_contain_text(outcome["status"]["draws"][0]["run"])
    expect(verdict.locator("code")).to_have_text(outcome["status"]["seed"])
    assert admin.faults == []


def _other_draw(events: dict[str, Any]) -> None:
    (resolved,) = [each for each in events["items"] if each["tag"].startswith("conflict-resolved")]
    (declared,) = [each for each in events["items"] if each["tag"].startswith("conflict-declared")]
    drawn = resolved["draws"][0][1]
    owner, run = next((each[0], each[1]) for each in declared["tokens"] if each[1] != drawn)
    resolved["draws"][0][:2] = [owner, run]


def _other_nonce(events: dict[str, Any]) -> None:
    (declared,) = [each for each in events["items"] if each["tag"].startswith("conflict-declared")]
    declared["tokens"][0][3] = "00"


def _other_link(events: dict[str, Any]) -> None:
    (resolved,) = [each for each in events["items"] if each["tag"].startswith("conflict-resolved")]
    resolved["preimage"] = resolved["preimage"][::-1]


@pytest.mark.soak
@pytest.mark.parametrize("forge", few_of([_other_draw, _other_nonce, _other_link], 1))
def test_a_forged_draw_is_found_in_the_browser(forge: Any, admin: Visit) -> None:
    def forged(route: Route) -> None:
        answer = route.fetch()
        events = answer.json()
        forge(events)
        route.fulfill(response=answer, json=events)

    page = admin.open("conflicts/1")
    page.route("**/api/v1/ledger/events?about=*", forged)
    page.get_by_role("button", name="Draw again here").click()
    expect(page.locator(".verdict")).to_contain_text("Not the same.")


def test_this_ledger_verifies_in_the_browser(admin: Visit) -> None:
    page = admin.open("ledger")
    page.get_by_role("button", name="Check this ledger here").click()
    expect(page.locator(".verdict")).to_contain_text("this ledger verifies")
    expect(page.locator(".verdict")).to_contain_text("1 lotteries drawn again")


def _edits(lines: list[str]) -> dict[str, list[str]]:
    """Return exports with one change each."""
    middle = len(lines) // 2
    block = json.loads(lines[middle])
    actor = json.dumps(block | {"events": [block["events"][0] | {"actor": "eve"}]})
    body = json.dumps(
        block
        | {
            "body": ("A" if block["body"][8] != "A" else "B").join(
                (block["body"][:8], block["body"][9:])
            )
        }
    )
    return {
        "events": [*lines[:middle], actor, *lines[middle + 1 :]],
        "body": [*lines[:middle], body, *lines[middle + 1 :]],
        "missing": [*lines[:middle], *lines[middle + 1 :]],
        "swapped": [*lines[:middle], lines[middle + 1], lines[middle], *lines[middle + 2 :]],
        "no json": [*lines[:-1], "{"],
        "empty": [],
    }


def _choose(page: Page, name: str, lines: list[str]) -> None:
    content = "".join(f"{line}\n" for line in lines).encode()
    file = FilePayload(name=name, mimeType="application/x-ndjson", buffer=content)
    page.get_by_label("Check an export").set_input_files(files=[file])


@pytest.mark.soak
def test_an_edited_export_is_found_in_the_browser(admin: Visit, world: World) -> None:
    # For a task of an array only the differences are recorded, and its whole run is shown.
    world.submit(run_document("lattice", "vision", "H100", 1, array={"tasks": "0-2"}))
    with world.client() as client:
        assert client.post("/api/v1/runs/lattice/cancel", json={}).status_code == 200
        lines = client.get("/api/v1/ledger/export").text.splitlines()
    page = admin.open("ledger")
    _choose(page, "true.jsonl", lines)
    expect(page.locator(".verdict")).to_contain_text("true.jsonl verifies")
    for name, edited in _edits(lines).items():
        _choose(page, f"{name}.jsonl", edited)
        expect(page.locator(".verdict")).to_contain_text(f"{name}.jsonl does not verify")


@pytest.mark.soak
def test_a_remedy_is_carried_out_after_a_confirmation(admin: Visit, world: World) -> None:
    page = admin.open("runs/sweep")
    remedy = page.locator(".remedies li").filter(has_text="patch budget lab")
    remedy.get_by_role("button", name="Do it").click()
    expect(page.get_by_role("dialog")).to_contain_text("quorate patch budget lab")
    assert world.get("/runs/sweep")["status"]["phase"] == "Pending"
    page.get_by_role("dialog").get_by_role("button", name="Do it").click()
    expect(page.locator(".title .badge")).to_have_text("Running")
    assert world.get("/runs/sweep")["status"]["phase"] == "Running"
    assert admin.faults == []


def test_the_queue_follows_what_is_recorded(admin: Visit, world: World) -> None:
    page = admin.open("queue")
    expect(page.get_by_text("live", exact=True)).to_be_visible()
    world.submit(run_document("latecomer", "language", "H100", 400))
    expect(page.get_by_role("link", name="latecomer")).to_be_visible()
    page.get_by_role("link", name="latecomer").click()
    page.get_by_role("button", name="Cancel the run").click()
    page.get_by_role("dialog").get_by_role("button", name="Cancel the run").click()
    expect(page.locator(".title .badge")).to_have_text("Cancelled")


@pytest.mark.soak
def test_the_output_of_a_run_and_its_losses_are_shown_as_they_come(admin: Visit) -> None:
    page = admin.open("runs/pretrain-7b")
    expect(page.get_by_role("log")).to_contain_text("loss")
    expect(page.get_by_role("img", name="loss by step")).to_be_visible()
    before = page.get_by_role("log").inner_text()
    expect(page.get_by_role("log")).not_to_have_text(before)


REPORTING = """
import time
from quorate import runtime
for step in range(1, 10_000):
    runtime.report(step, accuracy=1 - 1 / step, total=20_000)
    time.sleep(0.2)
"""


@pytest.mark.soak
def test_what_the_work_reports_is_shown_as_a_chart(admin: Visit, world: World) -> None:
    command = [sys.executable, "-c", REPORTING]
    world.submit(run_document("reporting", "audio", "H100", 1, command=command))
    page = admin.open("runs/reporting")
    expect(page.get_by_role("img", name="accuracy by step")).to_be_visible()
    expect(page.get_by_text("of 20,000")).to_be_visible()
    assert admin.faults == []


def test_the_keyboard_reaches_every_page(admin: Visit) -> None:
    page = admin.open("")
    page.keyboard.press("Control+k")
    expect(page.get_by_role("combobox")).to_be_focused()
    page.keyboard.type("pretr")
    expect(page.get_by_role("option").first).to_contain_text("pretrain-7b")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("pretrain-7b")
    page.keyboard.press("g")
    page.keyboard.press("f")
    expect(page.get_by_role("heading", level=1)).to_have_text("Fleet")
    page.go_back()
    expect(page.get_by_role("heading", level=1)).to_have_text("pretrain-7b")


@pytest.mark.soak
def test_it_works_under_a_prefix(context: BrowserContext, world: World) -> None:
    address, prefix = world.served.address, "/tools/gpus"
    assert address is not None
    with proxied(prefix, address.host, address.port) as url:
        seen = Visit(context.new_page(), url)
        seen.watch()
        sign_in(seen.page, f"{url}/", world.admin)
        seen.page.get_by_role("link", name="Queue", exact=True).click()
        expect(seen.page).to_have_url(f"{url}/queue")
        page = seen.open("runs/pretrain-7b")
        expect(page.get_by_role("heading", level=1)).to_have_text("pretrain-7b")
        expect(page.get_by_text("live", exact=True)).to_be_visible()
        (cookie,) = context.cookies(url)
        assert cookie.get("path") == prefix
        assert seen.faults == []
        page.close()


@pytest.mark.parametrize("scheme", ["light", pytest.param("dark", marks=pytest.mark.soak)])
def test_axe_finds_no_serious_violation(scheme: Any, admin: Visit) -> None:
    admin.page.emulate_media(color_scheme=scheme)
    some = ["queue", "fleet", "timeline", "ledger", "conflicts/1", "runs/segment"]
    every = [*PAGES, "conflicts/1", "runs/segment", f"reports/{REPORT}"]
    for path in every if IS_SOAK else some:
        page = admin.open(path)
        page.wait_for_timeout(300)
        assert serious_violations(page) == [], path


@pytest.mark.soak
def test_an_array_is_one_line_of_runs_and_queue_with_its_tasks_inside(
    admin: Visit, world: World
) -> None:
    # Vision has no money for H100s, so all of them wait.
    world.submit(run_document("grid", "vision", "H100", 1, array={"tasks": "0-2"}))
    try:
        for path, label in (("runs", "3 tasks: 3 Pending"), ("queue", "3 tasks")):
            page = admin.open(path)
            table = page.get_by_role("region", name=path, exact=True)
            expect(table.get_by_role("link", name="grid", exact=True)).to_have_count(1)
            expect(table.get_by_role("link", name="grid_1")).to_have_count(0)
            opens = table.get_by_role("button", name=label)
            expect(opens).to_have_attribute("aria-expanded", "false")
            opens.click()
            inside = page.get_by_role("region", name=re.compile("tasks of grid"))
            expect(inside.locator("tbody tr")).to_have_count(3)
            expect(inside.get_by_role("link", name="grid_1")).to_be_visible()
            assert serious_violations(page) == []
            opens.click()
            expect(inside).to_have_count(0)
        page = admin.open("runs/grid")
        expect(page.get_by_role("heading", name="3 tasks: 3 Pending")).to_be_visible()
        expect(page.get_by_role("link", name="grid_2")).to_be_visible()
        assert admin.faults == []
    finally:
        with world.client() as client:
            assert client.post("/api/v1/runs/grid/cancel", json={}).status_code == 200


@pytest.mark.soak
def test_output_that_has_more_is_read_on_at_once(admin: Visit, world: World) -> None:
    """The first answer is cut to one line, and no timer of two seconds or more fires."""
    asked: list[str] = []

    def cut(route: Route) -> None:
        asked.append(route.request.url)
        answer = route.fetch()
        logs = answer.json()
        if len(asked) == 1:
            assert len(logs["lines"]) > 1
            rest = logs["lines"][1]["number"]
            logs |= {"lines": logs["lines"][:1], "next": rest, "more": True, "ended": False}
        route.fulfill(response=answer, json=logs)

    until(lambda: len(world.get("/runs/pretrain-7b/logs")["lines"]) > 2, "it has written lines")
    admin.page.route("**/api/v1/runs/pretrain-7b/logs?*", cut)
    admin.page.add_init_script(
        "const plain = window.setTimeout; window.setTimeout = (does, ms, ...rest) => "
        "ms >= 2000 ? 0 : plain(does, ms, ...rest);"
    )
    admin.page.goto(f"{admin.url}/runs/pretrain-7b")
    lines = admin.page.get_by_role("log").locator("div")
    expect(lines.nth(1)).to_be_visible()
    assert "from=" in asked[1]


@pytest.mark.soak
def test_no_page_is_wider_than_a_phone(admin: Visit) -> None:
    def with_a_long_name(route: Route) -> None:
        answer = route.fetch()
        who = answer.json()
        who["tenants"] = [*who["tenants"], "a-team-with-a-name-" * 6 + "x"]
        route.fulfill(response=answer, json=who)

    admin.page.route("**/api/v1/whoami", with_a_long_name)
    admin.page.set_viewport_size({"width": 390, "height": 844})
    for path in [*PAGES, "conflicts/1"]:
        page = admin.open(path)
        page.wait_for_selector("main h1")
        wider = page.evaluate(
            "document.documentElement.scrollWidth - document.documentElement.clientWidth"
        )
        assert wider == 0, f"{path} is {wider} pixels wider than the screen"
        expect(page.get_by_role("navigation", name="Pages").get_by_role("status")).to_be_visible()


@pytest.mark.soak
def test_long_odds_leave_room_for_why_a_run_waits(admin: Visit) -> None:
    def with_many_odds(route: Route) -> None:
        answer = route.fetch()
        starts = answer.json()
        for each in starts["items"]:
            each["byConflict"] = True
            each["odds"] = [{"owner": f"a-team-{at}", "odds": f"{at}/78"} for at in range(13)]
        route.fulfill(response=answer, json=starts)

    admin.page.route("**/api/v1/queue/starts?*", with_many_odds)
    for width in (1440, 390):
        admin.page.set_viewport_size({"width": width, "height": 844})
        page = admin.open("queue")
        odds = page.locator(".odds").first
        expect(odds).to_have_text("a-team-12 12/78, a-team-11 11/78, a-team-10 10/78 and 10 more")
        table = page.get_by_role("region", name="queue")
        assert table.evaluate("each => each.scrollWidth - each.clientWidth") == 0, width


def _colors(page: Page) -> dict[str, str]:
    """Return the class of the colour of each owner in the legend, when colours are assigned."""
    expect(page.locator(".legend.owners li")).not_to_have_count(0)
    expect(page.locator(".legend.owners .owner-other")).to_have_count(0)
    found: list[list[str]] = page.eval_on_selector_all(
        ".legend.owners li:has(i[class^=owner-])",
        "all => all.map(each => [each.innerText.trim().split(/\\s/)[0],"
        " each.querySelector('i').className])",
    )
    return dict(found)


CHOSEN_IS_PAINTED = """() => {
  const tip = document.querySelector(".tip");
  const owner = tip?.innerText.match(/ of (\\S+) /)?.[1];
  const named = [...document.querySelectorAll(".legend.owners li")];
  const legend = named.find((each) => each.innerText.trim() === owner);
  if (!legend || !/running/.test(tip.innerText) || /spare/.test(tip.innerText)) return false;
  const wanted = getComputedStyle(legend.querySelector("i")).backgroundColor;
  const [x, y] = [tip.style.left, tip.style.top].map((each) => parseFloat(each) - 14);
  const pen = document.querySelector(".gantt canvas").getContext("2d");
  const scale = devicePixelRatio;
  const { data } = pen.getImageData((x + 2) * scale, (y + 2) * scale, 30 * scale, 1);
  return data.some((_, at) => at % 4 === 0 &&
    `rgb(${data[at]}, ${data[at + 1]}, ${data[at + 2]})` === wanted);
}"""
"""Whether the selected bar on the timeline is of running work, and has its owner's colour."""


@pytest.mark.soak
def test_an_owner_has_the_same_colour_on_the_map_and_the_timeline(admin: Visit) -> None:
    page = admin.open("timeline")
    there = _colors(page)
    page.locator(".gantt canvas").focus()

    def is_painted() -> bool:
        page.keyboard.press("ArrowDown")
        found: bool = page.evaluate(CHOSEN_IS_PAINTED)
        return found

    until(is_painted, "a running bar has the colour of its owner")
    page = admin.open("fleet")
    here = _colors(page)
    assert len(set(here.values())) == len(here) > 1
    assert {owner: there.get(owner) for owner in here} == here


@pytest.mark.soak
def test_a_page_says_when_the_service_is_away_and_asks_anew_when_it_is_back(admin: Visit) -> None:
    page = admin.page
    watch, session = re.compile(r"/api/v1/watch$"), re.compile(r"/session$")
    page.route(watch, lambda route: route.abort())
    page = admin.open("queue")
    expect(page.locator(".state")).to_have_text("updated every 30 s")
    page.route(session, lambda route: route.abort())
    said = page.get_by_role("alert").filter(has_text="The service does not answer since")
    expect(said).to_be_visible()
    expect(page.locator(".state")).to_have_text("no connection")
    with page.expect_request(re.compile(r"/api/v1/queue\?"), timeout=PATIENT_MS):
        page.unroute(session)
        page.unroute(watch)
        expect(page.locator(".state")).to_have_text("live")
    expect(said).to_have_count(0)
