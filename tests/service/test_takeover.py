"""A service is started while a remaining process of the previous service has a port or a lock."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from quorate.adapters.executors.keepers import SERVICE_LOCK, work_folder
from quorate.adapters.stores.writer_lock import lock_path
from tests.bounds import WAIT_S, started
from tests.oracles.effort import few_of
from tests.service.program import program, reserved_port
from tests.service.serving import new_ledger

KILLED = """
import fcntl, os, signal, socket, sys
what, where = sys.argv[1:]
if what == "port":
    held = socket.socket()
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    held.bind(("127.0.0.1", int(where)))
    held.listen()
else:
    held = os.open(where, os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(held, fcntl.LOCK_EX)
if os.fork() == 0:
    sys.stdin.read()
    os._exit(0)
os.kill(os.getpid(), signal.SIGKILL)
"""
"""Has a port or a lock, and is killed between the fork of a child and the child's exec.

The child keeps it until its standard input ends.
"""


@pytest.mark.parametrize("what", few_of(["listen", "ledger", "grpc.listen", "work.folder"], 1))
def test_what_a_killed_service_leaves_to_its_child_for_an_instant_is_waited_for(
    tmp_path: Path, what: str
) -> None:
    ledger = new_ledger(tmp_path)
    work = work_folder(ledger)
    work.mkdir(mode=0o700)
    with reserved_port() as rest, reserved_port() as grpc:
        held, told = {
            "listen": (("port", str(rest)), f"listen: 127.0.0.1:{rest} is in use"),
            "grpc.listen": (("port", str(grpc)), f"grpc.listen: 127.0.0.1:{grpc} is in use"),
            "ledger": (("lock", str(lock_path(ledger))), "Reading is possible meanwhile"),
            "work.folder": (("lock", str(work / SERVICE_LOCK)), "is used by another service"),
        }[what]
        words = ("--ledger", str(ledger), "--executor", "local", "--executor-allow-root")
        addresses = ("--grpc-listen", f"127.0.0.1:{grpc}")
        with started([sys.executable, "-c", KILLED, *held], stdin=subprocess.PIPE) as killed:
            assert killed.wait(WAIT_S) == -signal.SIGKILL
            with program(tmp_path, *words, *addresses, listen=f"127.0.0.1:{rest}") as service:
                service.logged(f"{told}; trying for 5 s")
                assert service.process.poll() is None
                assert "serving" not in service.out
                assert killed.stdin is not None
                killed.stdin.close()
                ready = httpx.get(f"{service.wait_ready()}/readyz", trust_env=False, timeout=WAIT_S)
                assert ready.status_code == 200
                assert service.end() == 0


def test_an_address_that_is_not_of_this_machine_is_refused_at_once(tmp_path: Path) -> None:
    new_ledger(tmp_path)
    with program(tmp_path, "--ledger", "ledger.db", "--insecure", listen="192.0.2.1:80") as service:
        assert service.wait() == 4
        assert (
            "listen: 192.0.2.1:80 cannot be used: cannot assign requested address; choose another "
            "with --listen HOST:PORT\n"
        ) in service.err
        assert "trying for" not in service.err
