"""The values of unquoted scalars in the core schema of YAML 1.2 (section 10.3)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Final

from quorate.documents.json_text import exact_decimal

_WORDS: Final[Mapping[str, bool | None]] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_NUMERIC: Final = frozenset("+-.0123456789")
_INT: Final = re.compile(r"[-+]?[0-9]+")
_OCTAL: Final = re.compile(r"0o[0-7]+")
_HEX: Final = re.compile(r"0x[0-9a-fA-F]+")
_FLOAT: Final = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_INFINITE: Final = re.compile(r"[-+]?\.(?:inf|Inf|INF)")
_NAN: Final = frozenset({".nan", ".NaN", ".NAN"})
_INT_CHARS_MAX: Final = 40


def plain_scalar(written: str) -> bool | int | Decimal | str | None:
    """Return the value of the unquoted scalar ``written``."""
    if written in _WORDS:
        return _WORDS[written]
    return _number(written) if written[0] in _NUMERIC else written


def _number(written: str) -> int | Decimal | str:
    """Return the number in the text ``written``, or ``written`` itself if it is not a number."""
    if _INT.fullmatch(written):
        return int(written) if len(written) <= _INT_CHARS_MAX else Decimal(written)
    if len(written) <= _INT_CHARS_MAX and (_OCTAL.fullmatch(written) or _HEX.fullmatch(written)):
        return int(written, 0)
    if _FLOAT.fullmatch(written):
        return exact_decimal(written)
    if _INFINITE.fullmatch(written):
        return Decimal("-Infinity" if written[0] == "-" else "Infinity")
    return Decimal("NaN") if written in _NAN else written
