"""Keeps the output of a run's processes in segments, and drops the oldest segments.

A segment is a file that is named by the number of its first line. A segment is a sequence of
records. Each record begins with one line of text, its head. After the head come whole lines, as a
process wrote them. At most ``SEGMENTS_MAX`` segments are kept, so that no run fills a disk. The
number of a line never changes.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

SEGMENT_BYTES: Final = 4 * 1024 * 1024
SEGMENTS_MAX: Final = 16
LINE_BYTES_MAX: Final = 64 * 1024
"""The most bytes of one line; a longer line is kept as several lines."""
_DIGITS: Final = 15
_NAME: Final = re.compile(rf"[0-9]{{{_DIGITS}}}\.log")
_HEAD: Final = re.compile(rb"(\d+) (-?\d+) ([!-~]+) (out|err) (\d+) (\d+)\n")
"""The head of a record: time, rank, node, stream, number of lines, number of bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """Whole lines that one process wrote together; ``first`` is the number of the first line."""

    first: int
    at_ms: int
    rank: int
    node: str
    stream: str
    lines: tuple[bytes, ...]


class OutputWriter:
    """Appends to the output in a folder; a folder has at most one writer at a time."""

    def __init__(
        self, folder: Path, segment_bytes: int = SEGMENT_BYTES, segments_max: int = SEGMENTS_MAX
    ) -> None:
        self._folder = folder
        self._segment_bytes = segment_bytes
        self._segments_max = segments_max
        self._buffers: dict[tuple[int, str], bytes] = {}
        self._next = 0
        self._file: IO[bytes] | None = None
        self._bytes = 0
        self._lines_lost = 0
        self.trouble = ""
        """Why the existing output cannot be continued; empty if the output can be continued."""
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._go_on()
        except OSError as error:
            self.trouble = f"the earlier output is not continued: {error}"

    def _go_on(self) -> None:
        """Open the last segment at the end of its last whole record."""
        last = segments(self._folder)[-1:]
        if not last:
            return
        # The number of the next line in case the segment cannot be read: beyond every number in the
        # segment, because a segment has no more lines than bytes.
        self._next = int(last[0].stem) + last[0].stat().st_size + 1
        number, sound_bytes = _counted(last[0])
        file = last[0].open("r+b", buffering=0)
        file.truncate(sound_bytes)
        file.seek(sound_bytes)
        self._next, self._bytes, self._file = number, sound_bytes, file

    def take(self, source: tuple[int, str, str], data: bytes, at_ms: int) -> None:
        """Keep output of ``source``; an incomplete last line is kept later, when it is complete."""
        rank, node, stream = source
        whole = self._buffers.pop((rank, stream), b"") + data
        end = whole.rfind(b"\n") + 1
        rest = whole[end:]
        lines = whole[:end].split(b"\n")[:-1]
        while len(rest) >= LINE_BYTES_MAX:
            lines.append(rest[:LINE_BYTES_MAX])
            rest = rest[LINE_BYTES_MAX:]
        if rest:
            self._buffers[rank, stream] = rest
        self._append((rank, node, stream), lines, at_ms)

    def finish(self, source: tuple[int, str, str], at_ms: int) -> None:
        """Keep the last line of a stream that has ended, even if the line is incomplete."""
        rank, _, stream = source
        rest = self._buffers.pop((rank, stream), b"")
        self._append(source, [rest] if rest else [], at_ms)

    def say(self, text: str, at_ms: int) -> None:
        """Keep a line written by the keeper itself."""
        self._append((-1, "-", "err"), [f"quorate: {text}".encode()], at_ms)

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _append(self, source: tuple[int, str, str], lines: list[bytes], at_ms: int) -> None:
        """Keep whole lines; if lines cannot be written, report their number later."""
        if not lines:
            return
        try:
            if self._lines_lost:
                note = f"quorate: {self._lines_lost} lines were lost: the disk did not accept them"
                self._write((-1, "-", "err"), [note.encode()], at_ms)
                self._lines_lost = 0
            self._write(source, lines, at_ms)
        except OSError:
            self._lines_lost += len(lines)

    def _write(self, source: tuple[int, str, str], lines: list[bytes], at_ms: int) -> None:
        rank, node, stream = source
        body = b"".join(line + b"\n" for line in lines)
        head = f"{at_ms} {rank} {node} {stream} {len(lines)} {len(body)}\n"
        file, left = self._segment(), memoryview(head.encode() + body)
        try:
            while left:
                left = left[file.write(left) :]
        except OSError:
            # Readers stop at an incomplete record, so it must not remain before later records.
            file.truncate(self._bytes)
            file.seek(self._bytes)
            raise
        self._bytes = file.tell()
        self._next += len(lines)

    def _segment(self) -> IO[bytes]:
        """Return the file to write to: a new segment if the last one is full."""
        if self._file is not None and self._bytes < self._segment_bytes:
            return self._file
        self.close()
        self._folder.mkdir(parents=True, exist_ok=True)
        file = (self._folder / f"{self._next:0{_DIGITS}d}.log").open("wb", buffering=0)
        self._file, self._bytes = file, 0
        for path in segments(self._folder)[: -self._segments_max]:
            path.unlink(missing_ok=True)
        return file


