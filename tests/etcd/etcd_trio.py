"""Three members of etcd on the loopback, as one cluster that ends with the block."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import httpx

from tests.bounds import until
from tests.etcd_server import free_port, running
from tests.service.program import got

NAMES = ("e1", "e2", "e3")


@dataclass(frozen=True, slots=True)
class Trio:
    """Three running members: their endpoints, separated by commas, and their processes."""

    endpoints: str
    processes: tuple[subprocess.Popen[bytes], ...]


@contextmanager
def three_members(program: Path, folder: Path) -> Iterator[str]:
    """Yield the endpoints of three members, separated by commas, when all are healthy."""
    with trio(program, folder) as found:
        yield found.endpoints


@contextmanager
def trio(program: Path, folder: Path, *more: str) -> Iterator[Trio]:
    """Yield three members that were started with the arguments ``more``, when all are healthy."""
    peers = {name: f"http://127.0.0.1:{free_port()}" for name in NAMES}
    clients = {name: f"http://127.0.0.1:{free_port()}" for name in NAMES}
    known = ",".join(f"{name}={url}" for name, url in peers.items())
    processes: list[subprocess.Popen[bytes]] = []
    with ExitStack() as stack:
        for name in NAMES:
            arguments: list[str | Path] = [
                *(program, "--name", name, "--data-dir", folder / name),
                *("--listen-client-urls", clients[name]),
                *("--advertise-client-urls", clients[name]),
                *("--listen-peer-urls", peers[name], "--initial-advertise-peer-urls", peers[name]),
                *("--initial-cluster", known, "--log-level", "error", *more),
            ]
            process = stack.enter_context(running(arguments, folder / f"{name}.log"))
            processes.append(process)
        for url in clients.values():
            until(partial(_is_healthy, url), f"the member of etcd at {url} is healthy")
        endpoints = ",".join(url.removeprefix("http://") for url in clients.values())
        yield Trio(endpoints, tuple(processes))


def _is_healthy(url: str) -> bool:
    try:
        answer = got(f"{url}/health")
    except httpx.TransportError:
        return False
    return '"true"' in answer.text
