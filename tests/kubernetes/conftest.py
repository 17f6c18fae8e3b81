"""A control plane that all tests share, in however many processes they run.

Starting one takes seconds and 400 MB. The first process that needs one starts it, the other
processes use it, too, and it ends with the test run.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.bounds import WAIT_S, until
from tests.etcd_server import IS_WORKER, PROGRAMS_FOLDER, locked, shared_folder
from tests.kubernetes.control_plane import STOP, read_server
from tests.kubernetes.engines import READY_S, Server, find_programs
from tests.tidy.tree import ROOT

LOG = "control-plane.log"


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder that all processes of this test run share."""
    return shared_folder(tmp_path_factory)


@pytest.fixture(scope="session")
def programs(shared: Path) -> Path:
    with locked(shared):
        return find_programs(shared / PROGRAMS_FOLDER)


@pytest.fixture
def only_gpu_nodes(shared: Path) -> Iterator[None]:
    """Hold a lock during the block, so that no other test has GPU nodes in the cluster."""
    folder = shared / "gpu-nodes"
    folder.mkdir(exist_ok=True)
    with locked(folder):
        yield


@pytest.fixture
def only_resources(shared: Path) -> Iterator[None]:
    """Hold a lock during the block, so that no other test has custom resources in the cluster."""
    folder = shared / "resources"
    folder.mkdir(exist_ok=True)
    with locked(folder):
        yield


@contextmanager
def served(kind: str, programs: Path, shared: Path) -> Iterator[Server]:
    """Yield the server of ``kind``; start it unless another process has started it."""
    folder = shared / kind
    with locked(shared):
        if not folder.is_dir():
            folder.mkdir()
            # It watches the process of the test run, because a worker may end before others.
            pid = os.getppid() if IS_WORKER else os.getpid()
            with (folder / LOG).open("wb") as log:
                subprocess.run(
                    [
                        *(sys.executable, "-m", "tests.kubernetes.control_plane"),
                        *(kind, programs, folder, str(pid)),
                    ],
                    cwd=ROOT,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                    check=True,
                )
    yield until(
        lambda: read_server(folder),
        f"the control plane {kind} is ready",
        within_s=READY_S + WAIT_S,
        tell=lambda: (folder / LOG).read_text("utf-8"),
    )
    if not IS_WORKER:
        (folder / STOP).touch()
        until(lambda: read_server(folder) is None, f"the control plane {kind} has ended")


@pytest.fixture(scope="session")
def cluster(programs: Path, shared: Path) -> Iterator[Server]:
    with served("cluster", programs, shared) as server:
        yield server


@pytest.fixture(scope="session")
def uncached_nodes(programs: Path, shared: Path) -> Iterator[Server]:
    """Return a cluster that ends watches of nodes when its etcd is compacted."""
    with served("uncached-nodes", programs, shared) as server:
        yield server


@pytest.fixture(scope="session")
def newer(programs: Path, shared: Path) -> Iterator[Server]:
    if not (programs / "crdserver").is_file():
        pytest.skip(f"{programs} has no crdserver")
    with served("newer", programs, shared) as server:
        yield server