def segments(folder: Path) -> list[Path]:
    """Return the segments in ``folder``, oldest first; other files of the run are ignored."""
    found = [path for path in folder.glob("*.log") if _NAME.fullmatch(path.name) and path.is_file()]
    return sorted(found)


def chunks(folder: Path, first: int) -> Iterator[Chunk]:
    """Yield the kept lines from line ``first`` on; the first chunk may begin with earlier lines."""
    paths = segments(folder)
    starts = [int(path.stem) for path in paths]
    begin = max((i for i, start in enumerate(starts) if start <= first), default=0)
    for path in paths[begin:]:
        try:
            with path.open("rb") as file:
                yield from (chunk for chunk, _ in _records(file, int(path.stem), first))
        except FileNotFoundError:
            continue  # The segment was dropped in the meantime.
        except PermissionError:
            continue  # The run has made the segment unreadable; later segments are still read.


def lines_end(folder: Path) -> int:
    """Return the number after the last line that can be read; 0 if no line can be read."""
    for path in reversed(segments(folder)):
        try:
            return _end(path)
        except (FileNotFoundError, PermissionError):
            continue  # ``chunks`` skips such a segment as well.
    return 0


def _end(path: Path) -> int:
    """Return the number after the last line of a segment; only the heads of records are read."""
    number = int(path.stem)
    with path.open("rb") as file:
        end_bytes = os.fstat(file.fileno()).st_size
        while (found := _HEAD.fullmatch(file.readline())) is not None:
            if file.seek(int(found[6]), os.SEEK_CUR) > end_bytes:
                break  # This record is not completely written yet.
            number += int(found[5])
    return number


def _counted(path: Path) -> tuple[int, int]:
    """Return the number after the last line of a segment, and the end of its last record."""
    number, sound_bytes = int(path.stem), 0
    with path.open("rb") as file:
        for chunk, end in _records(file, number):
            number, sound_bytes = chunk.first + len(chunk.lines), end
    return number, sound_bytes


def _records(file: IO[bytes], number: int, first: int = 0) -> Iterator[tuple[Chunk, int]]:
    """Yield each whole record with a line from ``first`` on, and the position of its end.

    Reading ends at a record that is damaged or incomplete.
    """
    while head := file.readline():
        if not head.endswith(b"\n"):
            return
        found = _HEAD.fullmatch(head)
        if found is None:
            return
        at_ms, rank, node, stream, count, size = found.groups()
        if number + int(count) <= first:
            file.seek(int(size), os.SEEK_CUR)
            number += int(count)
            continue
        body = file.read(int(size))
        lines = tuple(body.split(b"\n")[:-1])
        if len(body) < int(size) or len(lines) != int(count):
            return
        yield (
            Chunk(
                first=number,
                at_ms=int(at_ms),
                rank=int(rank),
                node=node.decode(),
                stream=stream.decode(),
                lines=lines,
            ),
            file.tell(),
        )
        number += int(count)
