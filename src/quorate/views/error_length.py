"""Errors cut to a length that can be sent: long texts of a caller are quoted in part. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec.structs import replace

from quorate.model.refusal import Refusal, Shortage
from quorate.views.exits import CommandError

LINE_CHARS_MAX: Final = 1_000
"""How many characters one fault has at most; a longer text loses its middle."""
LINES_CHARS_MAX: Final = 65_536
"""How many characters all faults of an error have, at most; the faults left out are counted."""
_HEAD_CHARS: Final = 600
"""How many characters at the beginning of a text that is too long are kept.

The beginning names the field. Of the end, which has the remedy, as much as fits is kept.
"""


def in_bounds(error: CommandError) -> CommandError:
    """Return ``error`` with its lines and refusals cut to the lengths above.

    An error that is short enough is returned unchanged.
    """
    if (
        len(error.lines) <= LINES_CHARS_MAX // LINE_CHARS_MAX
        and all(map(_is_short, error.lines))
        and all(_is_short(each.subject) and _is_short(each.remedy) for each in error.refusals)
    ):
        return error
    lines = _fitting([shortened(line) for line in error.lines])
    refusals = tuple(_refusal(each) for each in error.refusals[: len(lines)])
    return CommandError(error.code, *lines, fault=error.fault, refusals=refusals)


def shortened(text: str) -> str:
    """Return ``text``, without its middle if it is too long; the result can always be encoded."""
    text = text.encode("utf-8", "replace").decode()
    if len(text) <= LINE_CHARS_MAX:
        return text
    left_out = f" ... ({len(text)} characters) ... "
    return f"{text[:_HEAD_CHARS]}{left_out}{text[_HEAD_CHARS + len(left_out) - LINE_CHARS_MAX :]}"


def _is_short(text: str) -> bool:
    return len(text) <= LINE_CHARS_MAX and (text.isascii() or shortened(text) == text)


def _fitting(lines: Sequence[str]) -> list[str]:
    """Return the first of ``lines`` that fit, and a line that says how many were left out."""
    found: list[str] = []
    size = 0
    for line in lines:
        size += len(line)
        if size > LINES_CHARS_MAX:
            return [*found, f"and {len(lines) - len(found)} more; correct these first"]
        found.append(line)
    return found


def _refusal(refusal: Refusal) -> Refusal:
    return replace(
        refusal,
        subject=shortened(refusal.subject),
        remedy=shortened(refusal.remedy),
        shortages=tuple(map(_shortage, refusal.shortages)),
        also=None if refusal.also is None else _refusal(refusal.also),
    )


def _shortage(found: Shortage) -> Shortage:
    return replace(found, where=shortened(found.where), limit=shortened(found.limit))
