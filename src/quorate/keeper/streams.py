"""Reads the output of a run's processes as they write it."""

from __future__ import annotations

import os
import selectors
from typing import Final

from quorate.keeper.output import OutputWriter

READ_BYTES: Final = 64 * 1024
CATCH_UP_READS_MAX: Final = 32
"""The most reads of one pipe in a row, which is enough for all that a pipe can hold.

Without this bound, a process that keeps writing would delay the reading of other pipes.
"""
WORDS_BYTES_MAX: Final = 200
"""The most bytes of a failed process's last line that the keeper reports."""

Source = tuple[int, str, str]
"""Rank, node and stream."""


class Streams:
    """The pipes of one keeper's processes, in the selector on which the keeper waits."""

    def __init__(self, output: OutputWriter, selector: selectors.BaseSelector) -> None:
        self._output = output
        self._selector = selector
        self._words: dict[int, bytes] = {}

    def add(self, pid: int, source: Source, end: int) -> None:
        """Read the output of process ``pid`` from now on, through the pipe descriptor ``end``."""
        self._selector.register(end, selectors.EVENT_READ, (pid, source))

    def last_words(self, pid: int) -> str:
        """Return the last line that a process wrote to stderr, or the end of a long line.

        Characters that cannot be printed become spaces, because the ledger and terminals get the
        line.
        """
        text = self._words.get(pid, b"").decode(errors="replace")
        return "".join(each if each.isprintable() else " " for each in text).strip()

    def take(self, key: selectors.SelectorKey, at_ms: int) -> bool:
        """Read and keep output of a process; return whether more output may be ready."""
        pid, source = key.data
        try:
            data = os.read(key.fd, READ_BYTES)
        except BlockingIOError:
            return False
        if not data:
            self._end(key, at_ms)
            return False
        self._output.take(source, data, at_ms)
        if source[2] == "err" and data.strip():
            self._words[pid] = data.strip().rsplit(b"\n", 1)[-1][-WORDS_BYTES_MAX:]
        return True

    def catch_up(self, pid: int, at_ms: int) -> None:
        """Read the rest of the output of a process that has ended.

        The keeper does not wait for descendants, which may keep writing.
        """
        for key in self._keys():
            if key.data[0] == pid:
                self._take_some(key, at_ms)

    def end(self, at_ms: int) -> None:
        """Read the rest of all output, after the last process has ended."""
        for key in self._keys():
            self._take_some(key, at_ms)
            if key.fd in self._selector.get_map():
                # The pipe is still open, so a process of another run holds it. Later output does
                # not belong to this run.
                self._end(key, at_ms)
        self._words.clear()

    def _take_some(self, key: selectors.SelectorKey, at_ms: int) -> None:
        for _ in range(CATCH_UP_READS_MAX):
            if not self.take(key, at_ms):
                return

    def _end(self, key: selectors.SelectorKey, at_ms: int) -> None:
        self._output.finish(key.data[1], at_ms)
        self._selector.unregister(key.fd)
        os.close(key.fd)

    def _keys(self) -> list[selectors.SelectorKey]:
        return [key for key in self._selector.get_map().values() if key.data]
