"""The port at which the processes of a run meet."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from quorate.keeper.master_port import PORTS, free_port

HOST = "127.0.0.1"


@pytest.mark.parametrize("given_away", ["32768 60999", "1024\t19999\n", "29500 29500"])
def test_it_is_none_that_the_kernel_gives_away(tmp_path: Path, given_away: str) -> None:
    file = tmp_path / "range"
    file.write_text(given_away)
    found = {free_port(HOST, given_away=file) for _ in range(20)}
    assert found <= set(PORTS)
    assert len(found) > 1, "keepers that start together would all choose this one"


@pytest.mark.parametrize("given_away", ["1 65535", "1 80", "90 91", "words", None])
def test_it_is_any_where_those_are_given_away(tmp_path: Path, given_away: str | None) -> None:
    file = tmp_path / "range"
    if given_away is not None:
        file.write_text(given_away)
    unusual = range(80, 91)  # No kernel gives out these ports.
    assert free_port(HOST, unusual, file) not in unusual


def test_one_that_is_taken_is_not_chosen(tmp_path: Path) -> None:
    file = tmp_path / "range"
    file.write_text("1 1")
    with socket.create_server((HOST, 0)) as taken:
        port = taken.getsockname()[1]
        assert free_port(HOST, range(port, port + 1), file) != port
