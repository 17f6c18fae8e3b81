"""The error detail that gRPC sends with the status: a ``Problem``."""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from quorate.model.refusal import Refusal
from quorate.views.exits import CommandError

PROBLEM_BYTES_MAX: Final = 4_000
"""The longest problem: it is sent in headers, for which clients accept 8 KiB."""
LINES_MAX: Final = 50
LINE_CHARS_MAX: Final = 400


class Problem(Struct, kw_only=True, frozen=True, rename="camel"):
    """Why a request was refused; ``code`` never changes its meaning: docs/reference/refusals.md.

    Each of ``lines`` is one fault with its remedy; ``refusals`` has the refusals in a form for
    programs, with their numbers. ``left_out`` counts the lines that did not fit.
    """

    code: str
    lines: tuple[str, ...]
    refusals: tuple[Refusal, ...]
    left_out: int


def problem_of(error: CommandError) -> Problem:
    """Return ``error`` as a problem, shortened to fit into headers."""
    lines = tuple(cut(line, LINE_CHARS_MAX) for line in error.lines[:LINES_MAX])
    left_out = len(error.lines) - len(lines)
    problem = Problem(code=error.fault, lines=lines, refusals=error.refusals, left_out=left_out)
    while len(msgspec.json.encode(problem)) > PROBLEM_BYTES_MAX:
        if problem.refusals:
            problem = replace(problem, refusals=problem.refusals[:-1])
        else:
            problem = replace(problem, lines=problem.lines[:-1], left_out=problem.left_out + 1)
    return problem


def cut(text: str, chars_max: int) -> str:
    """Return ``text``, cut at its end if it is too long."""
    return text if len(text) <= chars_max else f"{text[: chars_max - 1]}…"
