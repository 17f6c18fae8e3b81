"""Unexpected objects that a job has put in place of a file, and how a root reader handles them."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from quorate.adapters.executors.logs_local import last_step
from quorate.keeper.job_files import read_job_file
from quorate.runtime import DONE_FILE

OTHER = 3_000_009


def test_the_end_of_a_plain_file_is_read(tmp_path: Path) -> None:
    (tmp_path / "below").mkdir()
    (tmp_path / "below" / "file").write_bytes(b"0123456789")
    assert read_job_file(tmp_path, "below", "file") == b"0123456789"
    assert read_job_file(tmp_path, "below", "file", most=4) == b"6789"
    assert read_job_file(tmp_path, "below", "absent") is None
    assert read_job_file(tmp_path, "absent", "file") is None
    assert read_job_file(tmp_path / "absent", "file") is None


def test_what_is_no_plain_file_is_nothing(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "file").write_bytes(b"secret")
    folder = tmp_path / "job"
    folder.mkdir()
    (folder / "link").symlink_to(secret / "file")
    (folder / "steps").symlink_to(secret)
    (folder / "folder").mkdir()
    # A reader that opens it without precautions waits for ever.
    os.mkfifo(folder / DONE_FILE)
    for names in (("link",), ("steps", "file"), ("folder",), (DONE_FILE,)):
        assert read_job_file(folder, *names) is None


@pytest.mark.skipif(sys.platform != "linux" or os.geteuid() != 0, reason="gives files to others")
def test_a_file_of_another_user_is_not_the_jobs(tmp_path: Path) -> None:
    job = tmp_path / "job"
    (job / "steps").mkdir(parents=True)
    for path in (job, job / "steps"):
        os.chown(path, OTHER, OTHER)
    secret = tmp_path / "secret.jsonl"
    secret.write_text('{"step": 7}\n')
    record = job / "steps" / "rank-0.jsonl"
    record.hardlink_to(secret)
    assert last_step(job) is None
    record.unlink()
    record.write_text('{"step": 8}\n')
    os.chown(record, OTHER, OTHER)
    assert last_step(job) == 8
