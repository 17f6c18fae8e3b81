"""Tables as Apache Parquet: integers, floats, texts and booleans, plain and uncompressed.

This module has only the part of the format that a table of runs needs: format version 1, with one
page for each column and row group. A full library is twice as large as the largest dependency of
Quorate (docs/adr/0040). Pure.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from itertools import groupby
from typing import Final

MAGIC: Final = b"PAR1"
GROUP_ROWS: Final = 100_000
"""The number of rows in one row group."""
_I32, _I64, _TEXT, _LIST, _STRUCT = 5, 6, 8, 9, 12
"""Field types of Thrift's compact protocol, in which a Parquet file describes its parts."""
_RLE: Final = 3
_LONG_LIST: Final = 15


class Kind(IntEnum):
    """The type of a column, with the format's own numbers."""

    BOOLEAN = 0
    INT64 = 2
    DOUBLE = 5
    TEXT = 6


Value = str | bool | int | float | None


@dataclass(frozen=True, slots=True)
class ParquetColumn:
    """A named column; if ``is_optional``, a value may be None."""

    name: str
    kind: Kind
    is_optional: bool = False


def parquet(columns: Sequence[ParquetColumn], rows: Sequence[Sequence[Value]]) -> bytes:
    """Return a Parquet file with ``rows``, each of which has a value for every column."""
    body = bytearray(MAGIC)
    groups = [
        _group(body, columns, rows[first : first + GROUP_ROWS])
        for first in range(0, len(rows), GROUP_ROWS)
    ]
    schema = [_fields((4, _TEXT, "schema"), (5, _I32, len(columns))), *map(_element, columns)]
    footer = _fields(
        (1, _I32, 1),
        (2, _LIST, (_STRUCT, schema)),
        (3, _I64, len(rows)),
        (4, _LIST, (_STRUCT, groups)),
        (6, _TEXT, "quorate"),
    )
    return bytes(body) + footer + struct.pack("<I", len(footer)) + MAGIC


def _element(column: ParquetColumn) -> bytes:
    fields: list[_Field] = [
        (1, _I32, column.kind),
        (3, _I32, int(column.is_optional)),
        (4, _TEXT, column.name),
    ]
    if column.kind is Kind.TEXT:
        fields.append((6, _I32, 0))  # UTF-8.
    return _fields(*fields)


def _group(
    body: bytearray, columns: Sequence[ParquetColumn], rows: Sequence[Sequence[Value]]
) -> bytes:
    """Add a group of rows to ``body``, and return its description."""
    chunks, start = [], len(body)
    for number, column in enumerate(columns):
        offset = len(body)
        data = _page(column, [row[number] for row in rows])
        page = _fields((1, _I32, len(rows)), (2, _I32, 0), (3, _I32, _RLE), (4, _I32, _RLE))
        body += _fields(
            (1, _I32, 0), (2, _I32, len(data)), (3, _I32, len(data)), (5, _STRUCT, page)
        )
        body += data
        meta = _fields(
            (1, _I32, column.kind),
            (2, _LIST, (_I32, [_varint(_zigzag(0)), _varint(_zigzag(_RLE))])),
            (3, _LIST, (_TEXT, [_text(column.name)])),
            (4, _I32, 0),
            (5, _I64, len(rows)),
            (6, _I64, len(body) - offset),
            (7, _I64, len(body) - offset),
            (9, _I64, offset),
        )
        chunks.append(_fields((2, _I64, offset), (3, _STRUCT, meta)))
    size = len(body) - start
    return _fields((1, _LIST, (_STRUCT, chunks)), (2, _I64, size), (3, _I64, len(rows)))


def _page(column: ParquetColumn, values: Sequence[Value]) -> bytes:
    known = [value for value in values if value is not None]
    assert column.is_optional or len(known) == len(values), column.name
    written = b"".join(_WRITE[column.kind](known))
    if not column.is_optional:
        return written
    levels = b"".join(
        _varint(len(list(run)) << 1) + bytes([is_there])
        for is_there, run in groupby(value is not None for value in values)
    )
    return struct.pack("<I", len(levels)) + levels + written


def _booleans(values: Sequence[Value]) -> Iterator[bytes]:
    for first in range(0, len(values), 8):
        part = values[first : first + 8]
        yield bytes([sum(bool(value) << bit for bit, value in enumerate(part))])


def _integers(values: Sequence[Value]) -> Iterator[bytes]:
    yield struct.pack(f"<{len(values)}q", *values)


def _doubles(values: Sequence[Value]) -> Iterator[bytes]:
    yield struct.pack(f"<{len(values)}d", *values)


def _texts(values: Sequence[Value]) -> Iterator[bytes]:
    for value in values:
        encoded = str(value).encode()
        yield struct.pack("<I", len(encoded)) + encoded


_WRITE: Final[dict[Kind, Callable[[Sequence[Value]], Iterator[bytes]]]] = {
    Kind.BOOLEAN: _booleans,
    Kind.INT64: _integers,
    Kind.DOUBLE: _doubles,
    Kind.TEXT: _texts,
}

# --- Thrift's compact protocol ---

_Items = tuple[int, Sequence[bytes]]
_Field = tuple[int, int, int | str | bytes | _Items]


def _fields(*fields: _Field) -> bytes:
    """Encode a struct; each of ``fields`` is a number, a type and a value.

    The number of a field is at most 15 higher than the number of the field before.
    """
    found, last = bytearray(), 0
    for number, kind, value in fields:
        found.append((number - last) << 4 | kind)
        found += _value(value)
        last = number
    found.append(0)
    return bytes(found)


def _value(value: int | str | bytes | _Items) -> bytes:
    match value:
        case int():
            return _varint(_zigzag(value))
        case str():
            return _text(value)
        case bytes():
            return value
        case (kind, items):
            count = len(items)
            head = bytes([min(count, _LONG_LIST) << 4 | kind])
            long = _varint(count) if count >= _LONG_LIST else b""
            return head + long + b"".join(items)


def _text(value: str) -> bytes:
    encoded = value.encode()
    return _varint(len(encoded)) + encoded


def _zigzag(value: int) -> int:
    return value << 1 if value >= 0 else (-value << 1) - 1


def _varint(value: int) -> bytes:
    found = bytearray()
    while value > 0x7F:  # noqa: PLR2004 - seven bits a byte
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)
