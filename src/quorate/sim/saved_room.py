"""A paused simulation as data: the actions of its timers, and the state of its machine room.

Events of leases and specs of runs are in the ledger, so this module does not save them.
"""

from __future__ import annotations

from msgspec import Struct

from quorate.ledger.chain import Head
from quorate.ports.executor_port import WipeDone


class LeaseStops(Struct, frozen=True, tag="lease-stops"):
    """A stopping lease ends, unless it was stopped more than ``stops`` times."""

    lease: str
    stops: int


class WorkEnds(Struct, frozen=True, tag="work-ends"):
    """The work of ``run`` ends, unless its GPUs have changed since plan number ``plan``."""

    run: str
    plan: int


class LossNoticed(Struct, frozen=True, tag="loss-noticed"):
    """The run of a lost lease fails, unless the ledger has dealt with the lease."""

    lease: str


class WipeEnds(Struct, frozen=True, tag="wipe-ends"):
    """The wipe of ``node`` after ``claim`` ends."""

    node: str
    claim: str
    is_clean: bool


Timer = LeaseStops | WorkEnds | LossNoticed | WipeEnds
"""An action in the machine room that becomes due at a set time."""


class SavedLease(Struct, frozen=True):
    """An open lease in the machine room."""

    lease: str
    lost: tuple[str, ...]
    is_broken: bool
    stopping_since_ms: int | None
    stop_by_ms: int | None
    stops: int
    is_gone: bool


class SavedWork(Struct, frozen=True):
    """The work of a run that has not ended."""

    run: str
    leases: tuple[str, ...]
    done_gpu_ms: int
    saved_gpu_ms: int
    width: int
    since_ms: int
    plan: int
    has_exited: bool
    code: int
    speed_ppm: int
    lost_gpu_ms: int
    best_gpu_ms: int
    better_ms: int


class SavedRoom(Struct, frozen=True, kw_only=True):
    """All data of the simulated executor, except data in the ledger and in the jobs."""

    leases: tuple[SavedLease, ...]
    works: tuple[SavedWork, ...]
    ended: tuple[str, ...]
    exited: tuple[str, ...]
    gone: tuple[str, ...]
    lost_nodes: tuple[str, ...]
    term: int
    wrongs: tuple[str, ...]
    dirty: dict[str, str]
    wiping: dict[str, str]
    wiped: tuple[WipeDone, ...]


class SavedPlay(Struct, frozen=True, kw_only=True):
    """The state of a paused simulation, except its ledger, which ends at ``head``.

    ``timers`` has (instant, sequence, action); an action of None is the arrival of the next job.
    """

    now_ms: int
    due_ms: int | None
    came: int
    refused: tuple[str, ...]
    cpu_s: float
    sequence: int
    timers: tuple[tuple[int, int, Timer | None], ...]
    room: SavedRoom
    head: Head
