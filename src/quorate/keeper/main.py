"""The loop of a keeper: look at what is wanted, do the next step, say what has become of it."""

from __future__ import annotations

import fcntl
import json
import os
import select
import selectors
import signal
import socket
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from quorate.keeper import processes
from quorate.keeper.output import OutputWriter
from quorate.keeper.processes import StartError
from quorate.keeper.ranks import LOOPBACK, Rank, ranks_of
from quorate.keeper.steps import Gang, Kill, Rest, Start, Warn, gone, next_step
from quorate.keeper.wanted import (
    LOCK_FILE,
    OUTPUT,
    POKE_FIFO,
    ROOM_FIFO,
    Exited,
    Status,
    Wanted,
    read_status,
    read_wanted,
    replace_file,
    write,
)
from quorate.runtime import DONE_FILE, NOTICE_FILE

LOSSES_MAX: Final = 3
"""How often work is started anew whose keeper was killed, before the run fails."""
CODE_LOST: Final = 137
FAILURE_GRACE_MS: Final = 10_000
"""How long the others get at most when one process has failed: nothing comes of their work."""
KILL_EVERY_S: Final = 0.05
"""How often what is to die is killed again: it may have forked meanwhile."""
LOCK_TRIES: Final = 20
LOCK_EVERY_S: Final = 0.02
READ_BYTES: Final = 64 * 1024
WORDS_BYTES_MAX: Final = 200
"""How much of its last line is told when a process fails."""

_Source = tuple[int, str, str]
"""Rank, node and stream."""


@dataclass(slots=True)
class _Process:
    rank: Rank
    pid: int
    code: int | None = None
    last_words: bytes = b""


@dataclass(slots=True)
class _Work:
    """The processes of one generation.

    ``failure`` is the code of the first one that failed, and the cause.
    """

    gang: Gang
    by_pid: dict[int, _Process] = field(default_factory=dict)
    failure: tuple[int, str] | None = None

    @property
    def running(self) -> list[_Process]:
        """Those that have not ended."""
        return [each for each in self.by_pid.values() if each.code is None]


