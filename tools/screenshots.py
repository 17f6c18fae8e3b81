"""Takes the pictures of the dashboard in docs/dashboard: each page, in two sizes and schemes.

Run ``python -m tools.screenshots`` from the repository; it has the requirements of the dashboard's
tests. ``--only PAGE`` takes the pictures of one page, ``--out FOLDER`` writes to another folder,
and ``--serve`` only runs the service of the pictures, so that a person can browse it.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from base64 import b64decode
from pathlib import Path
from typing import Final

from playwright.sync_api import Page

from tests.web.browsing import browser_here, sign_in
from tests.web.world import REPORT, World, world_in

OUT: Final = Path(__file__).resolve().parents[1] / "docs" / "dashboard"
PAGES: Final = {
    "overview": "",
    "queue": "queue",
    "runs": "runs",
    "run-waiting": "runs/sweep",
    "run-working": "runs/pretrain-7b",
    "fleet": "fleet",
    "timeline": "timeline",
    "owners": "owners",
    "owner": "owners/lab",
    "budgets": "budgets",
    "budget": "budgets/lab",
    "rounds": "rounds",
    "conflicts": "conflicts",
    "conflict": "conflicts/1",
    "ledger": "ledger",
    "reports": "reports",
    "report": f"reports/{REPORT}",
}
SIZES: Final = {"wide": (1360, 850), "phone": (390, 844)}
SCHEMES: Final = ("light", "dark")
SETTLED_MS: Final = 1_500
QUALITY: Final = 80


def main() -> None:
    """Take the pictures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=PAGES)
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--serve", action="store_true")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, world_in(Path(folder)) as world:
        if given.serve:
            print(world.served.url, world.admin, flush=True)
            sys.stdin.read()
            return
        given.out.mkdir(parents=True, exist_ok=True)
        _take(world, {given.only: PAGES[given.only]} if given.only else PAGES, given.out)


def _take(world: World, pages: dict[str, str], out: Path) -> None:
    with browser_here() as browser:
        for scheme in SCHEMES:
            for size, (width, height) in SIZES.items():
                context = browser.new_context(
                    color_scheme="dark" if scheme == "dark" else "light",
                    viewport={"width": width, "height": height},
                )
                page = context.new_page()
                sign_in(page, world.served.url, world.admin)
                for name, path in pages.items():
                    _shoot(page, f"{world.served.url}/{path}", out / f"{name}-{size}-{scheme}.webp")
                context.close()


def _shoot(page: Page, url: str, path: Path) -> None:
    page.goto(url)
    page.wait_for_selector(".loading", state="detached")
    page.wait_for_timeout(SETTLED_MS)
    # WebP is a quarter of the size of PNG, and only the browser's own protocol produces it.
    session = page.context.new_cdp_session(page)
    asked = {"format": "webp", "quality": QUALITY}
    path.write_bytes(b64decode(session.send("Page.captureScreenshot", asked)["data"]))
    print(path.name)


if __name__ == "__main__":
    main()
