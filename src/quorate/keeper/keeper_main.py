"""The loop of a keeper: read the wanted state, do the next step, write the status."""

from __future__ import annotations

import json
import math
import os
import selectors
import signal
import sys
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from quorate.keeper import cgroups, processes, sessions
from quorate.keeper.confinement import Confinement, confined
from quorate.keeper.job_files import read_job_file
from quorate.keeper.master_port import free_port
from quorate.keeper.next_step import (
    Drop,
    Dues,
    Gang,
    Kill,
    Rest,
    Start,
    Warn,
    gone,
    next_step,
    on_own_clock,
)
from quorate.keeper.output import OutputWriter
from quorate.keeper.ranks import LOOPBACK, Rank, ranks_of
from quorate.keeper.start_errors import StartError
from quorate.keeper.streams import READ_BYTES, Streams
from quorate.keeper.wanted import (
    OUTPUT,
    POKE_FIFO,
    ROOM_FIFO,
    Exited,
    Slot,
    Status,
    UnreadableError,
    read_status,
    read_wanted,
    replace_file,
    write,
)
from quorate.runtime import DONE_FILE, NOTICE_FILE

LOSSES_MAX: Final = 3
"""How many times a run's work is restarted after its keeper was killed and the work was lost.

After one more loss, the run fails.
"""
UNDISTURBED_MS: Final = 3_600_000
"""Earlier losses of a run's work no longer count after the work has run for ``UNDISTURBED_MS``."""
CODE_LOST: Final = 137
FAILURE_GRACE_MS: Final = 10_000
"""How long the other processes of a run may still run after one process has failed.

The time is short, because the work of the run is lost anyway.
"""
KILL_EVERY_S: Final = 0.05
"""The interval at which a run's processes are killed again, because they may have forked."""
AGAIN_S: Final = 1.0
"""How long a keeper waits before it repeats a failed write."""


@dataclass(slots=True)
class _Process:
    rank: Rank
    pid: int
    code: int | None = None


@dataclass(slots=True)
class _Work:
    """The processes of one generation, which is one start of the run's work.

    ``failure`` has the exit code of the first process that failed, and the cause. ``is_dropping``
    is True while processes on lost slots are being killed. ``is_stuck`` is True after the keeper
    has reported processes that it could not kill. ``confinement`` has the protections of the
    processes; it is None if the processes run as the service's user.
    """

    gang: Gang
    confinement: Confinement | None = None
    by_pid: dict[int, _Process] = field(default_factory=dict)
    failure: tuple[int, str] | None = None
    is_dropping: bool = False
    is_stuck: bool = False

    @property
    def running(self) -> list[_Process]:
        """The processes that have not ended."""
        return [each for each in self.by_pid.values() if each.code is None]


