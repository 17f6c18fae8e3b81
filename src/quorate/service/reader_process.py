"""A reader in a process of its own: its work never takes the interpreter from commits.

The service sends one question after another over a pipe and is sent each answer. The process
follows the ledger's file by itself. An answer that takes more CPU than its place allows is given
up, and the caller is refused; the state is then read anew, because the work may have been cut off
anywhere. A process that does not answer at all is ended, and another one is started.
"""

from __future__ import annotations

import logging
import os
import pickle
import signal
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from types import FrameType
from typing import Final

from msgspec import Struct

from quorate.adapters.store_pages import PagedReader
from quorate.answers.exits import CommandError, Exit
from quorate.operations.caller import Caller
from quorate.operations.desk import Signer
from quorate.operations.lengthy import CPU_S_MAX, Place, place_of
from quorate.operations.statuses import UNAVAILABLE, as_command_error
from quorate.operations.table import OPERATIONS
from quorate.ports.clock import Clock
from quorate.ports.errors import QuorateError
from quorate.ports.logs import Logs
from quorate.service.reader import Question, Reader, ReaderConfig
from quorate.service.reply import Form, Reply

_LOG = logging.getLogger(__name__)

FOLLOW_S: Final = 0.5
"""How long a process that has nothing to answer waits before it reads on."""
NICE: Final = 5
"""By how much commits go before reads where both want the same core."""
WALL_PER_CPU: Final = 10
"""How many seconds may pass for each that an answer may take of CPU, on a busy machine."""
_PRELOAD: Final = "quorate.service.reader_preload"
STARTS_MAX: Final = 2
"""How often a process is started for one question."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessConfig:
    """What a reader process is started with; sent to it once."""

    ledger: Path
    name: str
    signer: Signer | None
    is_executed: bool
    logs: Logs | None


@dataclass(frozen=True, slots=True)
class _Sent:
    """A question as it is sent: the operation by its name, and the time that it is now."""

    caller: Caller
    operation: str
    asked: Struct
    form: Form
    seq: int | None
    now_ms: int
    cpu_s_max: float


class _ToldClock:
    """The time that came with the last question: both processes go by the service's clock."""

    def __init__(self) -> None:
        self.told_ms = 0

    def now_ms(self) -> int:
        """Return the time."""
        return self.told_ms


class RemoteReader:
    """A reader process, started when it is first asked; for one thread at a time, but ``close``."""

    def __init__(
        self,
        config: ProcessConfig,
        clock: Clock,
        cpu_s_max: Mapping[Place, float] = CPU_S_MAX,
    ) -> None:
        self._config = config
        self._clock = clock
        self._cpu_s_max = cpu_s_max
        self._started: tuple[ForkServerProcess, Connection] | None = None
        self._is_closed = False

    def reply(self, question: Question) -> Reply:
        """Return the answer; raises ``CommandError`` when it is refused."""
        cpu_s_max = self._cpu_s_max[place_of(question.operation, question.asked)]
        sent = _Sent(
            question.caller,
            question.operation.name,
            question.asked,
            question.form,
            question.seq,
            self._clock.now_ms(),
            cpu_s_max,
        )
        data = pickle.dumps(sent)
        found = self._asked(data, cpu_s_max)
        if isinstance(found, Exception):
            raise found
        assert isinstance(found, Reply), found
        return found

    def follow(self) -> None:
        """Start the process, if there is none, so that the first question does not wait for it."""
        if self._started is None and not self._is_closed:
            self._started = self._start()

    def forget(self) -> None:
        """End the process, which is started again when it is asked for."""
        self._end()

    def close(self) -> None:
        """End the process, and start no other; from any thread."""
        self._is_closed = True
        started = self._started
        if started is not None:
            started[0].kill()

    def _asked(self, data: bytes, cpu_s_max: float) -> object:
        for _ in range(STARTS_MAX):
            if self._is_closed:
                break
            try:
                if self._started is None:
                    self._started = self._start()
                _, connection = self._started
                connection.send_bytes(data)
                if not connection.poll(WALL_PER_CPU * cpu_s_max):
                    self._end()
                    return _too_long(cpu_s_max)
                return pickle.loads(connection.recv_bytes())  # noqa: S301 - from our own process
            except (EOFError, OSError) as error:
                if not self._is_closed:
                    _LOG.warning("a reader has ended or could not be started: %r", error)
                self._end()
        return CommandError(
            Exit.UNUSABLE, "the readers have ended; ask again in a moment", fault=UNAVAILABLE
        )

    def _start(self) -> tuple[ForkServerProcess, Connection]:
        context = get_context("forkserver")
        context.set_forkserver_preload([__name__, _PRELOAD])
        ours, theirs = context.Pipe()
        with theirs:
            process = context.Process(
                target=answer_questions, args=(theirs, self._config), name="reader", daemon=True
            )
            try:
                process.start()
            except BaseException:
                ours.close()
                raise
        return process, ours

    def _end(self) -> None:
        started, self._started = self._started, None
        if started is not None:
            process, connection = started
            connection.close()
            process.kill()
            process.join()


