"""Reads one JSON object from the bytes of a request, in time proportional to their length.

The decoder of msgspec decodes one field, or one entry of a list, at a time, so that no single call
takes long. Before it decodes anything, this module refuses a text with too many values. It computes
a position only if there is a fault to report.

A decoder keeps the last value of a repeated key and drops the others. To find repeated keys, this
module compares the number of strings in the source with the number in the result.

Decoding an integer takes time proportional to the square of its digits, so integers with too many
digits are refused before decoding.
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
"""The number of values that a text of any length may hold; also the number of containers."""
VALUES_MAX: Final = 500_000
"""The maximal number of values of one text."""
FIELDS_MAX: Final = 100
"""The maximal number of fields of an object that is decoded field by field."""
BYTES_PER_VALUE: Final = 10
"""The number of bytes that allow a text one more value, in addition to ``VALUES_FREE`` values.

Documents have 12 bytes or more for each value.
"""
BYTES_PER_CONTAINER: Final = 16
"""The number of bytes that allow a text one more mapping or list, beyond ``VALUES_FREE``.

Documents have 30 bytes or more for each mapping or list.
"""
DIGITS_MAX: Final = 1_000
"""The maximal number of consecutive digits in a number."""
IN_ONE_GO_BYTES: Final = 1024 * 1024
"""A text up to this length is decoded at once, and a longer text field by field."""
AT_A_TIME_BYTES: Final = 256 * 1024
"""A long list is decoded in pieces of this length."""
PART_BYTES_MAX: Final = 2 * 1024 * 1024
"""The maximal length of a field, or of an entry of a list, in a text decoded field by field."""
_STRINGS_LOOKED_AT: Final = 50_000
"""The maximal number of strings in a text that is split to find the commas outside of strings."""
_NAMED_BYTES_MAX: Final = 64 * 1024
"""A text up to this length is read again by ``json_text``, which names the fault."""
_CHUNK_BYTES: Final = 1024 * 1024

_OBJECT: Final = msgspec.json.Decoder(dict[str, Raw])
_LIST: Final = msgspec.json.Decoder(list[Raw])
# Decimals are exact. A number with an absurd exponent becomes infinite, and raises no exception.
_NUMBERS: Final = Context(prec=MAX_PREC, Emax=MAX_EMAX, Emin=MIN_EMIN, traps=[Underflow])
_VALUE: Final = msgspec.json.Decoder(float_hook=_NUMBERS.create_decimal)
# A sequence of more than DIGITS_MAX digits may begin anywhere. It always contains a sequence of
# DIGITS_MAX / 2 digits whose offset is a multiple of DIGITS_MAX / 2.
_DIGITS_STEP: Final = re.compile(rb"(?s:.{%d})*?([0-9]{%d,})" % ((DIGITS_MAX // 2,) * 2))
_AT_BYTE: Final = re.compile(r"^(?:JSON is malformed: )?(.*?)(?: \(byte (\d+)\))?$")

_ONE_OBJECT: Final = Unreadable(message="must be one JSON object", remedy="")
_NOT_UTF8: Final = Unreadable(message="must be UTF-8", remedy="")
_THIN: Final = "send fewer documents at once, without empty or repeated parts"


class _Refused(Exception):  # noqa: N818 - never leaves this module
    """Ends the reading of one part, with the reason why the text is refused."""

    def __init__(self, reason: Unreadable) -> None:
        self.reason = reason


def read_object(body: bytes) -> dict[str, Any] | Unreadable:
    """Return the object in ``body``, or why ``body`` is refused.

    A blank ``body`` is an empty object. Numbers are exact. The time that this function takes is
    bounded by the length of ``body``.
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
                remedy="send only fields of this operation",
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
    """Return the list ``part``, which is the field ``name`` of ``body``, decoded in pieces."""
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
    """Return the decoded ``entries`` of the list ``name``."""
    try:
        found: list[Any] = _value(b"[%s]" % b",".join(entries), (name,), body)
    except _Refused:
        for entry in entries:
            _value(entry, (name, 0), body)
        raise
    return found