class Keeper:
    """Keeps the run of one folder. One at a time: whoever has the lock."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._status = read_status(folder)
        self._before = processes.adopt()
        self._output = OutputWriter(folder / OUTPUT)
        self._selector = selectors.DefaultSelector()
        self._poke = os.open(folder / POKE_FIFO, os.O_RDWR | os.O_NONBLOCK)
        self._selector.register(self._poke, selectors.EVENT_READ, None)
        self._work: _Work | None = None
        self._told: Status | None = None
        self._wanted = self._read_wanted()
        self._wake()

    def run(self) -> None:
        """Work until nothing is left to be done."""
        self._clear_up()
        while True:
            self._reap()
            until_ms = self._take_steps()
            self._tell()
            if self._is_finished():
                return
            self._sleep(until_ms)

    # --- Deciding ---

    def _take_steps(self) -> int | None:
        """Do what is to be done now; return until when there is nothing else, None if not known."""
        while True:
            gang = None if self._work is None else self._work.gang
            step = next_step(self._wanted, gang, self._status.exited, _now_ms())
            match step:
                case Rest():
                    return step.until_ms
                case Start():
                    self._start()
                case Warn():
                    self._warn(step)
                case Kill():
                    self._kill()

    def _is_finished(self) -> bool:
        exited = self._status.exited
        is_over = exited is not None and exited.life == self._wanted.life
        return self._work is None and (is_over or not self._wanted.parts)

    # --- Doing ---

    def _clear_up(self) -> None:
        """End what an earlier keeper left behind when it was killed, and count the loss."""
        status = self._status
        if not status.slots:
            return
        while processes.kill_leftovers(self._folder):
            time.sleep(KILL_EVERY_S)
        losses = status.losses + 1
        exited = status.exited
        if losses > LOSSES_MAX:
            note = f"its work was lost {losses} times together with its keeper; look at the machine"
            exited = Exited(life=status.life, code=CODE_LOST, note=note)
        self._say(f"the work was lost, {losses} of at most {LOSSES_MAX} times")
        self._status = replace(status, losses=losses, slots=(), exited=exited)

    def _start(self) -> None:
        wanted = self._wanted
        generation = self._status.generation + 1
        losses = self._status.losses if self._status.life == wanted.life else 0
        ranks = ranks_of(wanted.work, wanted.slots, _free_port(), generation)
        for name in (NOTICE_FILE, DONE_FILE):
            (self._folder / name).unlink(missing_ok=True)
        # Said before it is done: if this keeper dies now, the next one looks for what it left.
        self._put(
            replace(
                self._status,
                life=wanted.life,
                boot=processes.boot_id(),
                generation=generation,
                losses=losses,
                slots=wanted.slots,
            )
        )
        self._say(f"start {generation}: {len(ranks)} processes on {len(wanted.slots)} GPUs")
        work = self._work = _Work(Gang(life=wanted.life, slots=frozenset(wanted.slots)))
        for rank in ranks:
            env = processes.environment(wanted.work, rank, self._folder, os.environ)
            try:
                pid, out, err = processes.start(wanted.work, env, self._before)
            except StartError as error:
                self._say(str(error))
                work.failure = (error.code, str(error))
                self._kill()
                return
            work.by_pid[pid] = _Process(rank, pid)
            for stream, fd in (("out", out), ("err", err)):
                source: _Source = (rank.number, rank.node, stream)
                self._selector.register(fd, selectors.EVENT_READ, (pid, source))

    def _warn(self, step: Warn) -> None:
        work = self._work
        assert work is not None
        work.gang = replace(work.gang, stop_by_ms=step.by_ms)
        notice = {
            "kind": step.kind,
            "deadline_ms": step.by_ms,
            "generation": self._status.generation,
        }
        replace_file(self._folder / NOTICE_FILE, json.dumps(notice).encode())
        left_s = max(0, step.by_ms - _now_ms()) / 1_000
        self._say(f"told to {step.kind}: {left_s:.0f} s to save and to exit")
        lost = [each for each in work.running if not step.lost.isdisjoint(each.rank.slots)]
        processes.kill_ranks([each.rank for each in lost], {e.rank.number: e.pid for e in lost})
        processes.warn(each.pid for each in work.running)

    def _kill(self) -> None:
        work = self._work
        assert work is not None
        if work.gang.stop_by_ms is not None and work.running:
            self._say("its time is over, and its processes are killed")
        work.gang = replace(work.gang, is_killed=True)
        processes.kill_all(work.by_pid)

    # --- Seeing ---

    def _reap(self) -> None:
        """Note which processes have ended, and conclude when the last one has gone."""
        ended, is_any_left = processes.reap()
        work = self._work
        if work is None:
            return
        for pid, code in ended:
            process = work.by_pid.get(pid)
            if process is not None:
                process.code = code
                self._judge(work, process, code)
        if work.running and not work.gang.is_killed:
            return
        if is_any_left:
            # The processes of the run have ended and left others behind, or are being killed.
            work.gang = replace(work.gang, is_killed=True)
            processes.kill_all(work.by_pid)
            return
        self._conclude(work)

    def _judge(self, work: _Work, process: _Process, code: int) -> None:
        """Have the others stop when one has failed that nobody told to stop."""
        gang = work.gang
        is_told = gang.stop_by_ms is not None or gang.is_killed
        if code == 0 or is_told or work.failure is not None:
            return
        self._pump(process.pid)
        rank = process.rank
        how = f"exited with code {code}"
        if code > processes.CODE_SIGNAL:
            how = f"was killed by {signal.Signals(code - processes.CODE_SIGNAL).name}"
        words = process.last_words.decode(errors="replace")
        note = f"rank {rank.number} on {rank.node} {how}" + (f": {words}" if words else "")
        work.failure = (code, note)
        self._say(note)
        by_ms = _now_ms() + min(FAILURE_GRACE_MS, self._wanted.work.grace_ms)
        self._warn(Warn(by_ms=by_ms, kind="stop", lost=frozenset()))

    def _conclude(self, work: _Work) -> None:
        """Note how the work has ended, now that nothing of it is left."""
        for key in [key for key in self._selector.get_map().values() if key.data]:
            while self._take(key):
                pass
        exited = self._status.exited
        life = work.gang.life
        if work.failure is not None:
            code, note = work.failure
            exited = Exited(life=life, code=code, note=note)
        elif work.gang.stop_by_ms is None:
            if all(each.code == 0 for each in work.by_pid.values()):
                exited = Exited(life=life, code=0, note="")
        elif self._is_done():
            exited = Exited(life=life, code=0, note="it had said that it was done")
        self._work = None
        self._status = replace(self._status, slots=(), exited=exited)

    def _is_done(self) -> bool:
        try:
            found = json.loads((self._folder / DONE_FILE).read_bytes())
        except FileNotFoundError:
            return False
        return bool(found["generation"] == self._status.generation)

    def _sleep(self, until_ms: int | None) -> None:
        """Wait until something happens, and take what was written meanwhile."""
        timeout_s = None if until_ms is None else max(0.0, until_ms / 1_000 - time.time())
        if self._work is not None and self._work.gang.is_killed:
            timeout_s = KILL_EVERY_S
        for key, _ in self._selector.select(timeout_s):
            if key.fileobj == self._poke:
                os.read(self._poke, READ_BYTES)
                self._wanted = self._read_wanted()
            elif not key.data:
                os.read(key.fd, READ_BYTES)
            else:
                self._take(key)

    def _take(self, key: selectors.SelectorKey) -> bool:
        """Keep what a process has written; return False at the end of it."""
        pid, source = key.data
        data = os.read(key.fd, READ_BYTES)
        if not data:
            self._output.finish(source, _now_ms())
            self._selector.unregister(key.fd)
            os.close(key.fd)
            return False
        self._output.take(source, data, _now_ms())
        process = None if self._work is None else self._work.by_pid.get(pid)
        if process is not None and source[2] == "err" and data.strip():
            process.last_words = data.strip().rsplit(b"\n", 1)[-1][-WORDS_BYTES_MAX:]
        return True

    def _pump(self, pid: int) -> None:
        """Take what a process that has ended had written and nobody has read yet."""
        for key, _ in self._selector.select(0):
            while key.data and key.data[0] == pid and _has_more(key.fd) and self._take(key):
                pass

    # --- Telling ---

    def _tell(self) -> None:
        """Write down what has become of it, if that has changed, and tell the daemon."""
        gang = None if self._work is None else self._work.gang
        told = replace(self._status, gone=gone(self._wanted, gang))
        if told != self._told:
            self._put(told)
            self._told = told
            notify(self._folder)

    def _put(self, status: Status) -> None:
        self._status = status
        write(self._folder, status)

    def _say(self, text: str) -> None:
        self._output.say(text, _now_ms())

    def _read_wanted(self) -> Wanted:
        found = read_wanted(self._folder)
        assert found is not None, "a keeper is started when something is wanted"
        return found

    def _wake(self) -> None:
        """Have the end of a child wake the loop."""
        reading, writing = os.pipe()
        os.set_blocking(reading, False)
        os.set_blocking(writing, False)
        self._selector.register(reading, selectors.EVENT_READ, ())
        signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        for unheard in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
            # Whoever ends a session, or a service, does not end the work it has started. Not
            # ignored, which the work would inherit.
            signal.signal(unheard, lambda *_: None)


def keep(folder: Path) -> int:
    """Keep the run of ``folder`` until nothing is left to be done; return 0.

    Does nothing where somebody else keeps it.
    """
    lock = os.open(folder / LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    if not _locked(lock):
        return 0
    Keeper(folder).run()
    os.close(lock)
    # Once more, now that the lock is free: what was wanted meanwhile needs another keeper.
    notify(folder)
    return 0


def _locked(lock: int) -> bool:
    """Return whether nobody else has the lock; the daemon may have it for an instant, to look."""
    for _ in range(LOCK_TRIES):
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(LOCK_EVERY_S)
        else:
            return True
    return False


def notify(folder: Path) -> None:
    """Tell the daemon that there is news of this run; it reads them later if it is not there."""
    try:
        room = os.open(folder.parent.parent / ROOM_FIFO, os.O_WRONLY | os.O_NONBLOCK)
    except OSError:
        return  # Nobody listens; the files stay.
    try:
        os.write(room, f"{folder.name}\n".encode())
    except BlockingIOError:
        pass  # So much is waiting to be read that all runs will be looked at.
    finally:
        os.close(room)


def _has_more(fd: int) -> bool:
    return bool(select.select([fd], [], [], 0)[0])


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        port: int = probe.getsockname()[1]
        return port


def _now_ms() -> int:
    return int(time.time() * 1_000)