# --- In the process ---


class _WorkSpentError(BaseException):
    """The CPU that an answer may take is spent; no handler of errors is to catch it."""


def answer_questions(connection: Connection, config: ProcessConfig) -> None:
    """Answer what comes over ``connection`` until it is closed."""
    # The service ends it, whatever a terminal sends to both.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGPROF, _spent)
    os.nice(NICE)
    clock = _ToldClock()
    reader = Reader(
        ReaderConfig(
            reading=partial(PagedReader, config.ledger),
            clock=clock,
            name=config.name,
            signer=config.signer,
            is_executed=config.is_executed,
            logs=config.logs,
        )
    )
    while True:
        try:
            if not connection.poll(FOLLOW_S):
                _try_to(reader.follow)
                continue
            sent = pickle.loads(connection.recv_bytes())  # noqa: S301 - from the service itself
            assert isinstance(sent, _Sent), sent
            clock.told_ms = sent.now_ms
            connection.send_bytes(pickle.dumps(_answered(reader, sent)))
        except (EOFError, OSError):
            return


def _answered(reader: Reader, sent: _Sent) -> Reply | Exception:
    operation = OPERATIONS[sent.operation]
    question = Question(sent.caller, operation, sent.asked, sent.form, sent.seq)
    try:
        with _bounded(sent.cpu_s_max):
            return reader.reply(question)
    except _WorkSpentError:
        reader.forget()
        return _too_long(sent.cpu_s_max)
    except Exception as error:  # noqa: BLE001 - told to who asked
        return _told(error)


@contextmanager
def _bounded(cpu_s_max: float) -> Iterator[None]:
    """Raise ``_WorkSpentError`` in the midst of what takes more CPU than this."""
    signal.setitimer(signal.ITIMER_PROF, cpu_s_max)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def _spent(number: int, frame: FrameType | None) -> None:
    del number, frame
    raise _WorkSpentError


def _try_to(follow: Callable[[], None]) -> None:
    try:
        follow()
    except (QuorateError, OSError):
        # Whoever asks next is told what is wrong.
        _LOG.debug("the ledger cannot be followed", exc_info=True)


def _told(error: Exception) -> Exception:
    """Return ``error`` as it is sent: in the words for the caller, or as a bug with its trace."""
    told = as_command_error(error)
    if told is not None:
        return told
    bug = RuntimeError(f"a reader failed: {type(error).__name__}: {error}")
    bug.add_note("".join(traceback.format_exception(error)))
    return bug


def _too_long(cpu_s_max: float) -> CommandError:
    return CommandError(
        Exit.UNUSABLE,
        f"answering takes more than {cpu_s_max:g} s of CPU, which is the most; narrow the question",
        fault="timed-out",
    )
