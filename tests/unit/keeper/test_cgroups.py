"""The cgroups of runs: the settings for the kernel, and the messages if it lacks them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from quorate.keeper import cgroups

BOUNDED = """
import os, signal, sys
from pathlib import Path
from quorate.keeper import cgroups
cgroups.join(Path(sys.argv[1]))
try:
    for _ in range(200):
        if os.fork() == 0:
            signal.pause()
except BlockingIOError:
    print("bounded", flush=True)
held = bytearray(os.urandom(1024)) * (512 * 1024)
print("had the memory", flush=True)
"""


def files_of(folder: Path, path: str, controllers: str) -> tuple[Path, Path]:
    """Return the kernel's files for a cgroup tree in the folder ``tree``."""
    tree = folder / "tree"
    here = tree / path.lstrip("/")
    here.mkdir(parents=True)
    (here / "cgroup.controllers").write_text(controllers)
    mounts, own = folder / "mounts", folder / "own"
    mounts.write_text(f"30 24 0:26 / {tree} rw,nosuid - cgroup2 cgroup2 rw\n")
    own.write_text(f"4:memory:/elsewhere\n0::{path}\n")
    return mounts, own


def test_bounds_are_handed_down_to_the_runs_of_a_service(tmp_path: Path) -> None:
    found = cgroups.prepare(*files_of(tmp_path, "/unit", "cpu memory pids"))
    here = tmp_path / "tree" / "unit"
    assert found == cgroups.Parent(str(here / cgroups.RUNS), "")
    for folder in (here, here / cgroups.RUNS):
        assert (folder / "cgroup.subtree_control").read_text() == "+memory +pids"


def test_a_service_that_has_moved_aside_finds_the_same_runs(tmp_path: Path) -> None:
    path = f"/unit/{cgroups.SERVICE}"
    mounts, own = files_of(tmp_path, path, "memory pids")
    (tmp_path / "tree" / "unit" / "cgroup.controllers").write_text("memory pids")
    found = cgroups.prepare(mounts, own)
    assert found.path == str(tmp_path / "tree" / "unit" / cgroups.RUNS)


def test_what_the_machine_lacks_is_said(tmp_path: Path) -> None:
    found = cgroups.prepare(*files_of(tmp_path / "some", "/", "cpu pids"))
    assert found.path
    assert found.note == "cgroup v2 has no memory controller here"
    mounts, own = files_of(tmp_path / "none", "/", "")
    mounts.write_text("30 24 0:26 / /sys rw - sysfs sysfs rw\n")
    assert cgroups.prepare(mounts, own) == cgroups.Parent("", "cgroup v2 is not mounted")
    mounts, own = files_of(tmp_path / "outside", "/", "")
    own.write_text("0::/../other\n")
    assert "/../other, is not below" in cgroups.prepare(mounts, own).note
    mounts, own = files_of(tmp_path / "file", "/", "memory")
    (tmp_path / "file" / "tree" / cgroups.RUNS).write_text("")
    found = cgroups.prepare(mounts, own)
    assert (found.path, "cannot be written: file exists" in found.note) == ("", True)
    mounts, own = files_of(tmp_path / "busy", "/", "memory pids")
    (tmp_path / "busy" / "tree" / "cgroup.subtree_control").mkdir()
    assert "memory and pids cannot be enabled" in cgroups.prepare(mounts, own).note


def test_a_run_is_bounded_by_what_its_cgroup_can_bound(tmp_path: Path) -> None:
    parent, run = tmp_path / "parent", tmp_path / "work" / "runs" / "r"
    parent.mkdir()
    run.mkdir(parents=True)
    path, unbounded = cgroups.make(str(parent), run, memory_bytes=5_000, processes=70)
    assert unbounded == ["memory", "processes"]
    for name in ("memory.max", "pids.max", "memory.oom.group"):
        (path / name).write_text("max")
    assert cgroups.make(str(parent), run, memory_bytes=5_000, processes=70) == (path, [])
    found = [(path / name).read_text() for name in ("memory.max", "pids.max", "memory.oom.group")]
    assert found == ["5000", "70", "1"]
    # Another work folder has another cgroup for a run with the same name.
    assert cgroups.name_of(run) != cgroups.name_of(tmp_path / "other" / "runs" / "r")
    assert cgroups.members(run) == []
    (path / "cgroup.procs").write_text("12\n34\n")
    assert cgroups.members(run) == [12, 34]


@pytest.mark.skipif(os.geteuid() != 0 or sys.platform != "linux", reason="root makes cgroups")
def test_the_kernel_stops_a_run_at_its_bounds(tmp_path: Path) -> None:
    parent = cgroups.prepare()
    if not parent.path or parent.note:
        pytest.skip(parent.note or "no cgroup can be made here")
    run = tmp_path / "runs" / "bounded"
    run.mkdir(parents=True)
    path, unbounded = cgroups.make(parent.path, run, memory_bytes=64 * 1024 * 1024, processes=20)
    assert unbounded == []
    try:
        done = subprocess.run(
            [sys.executable, "-c", BOUNDED, str(path)],
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
            check=False,
            timeout=60,
        )
        assert (done.stdout, done.returncode) == ("bounded\n", -9)
        assert "oom_kill 0" not in (path / "memory.events").read_text().splitlines()
    finally:
        (path / "cgroup.kill").write_text("1")
        for _ in range(100):
            if not (path / "cgroup.procs").read_text():
                break
        cgroups.remove(path)
