"""The program from which reader processes are forked, and the main loop of each reader.

The program has imported everything that readers need, and waits for orders on a socket
(``reader_server``). When the socket is closed, because the service has ended for any reason, the
program kills its readers and ends. When the program is killed itself, its readers end, too, even
during an answer.
"""

from __future__ import annotations

import ctypes
import gc
import logging
import os
import pickle
import signal
import socket
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from selectors import EVENT_READ, DefaultSelector
from threading import Thread
from types import FrameType
from typing import Any, Final, NoReturn

from quorate.adapters.stores.store_urls import read_pages
from quorate.operations.operation import Effect
from quorate.operations.table import OPERATIONS
from quorate.ports.errors import QuorateError
from quorate.service.readers.message_socket import MessageSocket
from quorate.service.readers.reader_process import READY, ProcessConfig, SentQuestion, too_long
from quorate.service.readers.reader_server import END, ORDER, START
from quorate.service.readers.state_reader import Question, Reader, ReaderConfig
from quorate.service.reply import Reply
from quorate.views.failures import as_command_error

_LOG = logging.getLogger(__name__)

FOLLOW_S: Final = 0.5
"""The shortest pause before an idle reader reads the ledger again."""
FOLLOW_S_MAX: Final = 4.0
"""The longest pause of an idle reader; ten commits are read almost as fast as one commit."""
FEW_EVENTS: Final = 50
"""An idle reader that has read at most ``FEW_EVENTS`` events pauses longer before the next read."""
GLANCE_S: Final = 1.0
"""How long an idle reader waits for its store; a question that arrives meanwhile waits, too."""
NICE: Final = 5
"""The nice value of readers, so that commits come first if both need the same core."""
_PR_SET_PDEATHSIG: Final = 1

Prctl = Callable[..., Any]


def main() -> None:
    """Carry out orders from standard input, which is a socket, until the socket is closed."""
    # Only the service ends this process, whatever signal a terminal or supervisor sends.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    control = socket.socket(fileno=os.dup(0))
    with open(os.devnull, "rb") as nothing:  # noqa: PTH123 - a descriptor is what is needed
        os.dup2(nothing.fileno(), 0)
    for operation in OPERATIONS.values():
        if operation.effect is not Effect.STREAM:
            # Imports the modules that answer questions.
            operation.handle()
    # The garbage collector of a reader skips the objects that exist now. Readers share their memory
    # with this process, and if the collector visited an object, its memory would be copied.
    gc.collect()
    gc.freeze()
    _Server(control).run()


class _Server:
    """Forks readers and reaps them; has one thread, so that a fork copies no held lock."""

    def __init__(self, control: socket.socket) -> None:
        self._control = control
        self._prctl = find_prctl()
        # Readers have the reading end of this pipe, and get end-of-file when this process ends.
        self._alive = os.pipe()
        self._woken, self._wakes = socket.socketpair()
        self._pids: dict[int, int] = {}

    def run(self) -> None:
        """Carry out orders until the service has ended."""
        self._woken.settimeout(0)
        self._wakes.settimeout(0)
        # Only a signal that has a handler writes to the wake-up descriptor.
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self._wakes.fileno(), warn_on_full_buffer=False)
        with DefaultSelector() as selector:
            selector.register(self._control, EVENT_READ)
            selector.register(self._woken, EVENT_READ)
            while True:
                ready = {key.fileobj for key, _ in selector.select()}
                if self._woken in ready:
                    with suppress(BlockingIOError):
                        self._woken.recv(4_096)
                    self._reap()
                if self._control in ready and not self._take_order():
                    break
        # From here on, ended readers are not reaped. Signals must no longer write to the wake-up
        # socket, because it is closed next.
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for pid in self._pids.values():
            os.kill(pid, signal.SIGKILL)

    def _take_order(self) -> bool:
        """Carry out one order; return False if the service has ended."""
        try:
            data, passed, _, _ = socket.recv_fds(self._control, ORDER.size, 1)
            while data and len(data) < ORDER.size:
                data += self._control.recv(ORDER.size - len(data))
        except ConnectionError:
            return False
        if len(data) < ORDER.size:
            return False
        kind, number = ORDER.unpack(data)
        if kind == START and passed:
            self._fork(number, passed[0])
        if kind == END and number in self._pids:
            # The reader runs or has not been reaped, so no other process has its process id.
            os.kill(self._pids[number], signal.SIGKILL)
        for descriptor in passed:
            os.close(descriptor)
        return True

    def _fork(self, number: int, descriptor: int) -> None:
        server = os.getpid()
        try:
            pid = os.fork()
        except OSError as error:
            # The service finds the reader's socket closed, and requests another reader.
            sys.stderr.write(f"quorate: no reader can be started: {error}\n")
            return
        if pid == 0:
            self._become_reader(server, descriptor)
        self._pids[number] = pid

    def _become_reader(self, server: int, descriptor: int) -> NoReturn:
        """Answer questions in this process, then end it."""
        code = 1
        try:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            for each in (self._control, self._woken, self._wakes):
                each.close()
            alive, ours = self._alive
            os.close(ours)
            end_with_parent(server, alive, self._prctl)
            answer_questions(MessageSocket(socket.socket(fileno=descriptor)))
            code = 0
        except BaseException:  # noqa: BLE001 - the process's top frame
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(code)

    def _reap(self) -> None:
        for number, pid in list(self._pids.items()):
            if os.waitpid(pid, os.WNOHANG)[0]:
                del self._pids[number]


