"""The API of a training script: whether to stop, its world, and its last checkpoint.

The module uses only the standard library, so importing it is cheap, and a script that uses it runs
anywhere. Without Quorate the world is one process, and no stop is ever requested.

``SIGTERM`` is the warning before a stop. In a process of a run, this module handles the signal
unless the script has its own handler: the module sets a flag, and the process continues.
``stop_requested()`` returns the flag. The script then saves a checkpoint, reports it with
``saved()``, and exits. If the work is complete, the script calls ``done()``; otherwise a run that
exits after the warning is started again.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

FOLDER: Final = "QUORATE_FOLDER"
"""The environment variable with the folder that a run and its keeper share."""
NOTICE: Final = "QUORATE_NOTICE"
"""The environment variable with the path of the notice, if it is not in the run's folder."""
LEASE_STEPS: Final = "QUORATE_LEASE_STEPS"
LEASE_SECONDS: Final = "QUORATE_LEASE_SECONDS"
LEASE_UNTIL_MS: Final = "QUORATE_LEASE_UNTIL_MS"
"""Three environment variables: the steps, seconds and end of the round in which a run starts."""
NOTICE_FILE: Final = "notice.json"
DONE_FILE: Final = "done.json"
CHECKPOINT_FILE: Final = "checkpoint.json"
CHECKPOINTS: Final = "checkpoints"
STEPS: Final = "steps"
STEPS_BYTES_MAX: Final = 4 * 1024 * 1024
"""The size at which the older half of a rank's record of steps is dropped."""


@dataclass(frozen=True, slots=True)
class World:
    """The processes that work together; ``generation`` counts the starts of the run's processes."""

    rank: int
    size: int
    local_rank: int
    node_rank: int
    nodes: int
    master_addr: str
    master_port: int
    generation: int
    run: str
    node: str


@dataclass(frozen=True, slots=True)
class Notice:
    """The order to stop by ``deadline_ms``; its ``kind`` is ``stop`` or ``resize``.

    After ``stop`` the run ends or waits again. After ``resize`` the run's processes start again in
    another world, from the last checkpoint.
    """

    kind: str
    deadline_ms: int

    @property
    def seconds_left(self) -> float:
        """The seconds until the processes are killed."""
        return max(0.0, self.deadline_ms / 1_000 - time.time())


