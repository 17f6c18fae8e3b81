"""Reports in a folder: only plain files with plain names are read."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from quorate.adapters import report_folder
from quorate.adapters.report_folder import ReportFolder


def test_the_newest_report_is_listed_first(tmp_path: Path) -> None:
    for at_s, name in ((100, "old.html"), (300, "new.html"), (200, "b.html"), (200, "a.html")):
        (tmp_path / name).write_text(name, encoding="utf-8")
        os.utime(tmp_path / name, (at_s, at_s))
    found = ReportFolder(str(tmp_path)).listed()
    assert [each.name for each in found] == ["new.html", "a.html", "b.html", "old.html"]
    assert [each.written_ms for each in found] == [300_000, 200_000, 200_000, 100_000]
    read = ReportFolder(str(tmp_path)).read("new.html")
    assert read is not None
    assert (read[0], read[1]) == (found[0], "new.html")


def test_what_is_no_report_is_not_there(tmp_path: Path) -> None:
    secret = tmp_path / "secret.html"
    secret.write_text("secret", encoding="utf-8")
    folder = tmp_path / "reports"
    folder.mkdir()
    (folder / "link.html").symlink_to(secret)
    (folder / "folder.html").mkdir()
    os.mkfifo(folder / "pipe.html")
    (folder / "notes.txt").write_text("notes", encoding="utf-8")
    (folder / ".hidden.html").write_text("hidden", encoding="utf-8")
    (folder / "huge.html").touch()
    os.truncate(folder / "huge.html", report_folder.REPORT_BYTES_MAX + 1)
    reports = ReportFolder(str(folder))
    assert reports.listed() == []
    names = [each.name for each in folder.iterdir()]
    for name in (*names, "../secret.html", "..", "", "none.html", "a/b.html"):
        assert reports.read(name) is None, name


def test_a_folder_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        ReportFolder(str(tmp_path / "none")).listed()
