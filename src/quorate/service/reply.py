"""Responses in the requested form, made by the thread or process that has the state."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

import msgspec

from quorate.operations.answer_types import Answer
from quorate.operations.operation import Operation
from quorate.views.exits import CommandError, Exit

_ENCODER: Final = msgspec.json.Encoder(decimal_format="number")


class Form(StrEnum):
    """The form of an answer: for programs, for people, for spreadsheets, or line by line."""

    TREE = "tree"
    JSON = "json"
    TOLD = "told"
    WIDE = "wide"
    CSV = "csv"
    LINES = "lines"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """An answer in one form: its ``tree``, its ``lines``, or else a ``body``.

    The ``lines`` of a long answer (``is_long``) may be read only in the read pool. The ``lines`` of
    other answers may be read only on the ledger thread. ``LedgerThread.parts_of`` reads both in the
    right place. ``cpu_s`` is the CPU time that a reader took for the answer.
    """

    body: bytes = b""
    tree: Any = None
    lines: Iterator[str] | None = None
    notes: tuple[str, ...] = ()
    etag: str = ""
    is_long: bool = False
    cpu_s: float | None = None


def to_json(tree: object) -> bytes:
    """Return ``tree`` as JSON, with exact decimals, and a newline at the end."""
    return _ENCODER.encode(tree) + b"\n"


def reply_of(found: Answer, operation: Operation, form: Form, *, is_long: bool = False) -> Reply:
    """Return ``found`` in ``form``; raises ``CommandError`` if ``found`` lacks this form."""
    body, tree, lines = b"", None, None
    match form:
        case Form.TREE:
            tree = found.tree()
        case Form.JSON:
            body = to_json(found.tree())
        case Form.TOLD | Form.WIDE:
            out = list(found.lines(form is Form.WIDE))
            body = to_json({"out": out, "err": list(found.notes), "done": found.done})
        case Form.CSV if found.csv is not None:
            body = found.csv().encode()
        case Form.LINES if found.stream is not None:
            lines = found.stream()
        case _:
            raise CommandError(
                Exit.USAGE,
                f"{operation.name}: is not available as {form}; ask for application/json",
                fault="not-acceptable",
            )
    return Reply(
        body=body, tree=tree, lines=lines, notes=found.notes, etag=found.etag, is_long=is_long
    )
