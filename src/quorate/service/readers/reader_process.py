"""A reader in a separate process, so that it never takes the interpreter lock from commits.

The service sends one question after another over a socket, and receives the answers. The process
follows the ledger's file on its own (``reader_main.py``). If an answer needs more CPU time than it
may use, the answer is aborted, and the caller is refused. Then the process reads the state again,
because the work may have been interrupted anywhere. A process that does not accept or answer a
question in time is ended, and another process is started.
"""

from __future__ import annotations

import logging
import pickle
from collections.abc import Mapping
from dataclasses import dataclass
from threading import Lock
from time import monotonic
from typing import Final

from msgspec import Struct

from quorate.operations.answered_by import CPU_S_MAX, Place, place_of
from quorate.operations.caller import Caller
from quorate.operations.request_context import BesideLedger
from quorate.ports.clock_port import Clock
from quorate.service.readers.message_socket import MessageSocket
from quorate.service.readers.reader_server import READER_SERVER, ReaderServer
from quorate.service.readers.state_reader import Question
from quorate.service.reply import Form, Reply
from quorate.views.exits import CommandError, Exit
from quorate.views.statuses import TIMED_OUT, UNAVAILABLE

_LOG = logging.getLogger(__name__)

WALL_PER_CPU: Final = 10
"""The time limit of an answer as a multiple of its CPU time limit, for a busy machine."""
STARTS_MAX: Final = 2
"""How many times a question is sent: if the process ends, another process gets the question."""
START_S_MAX: Final = 60.0
"""How long a process may take to start, including the server from which it is forked."""
READY: Final = b"ready"
"""The first message of a process."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessConfig:
    """The settings of a reader process; they are sent to the process once, when it starts."""

    ledger: str
    beside: BesideLedger
    is_executed: bool


@dataclass(frozen=True, slots=True)
class SentQuestion:
    """A question as it is sent: the operation by its name, and the present time."""

    caller: Caller
    operation: str
    asked: Struct
    form: Form
    seq: int | None
    now_ms: int
    cpu_s_max: float


@dataclass(frozen=True, slots=True)
class _Process:
    number: int
    messages: MessageSocket


class RemoteReader:
    """A reader process, started when it is first needed.

    Only one thread may use a ``RemoteReader``, but any thread may call ``close``.
    """

    def __init__(
        self,
        config: ProcessConfig,
        clock: Clock,
        cpu_s_max: Mapping[Place, float] = CPU_S_MAX,
        server: ReaderServer = READER_SERVER,
    ) -> None:
        self._config = config
        self._clock = clock
        self._cpu_s_max = cpu_s_max
        self._server = server
        self._process: _Process | None = None
        # The lock is held while the process is started or asked.
        self._in_use = Lock()
        self._is_closed = False

    def reply(self, question: Question) -> Reply:
        """Return the answer; raises ``CommandError`` if the request is refused."""
        cpu_s_max = self._cpu_s_max[place_of(question.operation, question.asked)]
        sent = SentQuestion(
            question.caller,
            question.operation.name,
            question.asked,
            question.form,
            question.seq,
            self._clock.now_ms(),
            cpu_s_max,
        )
        data = pickle.dumps(sent)
        with self._in_use:
            found = self._asked(data, cpu_s_max)
        if isinstance(found, Exception):
            raise found
        assert isinstance(found, Reply), found
        return found

    def follow(self) -> None:
        """Start the process, if there is none, so that the first question does not wait for it.

        Raises ``OSError`` or ``EOFError`` if the process cannot be started.
        """
        with self._in_use:
            try:
                if not self._is_closed:
                    self._running()
            except (EOFError, OSError):
                if not self._is_closed:
                    raise

    def forget(self) -> None:
        """End the process without waiting; the next question starts the process again."""
        with self._in_use:
            self._end()

    def close(self) -> None:
        """End the process, and start no other.

        Any thread may call this method, which does not wait until the process has ended.
        """
        self._is_closed = True
        if self._in_use.acquire(blocking=False):
            try:
                self._end()
            finally:
                self._in_use.release()
        elif (process := self._process) is not None:
            # Another thread waits for an answer. It then reads end-of-file, and closes the socket.
            self._server.end(process.number)

    def _asked(self, data: bytes, cpu_s_max: float) -> object:
        """Return the answer or its error."""
        for _ in range(STARTS_MAX):
            if self._is_closed:
                break
            try:
                messages = self._running()
            except (EOFError, OSError) as error:
                self._log(error)
                continue
            end_s = monotonic() + WALL_PER_CPU * cpu_s_max
            try:
                messages.send(data, within_s=end_s - monotonic())
                answer = messages.receive(within_s=max(0.0, end_s - monotonic()))
                found: object = pickle.loads(answer)  # noqa: S301 - from our process
            except TimeoutError:
                self._end()
                return too_long(cpu_s_max)
            except (EOFError, OSError) as error:
                self._log(error)
                self._end()
            else:
                return found
        ended = "the readers have ended; ask again in a moment"
        return CommandError(Exit.UNUSABLE, ended, fault=UNAVAILABLE)

    def _running(self) -> MessageSocket:
        """Return the socket of a process that accepts questions."""
        if self._process is None:
            number, connected = self._server.start()
            process = self._process = _Process(number, MessageSocket(connected))
            try:
                if self._is_closed:
                    raise EOFError("closed while it was being started")  # noqa: TRY301 - ends it, like a failure
                ready = process.messages.receive(START_S_MAX)
                assert ready == READY, ready
                process.messages.send(pickle.dumps(self._config), START_S_MAX)
            except BaseException:
                self._end()
                raise
        return self._process.messages

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.messages.close()
            self._server.end(process.number)

    def _log(self, error: Exception) -> None:
        if not self._is_closed:
            _LOG.warning("a reader has ended or could not be started: %r", error)


def too_long(cpu_s_max: float) -> CommandError:
    """Return the refusal of a question that needs more than ``cpu_s_max`` of CPU time."""
    return CommandError(
        Exit.UNUSABLE,
        f"answering takes more than {cpu_s_max:g} s of CPU time, which is the limit; narrow the "
        "request",
        fault=TIMED_OUT,
    )