@dataclass(frozen=True, slots=True)
class Lease:
    """The round in which the run started. The run has its GPUs for ``seconds``, until ``until_ms``.

    ``steps`` is the number of steps that the run is expected to do in this time. It is at most the
    number of steps that the run has left. A run that keeps its GPUs in the next round gets no
    message. A run that loses its GPUs is stopped.
    """

    steps: int
    seconds: float
    until_ms: int

    @property
    def seconds_left(self) -> float:
        """The seconds until the round ends."""
        return max(0.0, self.until_ms / 1_000 - time.time())


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A checkpoint, from which the run may continue after ``step``."""

    path: Path
    step: int


def world() -> World:
    """Return the world of this process, from its environment variables."""
    return World(
        rank=_number("RANK", 0),
        size=_number("WORLD_SIZE", 1),
        local_rank=_number("LOCAL_RANK", 0),
        node_rank=_number("NODE_RANK", 0),
        nodes=_number("NNODES", 1),
        master_addr=os.environ.get("MASTER_ADDR", "127.0.0.1"),
        master_port=_number("MASTER_PORT", 29_500),
        generation=_number("QUORATE_GENERATION", 1),
        run=os.environ.get("QUORATE_RUN", ""),
        node=os.environ.get("QUORATE_NODE", ""),
    )


def lease() -> Lease | None:
    """Return the bounds of the round that the run started in; None if its pool has no rounds."""
    told = os.environ.get(LEASE_SECONDS)
    if told is None:
        return None
    return Lease(
        steps=_number(LEASE_STEPS, 0), seconds=float(told), until_ms=_number(LEASE_UNTIL_MS, 0)
    )


def stop_requested() -> bool:
    """Return whether this process must save its work and exit; False without Quorate."""
    return _told.is_set() or notice() is not None


def notice() -> Notice | None:
    """Return the order to stop, with its deadline; None while the run may continue."""
    place = os.environ.get(NOTICE, NOTICE_FILE)
    found = None if _folder() is None else _read(place)
    if found is None or found["generation"] != world().generation:
        return None
    return Notice(kind=found["kind"], deadline_ms=found["deadline_ms"])


def checkpoints() -> Path:
    """Return the folder for checkpoints, which is kept across all starts of the run.

    Without Quorate the folder is below the working directory of the process.
    """
    found = (_folder() or Path()) / CHECKPOINTS
    found.mkdir(parents=True, exist_ok=True)
    return found


def last_checkpoint() -> Checkpoint | None:
    """Return the checkpoint that was reported last; None if there is none yet."""
    found = _read(CHECKPOINT_FILE)
    if found is None:
        return None
    return Checkpoint(path=Path(found["path"]), step=found["step"])


def saved(path: str | os.PathLike[str], step: int) -> None:
    """Report that a checkpoint is complete: the work can continue from it after ``step``."""
    _write(CHECKPOINT_FILE, {"path": str(Path(path).absolute()), "step": step, "at_ms": _now_ms()})


def report(step: int, **figures: float) -> None:
    """Report that ``step`` was done, with figures such as ``loss``; a no-op without Quorate.

    If a write fails, the work continues, and the failure is logged once.
    """
    run_folder = _folder()
    if run_folder is None:
        return
    line = json.dumps(
        {"step": step, "at_ms": _now_ms(), "generation": world().generation, "figures": figures}
    )
    try:
        _note_step(run_folder / STEPS, line)
    except OSError as error:
        _warn_once(f"quorate: step {step} is not recorded, and later steps may be lost: {error}")


def _note_step(folder: Path, line: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"rank-{world().rank}.jsonl"
    with path.open("a") as file:
        file.write(line + "\n")
        is_long = file.tell() > STEPS_BYTES_MAX
    if is_long:
        path.replace(path.with_suffix(".old.jsonl"))


def done() -> None:
    """Report that the run's work is complete, even after a warning; a no-op without Quorate."""
    if _folder() is not None:
        _write(DONE_FILE, {"generation": world().generation, "at_ms": _now_ms()})


# --- Files and the signal ---


def _warn_once(text: str) -> None:
    if not _warned.is_set():
        _warned.set()
        print(text, file=sys.stderr, flush=True)  # noqa: T201 - into the run's output


def _folder() -> Path | None:
    found = os.environ.get(FOLDER)
    return Path(found) if found else None


def _number(name: str, otherwise: int) -> int:
    found = os.environ.get(name, "")
    return int(found) if found.isdigit() else otherwise


def _now_ms() -> int:
    return int(time.time() * 1_000)


def _read(name: str) -> dict[str, Any] | None:
    try:
        found = json.loads(((_folder() or Path()) / name).read_bytes())
    except FileNotFoundError:
        return None
    return found if isinstance(found, dict) else None


def _write(name: str, content: Mapping[str, object]) -> None:
    """Replace a file atomically, so that no reader sees half of it."""
    path = (_folder() or Path()) / name
    draft = path.with_name(f".{name}.{os.getpid()}")
    draft.write_text(json.dumps(content))
    draft.replace(path)


_told = threading.Event()
_warned = threading.Event()


def _attend() -> None:
    """Handle ``SIGTERM`` from now on, if this is the main thread of a process of a run."""
    is_ours = os.environ.get(FOLDER) and threading.current_thread() is threading.main_thread()
    if is_ours and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, _note)
        os.register_at_fork(after_in_child=_forget)


def _note(number: int, frame: object) -> None:
    del number, frame
    _told.set()


def _forget() -> None:
    """Restore the default handler of SIGTERM in a child process that this process has forked."""
    if signal.getsignal(signal.SIGTERM) is _note:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


_attend()
