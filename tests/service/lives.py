"""A daemon with several lives: it is killed, and restarted as by a supervisor.

A module that is run as ``python -m MODULE LEDGER PORT INSTANT LIVES`` calls ``supervise``, which
forks one process for each life, from a process that has imported everything and has no open files.
After each life, the place of its end is noted in ``deaths.txt`` beside the ledger. The last life is
not killed: it ends when the whole group of processes gets SIGTERM.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, TypeVar

from quorate.service.opening import first_token, open_ledger
from tests.bounds import WAIT_S
from tests.service.conftest import documents_of
from tests.service.program import CLI
from tests.service.serving import new_ledger, serving

Doom = TypeVar("Doom")

ROOT: Final = Path(__file__).resolve().parents[2]
_DEATHS: Final = "deaths.txt"
_LAST_WORDS: Final = "last-words.txt"


def supervise(
    folder: Path, live: Callable[[Doom], None], dooms: Iterable[Doom], spared: Doom
) -> int:
    """Return 0 if SIGKILL ended every life except the last, and the last one ended cleanly."""
    # SIGTERM goes to the group; the serving process has its own handler.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    for number, doom in enumerate(dooms):
        code = _life(live, doom)
        if code != -signal.SIGKILL:
            sys.stderr.write(f"life {number} ended by {code}\n")
            return 1
        # Written only now: a dying process may still answer a caller between its note and its end.
        with (folder / _DEATHS).open("a", encoding="utf-8") as deaths_file:
            deaths_file.write((folder / _LAST_WORDS).read_text(encoding="utf-8"))
    return _life(live, spared)


def _life(live: Callable[[Doom], None], doom: Doom) -> int:
    """Return the exit status of a life, as ``subprocess`` reports it."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            live(doom)
            code = 0
        except BaseException:  # noqa: BLE001 - whatever it is, it is told, and the life is over
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def die(folder: Path, *words: str) -> None:
    """Note ``words`` about this death in ``folder``, and kill this process."""
    note_death(folder, *words)
    os.kill(os.getpid(), signal.SIGKILL)


def note_death(folder: Path, *words: str) -> None:
    """Note ``words`` about a coming death in ``folder``."""
    (folder / _LAST_WORDS).write_text("\t".join(words) + "\n", encoding="utf-8")


def deaths(folder: Path) -> list[list[str]]:
    """Return the notes about all deaths."""
    try:
        text = (folder / _DEATHS).read_text(encoding="utf-8")
    except FileNotFoundError:
        return []
    return [line.split("\t") for line in text.splitlines()]


@contextmanager
def crashing(module: str, ledger: Path, *words: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run ``module`` on ``ledger``; its standard error is in ``err.txt`` beside the ledger."""
    with (ledger.parent / "err.txt").open("wb") as err:
        process = subprocess.Popen(
            [sys.executable, "-m", module, str(ledger), *words],
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=err,
            stderr=err,
            start_new_session=True,
        )
    try:
        yield process
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(WAIT_S)


def end(process: subprocess.Popen[bytes], folder: Path) -> None:
    """End the last life, and check that it ended cleanly and that no life met a bug."""
    os.killpg(process.pid, signal.SIGTERM)
    assert process.wait(WAIT_S) == 0
    told = (folder / "err.txt").read_text(encoding="utf-8")
    assert "Traceback" not in told, told[-4_000:]


def prepared(folder: Path) -> tuple[Path, str]:
    """Return a ledger with a fleet and teams, and the token of an admin."""
    ledger = new_ledger(folder)
    engine = open_ledger(str(ledger), None)
    token = first_token(engine)
    engine.close()
    assert token is not None
    body = {"documents": documents_of("fleet.yaml", "teams.yaml")}
    with serving(ledger) as served, served.client(token) as client:
        assert client.post("/api/v1/apply", json=body).status_code == 200
    return ledger, token


def verify(ledger: Path) -> None:
    """Check that ``quorate ledger verify --deep`` finds nothing."""
    words = ["--ledger", str(ledger), "ledger", "verify", "--deep"]
    verified = subprocess.run(
        [sys.executable, "-c", CLI, *words], capture_output=True, text=True, check=False
    )
    assert verified.returncode == 0, verified.stdout + verified.stderr
