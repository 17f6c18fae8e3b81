"""A reader of Parquet files, written from the definition of the format and not from the writer."""

from __future__ import annotations

import struct
from typing import Any


class _Compact:
    """Thrift's compact protocol: structs as dictionaries by field number."""

    def __init__(self, data: bytes, at: int = 0) -> None:
        self.data, self.at = data, at

    def byte(self) -> int:
        self.at += 1
        return self.data[self.at - 1]

    def varint(self) -> int:
        found = shift = 0
        while True:
            byte = self.byte()
            found |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return found

    def integer(self) -> int:
        found = self.varint()
        return found >> 1 if not found & 1 else -((found + 1) >> 1)

    def value(self, kind: int) -> Any:
        if kind in (5, 6):
            return self.integer()
        if kind == 8:
            size = self.varint()
            self.at += size
            return self.data[self.at - size : self.at].decode()
        if kind == 9:
            head = self.byte()
            count = head >> 4 if head >> 4 < 15 else self.varint()
            return [self.value(head & 15) for _ in range(count)]
        assert kind == 12, kind
        found: dict[int, Any] = {}
        number = 0
        while head := self.byte():
            number += head >> 4
            found[number] = self.value(head & 15)
        return found


def read_parquet(data: bytes) -> dict[str, list[Any]]:
    """Return the columns of a file by name."""
    assert data[:4] == data[-4:] == b"PAR1"
    (size,) = struct.unpack("<I", data[-8:-4])
    meta = _Compact(data, len(data) - 8 - size).value(12)
    root, *elements = meta[2]
    assert root[5] == len(elements)
    found: dict[str, list[Any]] = {element[4]: [] for element in elements}
    for group in meta[4]:
        assert sum(chunk[3][7] for chunk in group[1]) == group[2]
        for chunk, element in zip(group[1], elements, strict=True):
            assert chunk[3][3] == [element[4]]
            values = _page(data, chunk[3], is_optional=element[3] == 1)
            assert len(values) == group[3]
            found[element[4]] += values
    assert all(len(values) == meta[3] for values in found.values())
    return found


def _page(data: bytes, meta: dict[int, Any], *, is_optional: bool) -> list[Any]:
    reader = _Compact(data, meta[9])
    header = reader.value(12)
    page = data[reader.at : reader.at + header[3]]
    assert reader.at + header[3] == meta[9] + meta[7]
    count = header[5][1]
    there = [True] * count
    if is_optional:
        (size,) = struct.unpack("<I", page[:4])
        levels, there = _Compact(page, 4), []
        while levels.at < 4 + size:
            run = levels.varint()
            assert not run & 1, "bit-packed runs are not written"
            there += [bool(levels.byte())] * (run >> 1)
        page = page[4 + size :]
    values = iter(_plain(page, meta[1], sum(there)))
    assert len(there) == count
    return [next(values) if is_there else None for is_there in there]


def _plain(page: bytes, kind: int, count: int) -> list[Any]:
    if kind == 0:
        return [bool(page[k // 8] >> k % 8 & 1) for k in range(count)]
    if kind in (2, 5):
        return list(struct.unpack(f"<{count}{'q' if kind == 2 else 'd'}", page))
    found, at = [], 0
    for _ in range(count):
        (size,) = struct.unpack("<I", page[at : at + 4])
        found.append(page[at + 4 : at + 4 + size].decode())
        at += 4 + size
    assert at == len(page)
    return found
