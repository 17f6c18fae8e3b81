"""One JSON object from bytes, for requests: the work is bounded by the length of the text.

The decoder of msgspec does the work, one field and one entry of a list at a time, so that no single
call into it takes long. Values are bounded before any is built. The place of a fault is searched
for once there is one.

A repeated key leaves no trace in what a decoder returns, except that strings are missing from it:
keys and texts are counted in the source, and in the result.

What a decoder takes for a whole number grows with the square of its digits, so that long ones are
refused before any is read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from decimal import MAX_EMAX, MAX_PREC, MIN_EMIN, Context, Underflow
from itertools import chain
from typing import Any, Final

import msgspec
from msgspec import Raw

from quorate.documents.document_problem import Path, path_text
from quorate.documents.json_text import read_json
from quorate.documents.located_tree import DEPTH_MAX, FLATTEN, HALF, TOO_DEEP, WHOLE, Unreadable

VALUES_FREE: Final = 5_000
"""How many values and containers any text may hold."""
VALUES_MAX: Final = 500_000
"""How many values a text may hold, however long it is."""
FIELDS_MAX: Final = 100
"""How many fields the object itself may have where it is read field by field."""
BYTES_PER_VALUE: Final = 10
"""How many bytes a text needs for each further value; documents have 12 or more."""
BYTES_PER_CONTAINER: Final = 16
"""How many bytes a text needs for each further mapping or list; documents have 30 or more."""
DIGITS_MAX: Final = 1_000
"""How many digits of a number may follow one another."""
IN_ONE_GO_BYTES: Final = 1024 * 1024
"""Up to this length a text is decoded in one go, and beyond it field by field."""
AT_A_TIME_BYTES: Final = 256 * 1024
"""How much of a long list is decoded at a time."""
PART_BYTES_MAX: Final = 2 * 1024 * 1024
"""The longest field that is no list, or entry of a list, in a text beyond that length."""
_STRINGS_LOOKED_AT: Final = 50_000
"""How many strings that seem to hold values are parsed to find out."""
_NAMED_BYTES_MAX: Final = 64 * 1024
"""Up to this length the reader of files names what is wrong, such as a repeated key."""
_CHUNK_BYTES: Final = 1024 * 1024

_OBJECT: Final = msgspec.json.Decoder(dict[str, Raw])
_LIST: Final = msgspec.json.Decoder(list[Raw])
# Exact, and without an exception for each number whose exponent is absurd: that is infinite.
_NUMBERS: Final = Context(prec=MAX_PREC, Emax=MAX_EMAX, Emin=MIN_EMIN, traps=[Underflow])
_VALUE: Final = msgspec.json.Decoder(float_hook=_NUMBERS.create_decimal)
# More digits than allowed hold one whole step of half as many, wherever they begin.
_DIGITS_STEP: Final = re.compile(rb"(?s:.{%d})*?([0-9]{%d,})" % ((DIGITS_MAX // 2,) * 2))
_AT_BYTE: Final = re.compile(r"^(?:JSON is malformed: )?(.*?)(?: \(byte (\d+)\))?$")

_ONE_OBJECT: Final = Unreadable(message="must be one JSON object", remedy="")
_NOT_UTF8: Final = Unreadable(message="must be UTF-8", remedy="")
_THIN: Final = "send fewer documents at once, without empty or repeated parts"


class _Refused(Exception):  # noqa: N818 - never leaves this module
    """Carries the reason why out of the reading of one part."""

    def __init__(self, reason: Unreadable) -> None:
        self.reason = reason


def read_object(body: bytes) -> dict[str, Any] | Unreadable:
    """Return the object that ``body`` is, an empty one if it is blank, or what is wrong with it.

    Numbers are read exactly. Reading costs no more than its length allows, whatever is in it.
    """
    if not body or body.isspace():
        return {}
    refusal = _too_many(body)
    if refusal is not None:
        return refusal
    try:
        _check_digits(body)
        return _read(body)
    except _Refused as refused:
        return refused.reason if _is_utf8(body) else _NOT_UTF8
    except UnicodeDecodeError:
        return _NOT_UTF8


def _read(body: bytes) -> dict[str, Any]:
    if len(body) <= IN_ONE_GO_BYTES:
        whole = _value(body, (), body)
        if not isinstance(whole, dict):
            raise _Refused(_ONE_OBJECT)
        return whole
    fields = _parts(body, _OBJECT, body)
    if len(fields) > FIELDS_MAX:
        raise _Refused(
            Unreadable(
                message=f"has {len(fields)} fields, over {FIELDS_MAX}",
                remedy="send what the operation takes, and nothing else",
            )
        )
    strings_left = _strings(body) - len(fields)
    found: dict[str, Any] = {}
    for name, raw in fields.items():
        part = bytes(raw)
        strings_left -= _strings(part)
        is_long_list = part.startswith(b"[") and len(part) > IN_ONE_GO_BYTES
        found[name] = _entries(part, name, body) if is_long_list else _value(part, (name,), body)
    if strings_left:
        raise _repeated(body)
    return found


def _entries(part: bytes, name: str, body: bytes) -> list[Any]:
    """Return the list that ``part`` is, the field ``name`` of ``body``, read a few at a time."""
    found: list[Any] = []
    few: list[bytes] = []
    size = 0
    for number, raw in enumerate(_parts(part, _LIST, body)):
        entry = bytes(raw)
        _check_length(entry, (name, number))
        if size + len(entry) > AT_A_TIME_BYTES:
            found += _few(few, name, body)
            few, size = [], 0
        few.append(entry)
        size += len(entry)
    return found + _few(few, name, body)


def _few(entries: list[bytes], name: str, body: bytes) -> list[Any]:
    """Return some entries of the list ``name``."""
    try:
        found: list[Any] = _value(b"[%s]" % b",".join(entries), (name,), body)
    except _Refused:
        for entry in entries:
            _value(entry, (name, 0), body)
        raise
    return found


def _value(part: bytes, path: Path, body: bytes) -> Any:
    """Return the value that ``part`` is, which was found at ``path`` of ``body``."""
    _check_length(part, path)
    try:
        value = _VALUE.decode(part)
    except Underflow:
        raise _Refused(
            Unreadable(
                message="malformed JSON: the exponent of a number is too small to be read",
                remedy="write 0 where that is meant",
            )
        ) from None
    except msgspec.DecodeError as error:
        raise _malformed(error, part, body) from None
    except RecursionError:
        raise _too_deep(part, body) from None
    if type(value) is dict or type(value) is list:
        depth, strings = _measured(value)
        if depth + len(path) > DEPTH_MAX:
            raise _too_deep(part, body)
        if strings != _strings(part):
            raise _repeated(body)
    return value


def _check_digits(body: bytes) -> None:
    """Refuse a number of more than ``DIGITS_MAX`` digits in a row; texts may hold as many."""
    quotes = counted_to = 0
    for start, end in _long_digits(body):
        quotes += _counted(_unescaped(body[counted_to:start]), b'"')
        counted_to = start
        if quotes % 2 == 0:
            raise _at(
                body,
                start,
                f"malformed JSON: a number has {end - start} digits, over {DIGITS_MAX}",
                "write a smaller number, or a text in double quotes",
            )


def _long_digits(body: bytes) -> Iterator[tuple[int, int]]:
    """Yield start and end of each more than ``DIGITS_MAX`` digits in a row, in their order."""
    end = 0
    while (step := _DIGITS_STEP.match(body, end)) is not None:
        before = body[end : step.start(1)][-DIGITS_MAX:]
        start = step.start(1) - (len(before) - len(before.rstrip(b"0123456789")))
        end = step.end(1)
        if end - start > DIGITS_MAX:
            yield start, end


def _check_length(part: bytes, path: Path) -> None:
    if len(part) > PART_BYTES_MAX:
        raise _Refused(
            Unreadable(
                message=f"{path_text(path)} has {len(part)} bytes, over {PART_BYTES_MAX}",
                remedy="divide it, and send the parts one after another",
            )
        )


def _parts(part: bytes, decoder: Any, body: bytes) -> Any:
    """Return the fields or entries of ``part``, each in its source text."""
    try:
        return decoder.decode(part)
    except msgspec.ValidationError:
        raise _Refused(_ONE_OBJECT) from None
    except msgspec.DecodeError as error:
        raise _malformed(error, part, body) from None
    except RecursionError:
        raise _too_deep(part, body) from None


def _measured(value: dict[str, Any] | list[Any]) -> tuple[int, int]:
    """Return how deep ``value`` nests, and how many keys and texts it holds, level by level."""
    depth = strings = 0
    level: list[Any] = [value]
    while level:
        depth += 1
        dicts = [each for each in level if type(each) is dict]
        lists = [each for each in level if type(each) is list] if len(dicts) < len(level) else []
        strings += sum(map(len, dicts))
        inside = [*chain.from_iterable(map(dict.values, dicts)), *chain.from_iterable(lists)]
        kinds = set(map(type, inside))
        if str in kinds:
            strings += len([each for each in inside if type(each) is str])
        if dict in kinds or list in kinds:
            level = [each for each in inside if type(each) is dict or type(each) is list]
            # The empty ones count for how deep it is, and hold nothing that has to be visited.
            level = [each for each in level if each] or level[:1]
        else:
            level = []
    return depth, strings


def _counted(body: bytes, byte: bytes) -> int:
    """Return how often ``byte`` is in ``body``; other threads run in between."""
    starts = range(0, len(body), _CHUNK_BYTES)
    return sum(body.count(byte, start, start + _CHUNK_BYTES) for start in starts)


def _unescaped(text: bytes) -> bytes:
    """Return ``text`` without escaped backslashes and quotes: the rest delimit strings."""
    if b"\\" not in text:
        return text
    return text.replace(b"\\\\", b"").replace(b'\\"', b"")


def _strings(text: bytes) -> int:
    """Return how many strings, keys among them, a piece of JSON holds."""
    return _counted(_unescaped(text), b'"') // 2


def _is_utf8(body: bytes) -> bool:
    try:
        body.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def values_allowed(length: int) -> int:
    """Return how many values a text or a message of ``length`` bytes may hold."""
    return min(VALUES_MAX, VALUES_FREE + length // BYTES_PER_VALUE)


def _too_many(body: bytes) -> Unreadable | None:
    """Return why ``body`` is not read, if it holds more than its length allows."""
    values_max = values_allowed(len(body))
    containers_max = VALUES_FREE + len(body) // BYTES_PER_CONTAINER
    values, containers = _held(body)
    if values <= values_max and containers <= containers_max:
        return None
    plain = _unescaped(body)
    if _counted(plain, b'"') // 2 <= _STRINGS_LOOKED_AT:
        # They may all be inside texts, which may contain commas and brackets.
        values, containers = _held(b"".join(plain.split(b'"')[::2]))
    if values > values_max:
        return Unreadable(
            message=f"holds over {values_max} values; its {len(body)} bytes may hold that many",
            remedy=_THIN,
        )
    if containers > containers_max:
        return Unreadable(
            message=f"holds over {containers_max} objects and lists; its {len(body)} bytes may "
            "hold that many",
            remedy=_THIN,
        )
    return None


def _held(text: bytes) -> tuple[int, int]:
    """Return at most how many values, and how many containers among them, ``text`` holds."""
    containers = _counted(text, b"{") + _counted(text, b"[")
    return containers + _counted(text, b","), containers


def _malformed(error: msgspec.DecodeError, part: bytes, body: bytes) -> _Refused:
    match = _AT_BYTE.match(str(error))
    assert match is not None, error
    what, at = match[1], match[2]
    if what == "trailing characters":
        return _Refused(_ONE_OBJECT)
    if "surrogate" in what:
        return _at(body, _start(part, body) + int(at), f"malformed JSON: {HALF}", WHOLE)
    if at is None:
        # The decoder reports no more than this for half a character at the end of a text, too.
        fault = _explained(body)
        if fault is not None and HALF in fault.message:
            return _Refused(fault)
        what = "it ends too early, holds half of a character, or a number has too many digits"
        offset = len(part)
    else:
        offset = int(at)
    return _at(body, _start(part, body) + offset, f"malformed JSON: {what}", _remedy(what))


def _remedy(what: str) -> str:
    if "keys must be strings" in what or "trailing comma" in what:
        return "put keys in double quotes, and no comma after the last one"
    if "expected" in what:
        return "add the missing punctuation before this place"
    if "escape" in what:
        return "double the backslash, or use a JSON escape"
    return "mend the JSON here"


def _too_deep(part: bytes, body: bytes) -> _Refused:
    return _at(body, _start(part, body), f"malformed JSON: {TOO_DEEP}", FLATTEN)


def _start(part: bytes, body: bytes) -> int:
    """Return the offset of ``part`` in ``body``: an earlier equal part would have been refused."""
    return 0 if part is body else max(0, body.find(part))


def _at(body: bytes, offset: int, message: str, remedy: str) -> _Refused:
    offset = min(offset, len(body))
    return _Refused(
        Unreadable(
            message=message,
            remedy=remedy,
            line=body.count(b"\n", 0, offset) + 1,
            column=offset - body.rfind(b"\n", 0, offset),
        )
    )


def _repeated(body: bytes) -> _Refused:
    """Return that a key is repeated, with its name where that can be found at little cost."""
    fault = _explained(body) or Unreadable(
        message="malformed JSON: an object has the same key twice", remedy="keep one of them"
    )
    return _Refused(fault)


def _explained(body: bytes) -> Unreadable | None:
    """Return what the reader of files finds wrong with ``body``; None where it would cost much."""
    if len(body) > _NAMED_BYTES_MAX:
        return None
    found = read_json(body.decode("utf-8"))
    return found if isinstance(found, Unreadable) else None
