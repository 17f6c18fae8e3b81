"""The wheel and the sdist are built without a network, and are complete."""

from __future__ import annotations

import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from tests.tidy.tree import ROOT

pytestmark = pytest.mark.slow


def build(source: Path, to: Path) -> tuple[Path, Path]:
    """Return the wheel and the sdist of ``source``."""
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-d", str(to)],
        cwd=source,
        check=True,
        capture_output=True,
        timeout=120,
    )
    (wheel,), (sdist,) = to.glob("*.whl"), to.glob("*.tar.gz")
    return wheel, sdist


def files_of_package() -> set[str]:
    """Return the files of the package that belong to the project."""
    found = (ROOT / "src" / "quorate").rglob("*")
    return {
        str(path.relative_to(ROOT / "src"))
        for path in found
        if path.is_file() and "__pycache__" not in path.parts
    }


@pytest.mark.soak
def test_what_is_built_is_complete_and_runs(tmp_path: Path) -> None:
    wheel, sdist = build(ROOT, tmp_path / "dist")
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        archive.extractall(tmp_path / "installed")  # noqa: S202 - built here
    assert {name for name in names if name.startswith("quorate/")} == files_of_package()
    (metadata,) = (tmp_path / "installed").glob("*.dist-info/METADATA")
    assert "Provides-Extra: all" in metadata.read_text(encoding="utf-8")
    (points,) = (tmp_path / "installed").glob("*.dist-info/entry_points.txt")
    assert "quorate = quorate.cli.program:run" in points.read_text(encoding="utf-8")

    # The installed package is imported, with its data files.
    program = (
        "import sys; sys.path.insert(0, sys.argv.pop(1));"
        "import quorate; assert quorate.__file__.startswith(sys.path[0]);"
        "from quorate.cli.main import run; run()"
    )
    for words in (["--version"], ["calc", "--help"], ["init"]):
        done = subprocess.run(
            [sys.executable, "-I", "-c", program, str(tmp_path / "installed"), *words],
            cwd=tmp_path,
            env={"HOME": str(tmp_path), "QUORATE_ACTOR": "ada"},
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        assert done.returncode == 0, done

    # The sdist alone gives the same wheel.
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path / "unpacked", filter="data")
    (source,) = (tmp_path / "unpacked").iterdir()
    again, _ = build(source, tmp_path / "again")
    with zipfile.ZipFile(again) as archive:
        assert set(archive.namelist()) == names
    assert (source / "README.md").is_file()
