"""A control plane that the processes of one test run share, and that ends with the run.

    python -m tests.kubernetes.control_plane KIND PROGRAMS FOLDER PID

runs a server of KIND in the background until the process PID has ended, or FOLDER has a file
``stop``. The file ``ready`` exists while the server answers.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path

from tests.kubernetes.engines import Server, api_server, crd_server

READY = "ready"
STOP = "stop"
EVERY_S = 0.3
MAKERS: dict[str, Callable[[Path, Path], AbstractContextManager[Server]]] = {
    "cluster": api_server,
    "uncached-nodes": partial(api_server, uncached="nodes"),
    "newer": crd_server,
}


def main(kind: str, programs: str, folder: str, pid: str) -> None:
    """Serve until the tests with ``pid`` or the server end, or a file asks to stop."""
    if os.fork():
        return
    place = Path(folder)
    with MAKERS[kind](Path(programs), place) as server:
        assert server.process is not None
        draft = place / f".{READY}"
        draft.write_text(server.store, "utf-8")
        draft.replace(place / READY)
        while _is_alive(int(pid)) and server.process.poll() is None:
            if (place / STOP).exists():
                break
            time.sleep(EVERY_S)
    (place / READY).unlink()


def read_server(folder: Path) -> Server | None:
    """Return the server of ``folder``; None before it answers."""
    try:
        store = (folder / READY).read_text("utf-8")
    except FileNotFoundError:
        return None
    return Server(kubeconfig=folder / "kubeconfig", store=store)


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


if __name__ == "__main__":
    main(*sys.argv[1:])
