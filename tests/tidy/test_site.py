"""The pages as a site: every page is in the navigation, and every link has a target."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.tidy.tree import ROOT

ASKED = {
    "how do I stop one task of an array?": "docs/jobs",
    "what did my team pay in October?": "docs/reference/usage",
    "why did my job move from 14:00 to 16:00?": "docs/queue",
    "how do I back this up?": "docs/backup",
    "how do I see the loss?": "docs/jobs",
    "mail when a job ends": "docs/notices",
}
"""The most common questions of readers, and the page with the answer."""


@pytest.mark.soak
def test_the_site_builds_without_a_warning(tmp_path: Path) -> None:
    words = ("-q", "--fail-on-warning", "--keep-going", "-c", "docs", "-b", "dummy")
    done = subprocess.run(
        [sys.executable, "-m", "sphinx", *words, "-d", tmp_path / "trees", ".", tmp_path / "site"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.slow
def test_a_page_that_no_list_has_and_a_link_to_nowhere_fail_the_build(tmp_path: Path) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "conf.py").write_text((ROOT / "docs" / "conf.py").read_text("utf-8"), "utf-8")
    (docs / "site").mkdir()
    (docs / "README.md").write_text("# All\n\n## How-to\n\n- [one](one.md): it\n", "utf-8")
    (docs / "one.md").write_text("# One\n\n[nowhere](absent.md)\n", "utf-8")
    (docs / "two.md").write_text("# Two\n", "utf-8")
    words = ("-q", "--fail-on-warning", "--keep-going", "-c", "docs", "-b", "dummy")
    done = subprocess.run(
        [sys.executable, "-m", "sphinx", *words, ".", "site"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "two.md: WARNING: document isn't included in any toctree" in done.stderr
    assert "one.md:3: WARNING" in done.stderr
    assert "absent" in done.stderr


@pytest.mark.soak
@pytest.mark.skipif(shutil.which("node") is None, reason="the site's search is a script: no node")
def test_the_search_of_the_site_leads_to_the_page_that_answers(tmp_path: Path) -> None:
    words = ("-q", "--fail-on-warning", "-c", "docs", "-b", "html", "-d", tmp_path / "trees")
    site = tmp_path / "site"
    subprocess.run([sys.executable, "-m", "sphinx", *words, ".", site], cwd=ROOT, check=True)
    script = ROOT / "tests/tidy/site_search.cjs"
    done = subprocess.run(
        ["node", script, site, *ASKED], capture_output=True, text=True, check=True
    )
    assert dict(zip(ASKED, done.stdout.splitlines(), strict=True)) == ASKED


def test_the_page_of_all_pages_answers_what_is_asked_first() -> None:
    text = (ROOT / "docs/README.md").read_text("utf-8").lower()
    for question in list(ASKED)[:5]:
        assert question.lower() in text
