"""The pages as a site: every page is in its navigation, and every link leads somewhere."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.tidy.tree import ROOT


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
