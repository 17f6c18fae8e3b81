"""Text that no file may have: paths of this machine, a package registry, notes on work to do."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.tidy.tree import ROOT, SOURCE, project_files, text_of

# The path of a checkout directly below "/" is too short to search for.
_PATH_PARTS_MIN = 3
_HOME = re.compile(r"/(?:home|Users)/[a-z]|(?<![\w.])/(?:root)/")
_REGISTRY = re.compile(
    r"(?:pypi|pythonhosted|npmjs)\.(?:org|com)|--(?:extra-)?index-url|--find-(?:links)"
)
_UNFINISHED = re.compile(r"\b(?:TODO|FIXME|XXX|NotImplementedError)\b")


def _lines_with(pattern: re.Pattern[str], paths: list[Path]) -> list[str]:
    return [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()[:120]}"
        for path in paths
        for number, line in enumerate((text_of(path) or "").splitlines(), start=1)
        if pattern.search(line)
    ]


@pytest.mark.heavy
def test_no_file_names_a_path_of_this_machine() -> None:
    found = _lines_with(_HOME, project_files())
    if len(ROOT.parts) >= _PATH_PARTS_MIN:
        found += _lines_with(re.compile(re.escape(str(ROOT))), project_files())
    assert found == []


@pytest.mark.heavy
def test_no_file_names_a_package_registry() -> None:
    assert _lines_with(_REGISTRY, project_files()) == []


@pytest.mark.heavy
def test_no_source_is_left_for_later() -> None:
    source = [path for path in project_files() if path.is_relative_to(SOURCE)]
    assert source
    assert _lines_with(_UNFINISHED, source) == []
