"""A control plane for all tests of one process that ask for it; starting one takes seconds."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kubernetes.engines import Server, api_server, crd_server, find_programs


@pytest.fixture(scope="session")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return find_programs(tmp_path_factory.mktemp("engines"))


@pytest.fixture(scope="session")
def cluster(programs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with api_server(programs, tmp_path_factory.mktemp("cluster")) as server:
        yield server


@pytest.fixture(scope="session")
def newer(programs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with crd_server(programs, tmp_path_factory.mktemp("newer")) as server:
        yield server