def find_prctl() -> Prctl | None:
    """Return Linux's ``prctl``; None on other systems."""
    try:
        found: Prctl = ctypes.CDLL(None, use_errno=True).prctl
    except (OSError, AttributeError):
        return None
    return found


def end_with_parent(parent: int, alive: int, prctl: Prctl | None) -> None:
    """Make this process end as soon as ``parent`` ends, whatever this process is doing.

    The kernel ends the process if it can (``prctl``); otherwise a thread waits for the end of the
    pipe ``alive``, whose other end only the parent has open.
    """
    if prctl is None or prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0) != 0:
        Thread(target=_end_at_end_of, args=(alive,), name="parent", daemon=True).start()
    if os.getppid() != parent:
        # The parent has ended before this was set up.
        os._exit(1)


def _end_at_end_of(alive: int) -> None:
    os.read(alive, 1)
    os._exit(1)


# --- In a reader ---


class _WorkSpentError(BaseException):
    """An answer has used up its CPU time; no error handler may catch this."""


class _SentClock:
    """The time that came with the last question, so that readers use the service's clock."""

    def __init__(self) -> None:
        self.sent_ms = 0

    def now_ms(self) -> int:
        """Return the time."""
        return self.sent_ms


def answer_questions(service: MessageSocket) -> None:
    """Answer questions of ``service`` from the ledger's head, until ``service`` is closed."""
    signal.signal(signal.SIGPROF, _spent)
    os.nice(NICE)
    try:
        service.send(READY)
        config = pickle.loads(service.receive())  # noqa: S301 - from the service itself
    except (EOFError, OSError):
        return
    assert isinstance(config, ProcessConfig), config
    clock = _SentClock()
    reader = Reader(
        ReaderConfig(
            # One connection for all look-ups: opening one takes longer than a look-up.
            reading=partial(read_pages, config.ledger, is_archive_kept=True),
            glancing=partial(read_pages, config.ledger, is_archive_kept=True, within_s=GLANCE_S),
            clock=clock,
            beside=config.beside,
            is_executed=config.is_executed,
        )
    )
    wait_s = FOLLOW_S
    while True:
        try:
            if not service.wait(wait_s):
                wait_s = next_wait_s(wait_s, _try_to(reader.read_on))
                continue
            sent = pickle.loads(service.receive())  # noqa: S301 - from the service itself
            assert isinstance(sent, SentQuestion), sent
            clock.sent_ms = sent.now_ms
            service.send(pickle.dumps(_answered(reader, sent)))
        except (EOFError, OSError):
            return


def _answered(reader: Reader, sent: SentQuestion) -> Reply | Exception:
    operation = OPERATIONS[sent.operation]
    question = Question(sent.caller, operation, sent.asked, sent.form, sent.seq)
    try:
        with _bounded(sent.cpu_s_max):
            return reader.reply(question)
    except _WorkSpentError:
        reader.forget()
        return too_long(sent.cpu_s_max)
    except Exception as error:  # noqa: BLE001 - sent to the service
        return _as_sent(error)


@contextmanager
def _bounded(cpu_s_max: float) -> Iterator[None]:
    """Raise ``_WorkSpentError`` in the ``with`` body when its CPU time exceeds ``cpu_s_max``."""
    signal.setitimer(signal.ITIMER_PROF, cpu_s_max)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def _spent(number: int, frame: FrameType | None) -> None:
    del number, frame
    raise _WorkSpentError


def next_wait_s(waited_s: float, events: int) -> float:
    """Return how long to pause after a pause of ``waited_s`` in which ``events`` events came."""
    return FOLLOW_S if events > FEW_EVENTS else min(2 * waited_s, FOLLOW_S_MAX)


def _try_to(read_on: Callable[[], int]) -> int:
    """Return how many events ``read_on`` has read; 0 if it raised."""
    try:
        return read_on()
    except (QuorateError, OSError):
        # The next caller gets the error.
        _LOG.debug("the ledger cannot be followed", exc_info=True)
        return 0


def _as_sent(error: Exception) -> Exception:
    """Return ``error`` as it is sent: as text for the caller, or as a bug with its traceback."""
    refusal = as_command_error(error)
    if refusal is not None:
        return refusal
    bug = RuntimeError(f"a reader failed: {type(error).__name__}: {error}")
    bug.add_note("".join(traceback.format_exception(error)))
    return bug