def _value(part: bytes, path: Path, body: bytes) -> Any:
    """Return the decoded value of ``part``, which is at ``path`` in ``body``."""
    _check_length(part, path)
    try:
        value = _VALUE.decode(part)
    except Underflow:
        raise _Refused(
            Unreadable(
                message="malformed JSON: the exponent of a number is too small to be read",
                remedy="write 0 if you mean zero",
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
    """Refuse a number of more than ``DIGITS_MAX`` consecutive digits; strings may have more."""
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
    """Yield the start and the end of each sequence of more than ``DIGITS_MAX`` digits, in order."""
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
                remedy="split it, and send the parts in separate requests",
            )
        )


def _parts(part: bytes, decoder: Any, body: bytes) -> Any:
    """Return the source text of each field or entry of ``part``."""
    try:
        return decoder.decode(part)
    except msgspec.ValidationError:
        raise _Refused(_ONE_OBJECT) from None
    except msgspec.DecodeError as error:
        raise _malformed(error, part, body) from None
    except RecursionError:
        raise _too_deep(part, body) from None


def _measured(value: dict[str, Any] | list[Any]) -> tuple[int, int]:
    """Return the nesting depth of ``value``, and the number of its keys and strings."""
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
            # Empty containers count for the depth, and there is nothing in them to visit.
            level = [each for each in level if each] or level[:1]
        else:
            level = []
    return depth, strings


def _counted(body: bytes, byte: bytes) -> int:
    """Return how often ``byte`` occurs in ``body``.

    It is counted chunk by chunk, so that other threads can run between the chunks.
    """
    starts = range(0, len(body), _CHUNK_BYTES)
    return sum(body.count(byte, start, start + _CHUNK_BYTES) for start in starts)


def _unescaped(text: bytes) -> bytes:
    """Return ``text`` without escaped backslashes and quotes; the other quotes delimit strings."""
    if b"\\" not in text:
        return text
    return text.replace(b"\\\\", b"").replace(b'\\"', b"")


def _strings(text: bytes) -> int:
    """Return the number of strings, keys included, in a piece of JSON."""
    return _counted(_unescaped(text), b'"') // 2


def _is_utf8(body: bytes) -> bool:
    try:
        body.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def values_allowed(length: int) -> int:
    """Return the maximal number of values in a text or message of ``length`` bytes."""
    return min(VALUES_MAX, VALUES_FREE + length // BYTES_PER_VALUE)


def _too_many(body: bytes) -> Unreadable | None:
    """Return why ``body`` is refused if it holds more values than its length allows, else None."""
    values_max = values_allowed(len(body))
    containers_max = VALUES_FREE + len(body) // BYTES_PER_CONTAINER
    values, containers = _held(body)
    if values <= values_max and containers <= containers_max:
        return None
    plain = _unescaped(body)
    if _counted(plain, b'"') // 2 <= _STRINGS_LOOKED_AT:
        # The counted commas and brackets may be inside strings; count those outside of strings.
        values, containers = _held(b"".join(plain.split(b'"')[::2]))
    if values > values_max:
        return Unreadable(
            message=f"has over {values_max} values, the limit for {len(body)} bytes",
            remedy=_THIN,
        )
    if containers > containers_max:
        return Unreadable(
            message=f"has over {containers_max} objects and lists, the limit for {len(body)} bytes",
            remedy=_THIN,
        )
    return None


def _held(text: bytes) -> tuple[int, int]:
    """Return upper bounds of the number of values in ``text``, and of containers among them."""
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
        # Half of a surrogate pair at the end of a string also gets an error without a position.
        fault = _explained(body)
        if fault is not None and HALF in fault.message:
            return _Refused(fault)
        what = (
            "it ends too early, contains an incomplete character, or has a number with too many "
            "digits"
        )
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
    return "correct the JSON here"


def _too_deep(part: bytes, body: bytes) -> _Refused:
    return _at(body, _start(part, body), f"malformed JSON: {TOO_DEEP}", FLATTEN)


def _start(part: bytes, body: bytes) -> int:
    """Return the offset of ``part`` in ``body``.

    The first occurrence is the right one: an equal part before it would have been refused first.
    """
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
    """Return the problem of a repeated key, with the key's name if it is cheap to find."""
    fault = _explained(body) or Unreadable(
        message="malformed JSON: an object has the same key twice", remedy="keep one of them"
    )
    return _Refused(fault)


def _explained(body: bytes) -> Unreadable | None:
    """Return the problem that ``json_text`` finds in ``body``; None if ``body`` is too long."""
    if len(body) > _NAMED_BYTES_MAX:
        return None
    found = read_json(body.decode("utf-8"))
    return found if isinstance(found, Unreadable) else None
