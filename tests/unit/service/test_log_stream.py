"""The log with a reader that is behind, closed or slow."""

from __future__ import annotations

import fcntl
import logging
import os
import select
from collections.abc import Iterator
from threading import Thread

import pytest

from quorate.service.log_stream import KEPT_BYTES_MAX, StreamLog
from quorate.service.request_log import Handled
from tests.bounds import until

DONE = Handled(request_id="1", method="GET", path="/")
LONG = "x" * (3 * select.PIPE_BUF)


class Ends:
    """The two ends of a pipe; the reading end may be closed early."""

    def __init__(self) -> None:
        self.reading, self.writing = os.pipe()
        fcntl.fcntl(self.writing, fcntl.F_SETPIPE_SZ, select.PIPE_BUF)
        self._got = b""

    def stop_reading(self) -> None:
        if self.reading >= 0:
            os.close(self.reading)
        self.reading = -1

    def lines(self, end: str) -> list[str]:
        """Return all lines of a log, as soon as a line ends with ``end``."""

        def read() -> None:
            while not self._got.endswith(f"{end}\n".encode()):
                self._got += os.read(self.reading, 65536)

        reader = Thread(target=read, daemon=True)
        reader.start()
        until(lambda: not reader.is_alive(), "the log is read")
        return self._got.decode().splitlines()


@pytest.fixture
def ends() -> Iterator[Ends]:
    found = Ends()
    try:
        yield found
    finally:
        found.stop_reading()
        os.close(found.writing)


def said(log: StreamLog, text: str) -> None:
    log.handle(logging.makeLogRecord({"msg": text}))


def test_lines_are_written_before_the_call_returns(ends: Ends) -> None:
    log = StreamLog(ends.writing)
    said(log, "one")
    assert os.read(ends.reading, 100) == b"one\n"
    log.close()


def test_lines_of_requests_are_gathered_and_come_in_their_order(ends: Ends) -> None:
    log = StreamLog(ends.writing)
    told = [str(number) for number in range(50)]
    for text in told:
        log.handle(logging.makeLogRecord({"msg": text, "levelno": logging.INFO, "handled": DONE}))
    assert ends.lines("49") == told
    log.close()


def test_lines_of_requests_are_not_gathered_when_something_is_wrong(ends: Ends) -> None:
    log = StreamLog(ends.writing)
    for level, text in ((logging.INFO, "one"), (logging.WARNING, "two")):
        log.handle(logging.makeLogRecord({"msg": text, "levelno": level, "handled": DONE}))
    assert os.read(ends.reading, 100) == b"one\ntwo\n"
    log.close()


def test_the_last_lines_of_requests_are_written_when_the_log_is_closed(ends: Ends) -> None:
    log = StreamLog(ends.writing)
    log.handle(logging.makeLogRecord({"msg": "one", "levelno": logging.INFO, "handled": DONE}))
    log.close()
    assert os.read(ends.reading, 100) == b"one\n"


def test_lines_for_a_reader_that_is_behind_are_kept_in_order(ends: Ends) -> None:
    log = StreamLog(ends.writing)
    told = [f"{number} {LONG}" for number in range(20)]
    for text in (*told, "the end"):
        said(log, text)
    assert ends.lines("the end") == [*told, "the end"]
    log.close()


def test_lines_beyond_the_bound_are_left_out_and_counted(ends: Ends) -> None:
    log = StreamLog(ends.writing)
    sent = 2 * KEPT_BYTES_MAX // len(LONG)
    for _ in range(sent):
        said(log, LONG)
    *before, gap = ends.lines("write failed")
    assert set(before) == {LONG}
    assert len(before) * len(LONG) <= KEPT_BYTES_MAX + select.PIPE_BUF
    left_out = sent - len(before)
    assert gap.startswith(f"{left_out} lines were left out of the log here:")
    said(log, "the end")
    assert ends.lines("the end")[-1] == "the end"
    log.close()


def test_a_reader_that_is_gone_or_never_reads_holds_no_line_up(ends: Ends) -> None:
    log = StreamLog(ends.writing)
    for _ in range(10):
        said(log, LONG)
    log.close()
    ends.stop_reading()
    for _ in range(10):
        said(log, LONG)
