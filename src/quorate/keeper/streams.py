"""What the processes of a run write, read as it comes and handed to whoever keeps it."""

from __future__ import annotations

import os
import selectors
from typing import Final

from quorate.keeper.output import OutputWriter

READ_BYTES: Final = 64 * 1024
CATCH_UP_READS_MAX: Final = 32
"""How often a pipe is read at a time: what was in it fits, and whoever goes on writing waits."""
WORDS_BYTES_MAX: Final = 200
"""How much of its last line is told when a process fails."""

Source = tuple[int, str, str]
"""Rank, node and stream."""


class Streams:
    """The pipes of one keeper's processes, in the selector that it waits on."""

    def __init__(self, output: OutputWriter, selector: selectors.BaseSelector) -> None:
        self._output = output
        self._selector = selector
        self._words: dict[int, bytes] = {}

    def add(self, pid: int, source: Source, end: int) -> None:
        """Read from ``end`` what process ``pid`` writes."""
        self._selector.register(end, selectors.EVENT_READ, (pid, source))

    def last_words(self, pid: int) -> str:
        """Return the last line that a process complained with, its end if it is long.

        It goes into the ledger and to terminals: what is not to be printed is a space.
        """
        text = self._words.get(pid, b"").decode(errors="replace")
        return "".join(each if each.isprintable() else " " for each in text).strip()

    def take(self, key: selectors.SelectorKey, at_ms: int) -> bool:
        """Keep what a process has written; return whether there may be more just now."""
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
        """Take what a process that has ended had written and nobody has read yet.

        What it started may write on: that is not waited for.
        """
        for key in self._keys():
            if key.data[0] == pid:
                self._take_some(key, at_ms)

    def end(self, at_ms: int) -> None:
        """Take what is left, now that nobody writes any more."""
        for key in self._keys():
            self._take_some(key, at_ms)
            if key.fd in self._selector.get_map():
                # Somebody else has got hold of the pipe: nothing that comes now is the run's.
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