class Keeper:
    """Keeps the run of one folder; the folder's lock ensures that it has only one keeper."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._before = processes.adopt()
        self._output = OutputWriter(folder / OUTPUT)
        if self._output.trouble:
            print(self._output.trouble, file=sys.stderr, flush=True)  # noqa: T201 - keeper.log
        self._selector = selectors.DefaultSelector()
        self._streams = Streams(self._output, self._selector)
        self._poke = os.open(folder / POKE_FIFO, os.O_RDWR | os.O_NONBLOCK)
        self._selector.register(self._poke, selectors.EVENT_READ, None)
        self._work: _Work | None = None
        self._told: Status | None = None
        self._complaint = ""
        self._status = self._read_status()
        wanted = read_wanted(folder)
        assert wanted is not None, "a keeper is only started with a wanted state"
        self._dues: Dues = {}
        self._wanted, self._dues = on_own_clock(wanted, self._dues, _ahead_ms())
        self._wake()

    def run(self) -> None:
        """Take steps until nothing is left to do."""
        self._clear_up()
        while True:
            self._reap()
            until_ms = self._take_steps()
            is_told = self._tell()
            if is_told and self._is_finished():
                return
            self._sleep(until_ms if is_told else _soon_ms())

    def close(self) -> None:
        """Stop listening, so that a daemon that sends a notice sees that the keeper has ended."""
        os.close(self._poke)
        self._output.close()

    # --- Deciding ---

    def _take_steps(self) -> int | None:
        """Take the steps that are due.

        Return the time of the next step, by ``_clock_ms``; None if no step is due until something
        changes.
        """
        while True:
            gang = None if self._work is None else self._work.gang
            step = next_step(self._wanted, gang, self._status.exited, _clock_ms())
            match step:
                case Rest():
                    return step.until_ms
                case Start():
                    if not self._start():
                        return _soon_ms()
                case Warn():
                    self._warn(step)
                case Drop():
                    self._drop(step.lost)
                case Kill():
                    self._kill()

    def _is_finished(self) -> bool:
        exited = self._status.exited
        is_over = exited is not None and exited.life == self._wanted.life
        return self._work is None and (is_over or not self._wanted.parts)

    # --- Doing ---

    def _clear_up(self) -> None:
        """Kill the processes that a killed keeper left behind, and count the loss."""
        while processes.kill_leftovers(self._folder):
            time.sleep(KILL_EVERY_S)
        status = self._status
        if not status.slots:
            return
        exited = status.exited
        if status.boot != sessions.boot_id():
            self._say("the machine was restarted, so the work is restarted")
            self._status = replace(status, slots=())
            return
        losses = 1 if was_undisturbed(status, _now_ms()) else status.losses + 1
        if losses > LOSSES_MAX:
            note = f"the run's work and keeper were lost together {losses} times; check the machine"
            exited = Exited(life=status.life, code=CODE_LOST, note=note)
        self._say(f"the work was lost, {losses} of at most {LOSSES_MAX} times")
        self._status = replace(status, losses=losses, slots=(), exited=exited)

    def _start(self) -> bool:
        """Start all processes.

        Return False if the start must wait because the disk cannot be written.
        """
        wanted = self._wanted
        generation = self._status.generation + 1
        losses = self._status.losses if self._status.life == wanted.life else 0
        status = replace(
            self._status,
            life=wanted.life,
            boot=sessions.boot_id(),
            generation=generation,
            losses=losses,
            since_ms=_now_ms(),
            slots=wanted.slots,
        )
        try:
            if wanted.work.isolation is None:
                for name in (NOTICE_FILE, DONE_FILE):
                    (self._folder / name).unlink(missing_ok=True)
            sessions.note(self._folder)
            # The start is recorded first, so that the next keeper knows of the loss if this one
            # dies now.
            write(self._folder, status)
        except OSError as error:
            self._complain(error)
            return False
        self._status = status
        ranks = ranks_of(wanted.work, wanted.slots, free_port(LOOPBACK), generation)
        gpus = _counted(len(wanted.slots), "GPU", "s")
        self._say(f"start {generation}: {_counted(len(ranks), 'process', 'es')} on {gpus}")
        self._work = _Work(Gang(life=wanted.life, slots=frozenset(wanted.slots)))
        self._start_ranks(self._work, ranks)
        return True

    def _start_ranks(self, work: _Work, ranks: list[Rank]) -> None:
        """Start a process for each rank; if one cannot be started, kill those already started."""
        asked = self._wanted.work
        try:
            base = self._confine(work)
            folder = self._folder if work.confinement is None else work.confinement.folder
            for rank in ranks:
                env = processes.environment(asked, rank, folder, base)
                pid, out, err = processes.start(asked, env, self._before, work.confinement)
                work.by_pid[pid] = _Process(rank, pid)
                self._streams.add(pid, (rank.number, rank.node, "out"), out)
                self._streams.add(pid, (rank.number, rank.node, "err"), err)
        except StartError as error:
            self._say(str(error))
            work.failure = (error.code, str(error))
            self._kill()
        if work.confinement is not None:
            try:
                sessions.note(self._folder, work.by_pid)
            except OSError as error:
                self._complain(error)  # Leftovers can still be found by their mark and cgroup.

    def _confine(self, work: _Work) -> dict[str, str]:
        """Set up the processes' protections, if any, and return the processes' common environment.

        Raises ``StartError``.
        """
        isolation = self._wanted.work.isolation
        if isolation is None:
            return processes.bare(os.environ)
        work.confinement = confined(isolation, self._folder)
        self._say(work.confinement.summary())
        return work.confinement.environment(os.environ)

    def _warn(self, step: Warn) -> None:
        work = self._work
        assert work is not None
        work.gang = replace(work.gang, stop_by_ms=step.by_ms)
        notice = {
            "kind": step.kind,
            "deadline_ms": step.by_ms + _ahead_ms(),
            "generation": self._status.generation,
        }
        text = json.dumps(notice).encode()
        try:
            if work.confinement is None:
                replace_file(self._folder / NOTICE_FILE, text)
            else:
                work.confinement.show_notice(text)
        except OSError as error:
            self._complain(error)  # The signal below still warns, but has no deadline.
        left_s = max(0, step.by_ms - _clock_ms()) / 1_000
        if work.running:
            self._say(f"told to {step.kind}: {left_s:.0f} s to save and to exit")
        self._drop(step.lost)
        processes.warn_all(each.pid for each in work.running)

    def _drop(self, lost: frozenset[Slot]) -> None:
        """Kill the processes on ``lost`` slots.

        ``is_dropping`` is then True until all of these processes have ended.
        """
        work = self._work
        assert work is not None
        if lost - work.gang.lost:
            nodes = sorted({node for node, _ in lost})
            self._say(f"{', '.join(nodes)} was lost, and its processes are killed")
        work.gang = replace(work.gang, lost=lost)
        there = [each for each in work.by_pid.values() if each.rank.is_hit(lost)]
        pids = [each.pid for each in there if each.code is None]
        leaders = [] if work.confinement is None else [each.pid for each in there]
        work.is_dropping = bool(lost) and processes.kill_ranks(
            [each.rank for each in there], pids, leaders
        )

    def _kill(self) -> None:
        work = self._work
        assert work is not None
        if work.gang.stop_by_ms is not None:
            self._say("the run's grace period is over, and its processes are killed")
        self._kill_rest(work)

    def _kill_rest(self, work: _Work) -> None:
        """Kill all remaining processes; no process starts until all of them have ended.

        Processes that the keeper may not kill are reported once.
        """
        work.gang = replace(work.gang, is_killed=True)
        unkilled = processes.kill_all(each.pid for each in work.running)
        if unkilled and not work.is_stuck:
            work.is_stuck = True
            which = ", ".join(str(pid) for pid in unkilled)
            self._say(
                f"cannot kill {which}, because it runs as another user; its GPUs become free when "
                "it has ended"
            )

    # --- Seeing ---

    def _reap(self) -> None:
        """Record the ended processes, and conclude the work after the last one."""
        ended, is_any_left = processes.reap()
        work = self._work
        if work is None:
            return
        for pid, code in ended:
            process = work.by_pid.get(pid)
            if process is not None:
                process.code = code
                self._judge(work, process, code)
        if not is_any_left:
            self._conclude(work)
        elif work.gang.is_killed or not (work.running or work.gang.stop_by_ms is not None):
            # Some processes are left: the run is being killed, or only descendants still work. But
            # descendants that were warned keep all of their grace, even if the shell that started
            # them has ended.
            self._kill_rest(work)
        elif work.is_dropping:
            self._drop(work.gang.lost)

    def _judge(self, work: _Work, process: _Process, code: int) -> None:
        """Record the first failure of a process that was not stopped; warn the other processes."""
        gang = work.gang
        is_told = gang.stop_by_ms is not None or gang.is_killed
        if code == 0 or is_told or work.failure is not None:
            return
        self._streams.catch_up(process.pid, _now_ms())
        rank, words = process.rank, self._streams.last_words(process.pid)
        how = processes.how_it_ended(code)
        note = f"rank {rank.number} on {rank.node} {how}" + (f": {words}" if words else "")
        work.failure = (processes.shell_code(code), note)
        self._say(note)
        by_ms = _clock_ms() + min(FAILURE_GRACE_MS, self._wanted.work.grace_ms)
        self._warn(Warn(by_ms=by_ms, kind="stop", lost=frozenset()))

    def _conclude(self, work: _Work) -> None:
        """Record how the work has ended, after its last process."""
        self._streams.end(_now_ms())
        exited = self._status.exited
        life = work.gang.life
        if work.failure is not None:
            code, note = work.failure
            exited = Exited(life=life, code=code, note=note)
        elif work.gang.stop_by_ms is None:
            if all(each.code == 0 for each in work.by_pid.values()):
                exited = Exited(life=life, code=0, note="")
        elif self._is_done(work):
            exited = Exited(life=life, code=0, note="the work had reported that it was done")
        if work.confinement is not None and work.confinement.cgroup is not None:
            cgroups.remove(work.confinement.cgroup)
        self._work = None
        self._status = replace(self._status, slots=(), exited=exited)

    def _is_done(self, work: _Work) -> bool:
        folder = self._folder if work.confinement is None else work.confinement.folder
        try:
            text = read_job_file(folder, DONE_FILE)
            return text is not None and bool(
                json.loads(text)["generation"] == self._status.generation
            )
        except (OSError, ValueError, KeyError, TypeError) as error:
            self._say(f"{DONE_FILE} was not written by quorate.runtime, and is ignored: {error}")
            return False

    def _sleep(self, until_ms: int | None) -> None:
        """Wait for the next event, and read the processes' output while waiting."""
        timeout_s = None if until_ms is None else max(0.0, until_ms / 1_000 - time.monotonic())
        if self._work is not None and (self._work.gang.is_killed or self._work.is_dropping):
            timeout_s = KILL_EVERY_S
        for key, _ in self._selector.select(timeout_s):
            if key.fileobj == self._poke:
                os.read(self._poke, READ_BYTES)
                self._look()
            elif not key.data:
                os.read(key.fd, READ_BYTES)
            else:
                self._streams.take(key, _now_ms())

    # --- Telling ---

    def _tell(self) -> bool:
        """If the status has changed, write it and notify the daemon.

        Return False if the write fails and must be tried again.
        """
        gang = None if self._work is None else self._work.gang
        told = replace(self._status, gone=gone(self._wanted, gang))
        if told == self._told:
            return True
        try:
            write(self._folder, told)
        except OSError as error:
            self._complain(error)
            return False
        self._status = self._told = told
        self._complaint = ""
        notify(self._folder)
        return True

    def _say(self, text: str) -> None:
        self._output.say(text, _now_ms())

    def _complain(self, error: OSError) -> None:
        """Report that a file cannot be written, unless the last report was the same."""
        if str(error) != self._complaint:
            self._complaint = str(error)
            self._say(f"a file cannot be written; the keeper tries again: {error}")

    def _look(self) -> None:
        """Read the wanted state; if it cannot be read, keep the previous state."""
        try:
            wanted = read_wanted(self._folder)
            if wanted is not None:
                self._wanted, self._dues = on_own_clock(wanted, self._dues, _ahead_ms())
        except (UnreadableError, OSError) as error:
            self._say(
                f"the wanted state cannot be read, so the previous state is still wanted: {error}"
            )

    def _read_status(self) -> Status:
        try:
            return read_status(self._folder) or Status()
        except UnreadableError as error:
            self._say(f"the state of the work is not known, so the work is restarted: {error}")
            return Status()

    def _wake(self) -> None:
        """Wake the loop when a child ends, and survive the signals that end a session."""
        reading, writing = os.pipe()
        os.set_blocking(reading, False)
        os.set_blocking(writing, False)
        self._selector.register(reading, selectors.EVENT_READ, ())
        signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        for unheard in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
            # The end of a session or of the service must not end the work. These signals are
            # handled and not ignored, because the work would inherit ignored signals.
            signal.signal(unheard, lambda *_: None)


