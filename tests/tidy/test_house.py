"""The files that new developers, packagers and the build need."""

from __future__ import annotations

import os
import re
import tomllib

import pytest

from tests.tidy.tree import ROOT

_PINNED = re.compile(r"^(?P<name>[a-z0-9][a-z0-9.-]*)==[^\s;]+(?: ;[^\\]*)? \\$")
_EXPECTED = (
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "LICENSE",
    "README.md",
    "SECURITY.md",
    "docs/glossary.md",
)


@pytest.mark.parametrize("name", _EXPECTED)
def test_the_file_is_there(name: str) -> None:
    assert (ROOT / name).is_file()


@pytest.mark.parametrize("lock", ["runtime", "dev"])
def test_a_lock_pins_and_hashes_every_package(lock: str) -> None:
    lines = (ROOT / "requirements" / f"{lock}.txt").read_text(encoding="utf-8").splitlines()
    starts = [line for line in lines if line and not line.startswith((" ", "#"))]
    assert starts
    assert [line for line in starts if _PINNED.match(line) is None] == []


def test_the_locks_hold_what_the_project_asks_for() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    runtime = _locked("runtime")
    dev = _locked("dev")
    assert _names(project["project"]["dependencies"]) <= runtime.keys()
    assert _names(project["build-system"]["requires"]) <= runtime.keys()
    assert _names(project["dependency-groups"]["dev"]) <= dev.keys()
    assert {name: dev.get(name) for name in runtime} == runtime


def test_the_lock_builds_with_what_the_project_builds_with() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    text = (ROOT / "requirements" / "build.in").read_text(encoding="utf-8")
    asked = [line for line in text.splitlines() if line and not line.startswith("#")]
    assert asked == project["build-system"]["requires"]


@pytest.mark.parametrize(
    "target", ["demo", "test", "quick", "check", "bench", "soak", "mutate", "lock"]
)
def test_make_has_the_target(target: str) -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert re.search(rf"^{target}:", makefile, re.MULTILINE)


def test_the_check_of_a_change_can_be_run() -> None:
    assert os.access(ROOT / ".ci" / "run", os.X_OK)


def _names(requirements: list[str]) -> set[str]:
    return {
        re.split(r"[^A-Za-z0-9._-]", each)[0].lower().replace(".", "-") for each in requirements
    }


def _locked(lock: str) -> dict[str, str]:
    text = (ROOT / "requirements" / f"{lock}.txt").read_text(encoding="utf-8")
    return dict(re.findall(r"^([a-z0-9][a-z0-9.-]*)==([^\s;]+)", text, re.MULTILINE))