def was_undisturbed(status: Status, now_ms: int) -> bool:
    """Return whether the lost work had run long enough to ignore earlier losses."""
    return status.since_ms > 0 and now_ms - status.since_ms >= UNDISTURBED_MS


def notify(folder: Path) -> None:
    """Notify the daemon of the run's new status; if it is down, it reads the status later."""
    try:
        room = os.open(folder.parent.parent / ROOM_FIFO, os.O_WRONLY | os.O_NONBLOCK)
    except OSError:
        return  # The daemon is not listening; it reads the files at its start.
    try:
        os.write(room, f"{folder.name}\n".encode())
    except BlockingIOError:
        pass  # The pipe is full of notices; the daemon will then read the statuses of all runs.
    finally:
        os.close(room)


def _soon_ms() -> int:
    return _clock_ms() + round(AGAIN_S * 1_000)


def _counted(count: int, one: str, ending: str) -> str:
    return f"{count} {one}" + (ending if count != 1 else "")


def _clock_ms() -> int:
    """Return the time on the monotonic clock, which cannot be set.

    Deadlines are compared with this clock.
    """
    return int(time.monotonic() * 1_000)


def _ahead_ms() -> int:
    """Return the time of day minus ``_clock_ms``, rounded down so that no deadline is early."""
    return math.floor((time.time() - time.monotonic()) * 1_000)


def _now_ms() -> int:
    return int(time.time() * 1_000)
