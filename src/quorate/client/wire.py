"""Encodes operations as REST requests, and decodes responses: pure, shared by both clients.

The table (``operations/operation.py``) says where each field travels: in the path, in a header, in
the query, or in the body.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from decimal import Decimal
from types import UnionType
from typing import Any, Final, Union, get_args, get_origin
from urllib.parse import quote

import msgspec
from msgspec import NODEFAULT, UNSET, Struct
from msgspec.structs import FieldInfo, fields

from quorate.client.errors import BusyError, NotQuorateError, RefusedError, error_kind
from quorate.model.amounts import fits_double
from quorate.operations.operation import ASIDE, DRY_RUN, NOTES, Operation
from quorate.prepared_types import prepared

Tree = Any
"""Any value of JSON."""
ROOT: Final = "/api/v1"
JSON: Final = "application/json"
TOLD: Final = "application/vnd.quorate.told+json"
PROBLEM: Final = "application/problem+json"
STREAM: Final = "text/event-stream"
BODILESS: Final = ("GET", "DELETE")
SHOWN_MAX: Final = 200
"""The most characters of an unexpected response that an error message quotes."""
RETRY_AFTER_S_MAX: Final = 3_600.0
_BODY: Final = msgspec.json.Encoder(decimal_format="number")


class Request(Struct, frozen=True, kw_only=True):
    """A REST request without server and token."""

    method: str
    path: str
    query: tuple[tuple[str, str], ...] = ()
    headers: Mapping[str, str] = msgspec.field(default_factory=dict)
    body: bytes | None = None


class Reply(Struct, frozen=True, kw_only=True):
    """A REST response; the names of ``headers`` are in lower case."""

    status: int
    headers: Mapping[str, str] = msgspec.field(default_factory=dict)
    body: bytes = b""

    @property
    def is_ok(self) -> bool:
        """Whether the status is a success."""
        return self.status // 100 == 2  # noqa: PLR2004 - the class of success


class Told(Struct, frozen=True, kw_only=True):
    """The texts of an answer: ``out`` for standard output, and ``err`` for standard error.

    ``done`` says what was recorded. It is part of the error message if printing fails.
    """

    out: tuple[str, ...]
    err: tuple[str, ...] = ()
    done: str = ""


def request_of(operation: Operation, asked: Struct, *, accept: str = JSON) -> Request:
    """Return the REST request for ``operation``.

    Fields with their default value are left out, so that an older service need not know them.
    """
    path, query, body = operation.path, list[tuple[str, str]](), dict[str, Any]()
    headers = {"Accept": accept}
    for each, value in _given(asked):
        slot = "{" + each.name + "}"
        if slot in path:
            path = path.replace(slot, quote(str(value), safe=""))
        elif each.name in ASIDE:
            headers[ASIDE[each.name]] = _header(each.name, str(value))
        elif operation.method in BODILESS or each.name == DRY_RUN:
            query += [(each.encode_name, text) for text in _texts(value)]
        else:
            body[each.encode_name] = value
    has_body = operation.method not in BODILESS
    if has_body:
        headers["Content-Type"] = JSON
    return Request(
        method=operation.method,
        path=ROOT + path,
        query=tuple(query),
        headers=headers,
        body=_BODY.encode(body) if has_body else None,
    )


def _given(asked: Struct) -> Iterator[tuple[FieldInfo, Any]]:
    """Yield the fields that do not have their default value."""
    for each in fields(asked):
        value, default = getattr(asked, each.name), each.default
        if default is NODEFAULT and not each.required:
            default = each.default_factory()
        if value is not UNSET and (each.required or value != default):
            yield each, value


def _texts(value: Any) -> list[str]:
    """Return the strings of a query parameter, one for each element of ``value``."""
    if isinstance(value, tuple | list):
        return [text for each in value for text in _texts(each)]
    if isinstance(value, bool):
        return ["true" if value else "false"]
    return [str(value)]


def _header(name: str, text: str) -> str:
    if not text.isprintable() or not text.isascii():
        raise ValueError(f"{name}: must be printable ASCII, got {text!r}")
    return text


def given_of(operation: Operation, reply: Reply) -> Any:
    """Return the decoded answer in ``reply``; raises ``QuorateClientError``.

    A number that a double cannot hold exactly is a ``Decimal`` in trees, so that it can be sent
    again unchanged.
    """
    # The command line uses only trees and text, and avoids the import of typed answers.
    from quorate.client.resources.resource_table import answer_type  # noqa: PLC0415

    check(reply)
    return _converted(_decoded(reply, JSON, _SOUND), answer_type(operation))


def tree_of(reply: Reply) -> Any:
    """Return the tree in ``reply`` with exact numbers; raises ``QuorateClientError``."""
    check(reply)
    return _decoded(reply, JSON, _EXACT)


def notes_of(reply: Reply) -> tuple[str, ...]:
    """Return the notes in ``reply``; empty if they cannot be read."""
    try:
        return msgspec.json.decode(reply.headers.get(NOTES, "[]"), type=tuple[str, ...])
    except msgspec.DecodeError:
        return ()


def told_of(reply: Reply) -> Told:
    """Return the text in ``reply``; raises ``QuorateClientError``."""
    check(reply)
    tree = _decoded(reply, TOLD, _PLAIN)
    try:
        return msgspec.convert(tree, prepared(Told), strict=True)
    except msgspec.ValidationError as error:
        raise NotQuorateError(f"the server's response is not valid text: {error}") from None


def line_of(operation: Operation, line: str) -> Any:
    """Return one line of an answer, decoded to the type in the table of operations."""
    try:
        return msgspec.json.decode(line, type=prepared(operation.gives))
    except msgspec.DecodeError as error:
        raise NotQuorateError(f"a line of the answer has an unknown form: {error}") from None


def event_of(operation: Operation, tree: Tree) -> Any:
    """Return one message of a stream, as an ``Event`` or in the type of the operation's answer."""
    from quorate.client.resources.resource_table import answer_type  # noqa: PLC0415
    from quorate.client.watched_events import Event  # noqa: PLC0415

    kind = answer_type(operation)
    return Event.of(tree) if kind is Event else _converted(tree, kind)


def text_of(reply: Reply, media: str) -> str:
    """Return the text in ``reply``, which must have the media type ``media``."""
    check(reply)
    if _media(reply) != media:
        raise _not_quorate(reply)
    return reply.body.decode("utf-8", "replace")


def check(reply: Reply) -> None:
    """Raise the error in ``reply`` if its status is not a success."""
    if not reply.is_ok:
        raise error_of(reply)


class _Problem(Struct):
    """The fields of a problem+json body that the client uses."""

    title: str = ""
    detail: str = ""
    code: str = ""
    lines: tuple[str, ...] = ()
    refusals: tuple[dict[str, Any], ...] = ()


def error_of(reply: Reply) -> RefusedError | NotQuorateError:
    """Return the error for a response that is not a success."""
    if _media(reply) != PROBLEM:
        return _not_quorate(reply)
    try:
        found = msgspec.json.decode(reply.body, type=prepared(_Problem))
    except msgspec.DecodeError:
        return _not_quorate(reply)
    wait_s = retry_after_s(reply)
    kind = error_kind(reply.status, has_wait=wait_s is not None)
    told = found.lines or (found.detail or found.title or f"HTTP status {reply.status}",)
    error = kind(
        status=reply.status, code=found.code or "failed", lines=told, refusals=found.refusals
    )
    if isinstance(error, BusyError):
        error.retry_after_s = wait_s
    return error


def retry_after_s(reply: Reply) -> float | None:
    """Return the seconds in ``Retry-After``; None without that header."""
    text = reply.headers.get("retry-after", "").strip()
    if not text.isdecimal():
        return None
    return min(float(text), RETRY_AFTER_S_MAX)


def lag_s(reply: Reply) -> float:
    """Return the answer's maximal age in seconds; 0 if the service does not state an age."""
    text = reply.headers.get("quorate-lag-ms", "").strip()
    return int(text) / 1_000 if text.isascii() and text.isdecimal() else 0.0


def _not_quorate(reply: Reply) -> NotQuorateError:
    shown = reply.body[:SHOWN_MAX].decode("utf-8", "replace").split("\n", 1)[0].strip()
    what = f": {shown}" if shown.isprintable() and shown else ""
    return NotQuorateError(
        f"the server is not Quorate: HTTP status {reply.status}, {_media(reply) or 'no type'}"
        f"{what}; check the server's address, and any proxy in between",
        status=reply.status,
    )


def _media(reply: Reply) -> str:
    return reply.headers.get("content-type", "").partition(";")[0].strip().lower()


def _exact(text: str) -> float | Decimal:
    """Return the number in ``text`` in a type that writes the same ``text`` again."""
    found = float(text)
    return found if msgspec.json.encode(found) == text.encode() else Decimal(text)


def _sound(text: str) -> float | Decimal:
    """Return the number in ``text``: a float if a double holds it exactly, else a ``Decimal``."""
    exact = Decimal(text)
    return float(text) if fits_double(exact) else exact


_PLAIN: Final = msgspec.json.Decoder()
_SOUND: Final = msgspec.json.Decoder(float_hook=_sound)
_EXACT: Final = msgspec.json.Decoder(float_hook=_exact)


def _decoded(reply: Reply, media: str, decoder: msgspec.json.Decoder[Any]) -> Any:
    if _media(reply) != media:
        raise _not_quorate(reply)
    try:
        return decoder.decode(reply.body)
    except msgspec.DecodeError:
        raise _not_quorate(reply) from None


@functools.cache
def _shapes(gives: Any) -> tuple[Any, ...]:
    """Return the types that an answer may have, the most specific first."""
    return get_args(gives) if get_origin(gives) in (Union, UnionType) else (gives,)


def _converted(tree: Any, gives: Any) -> Any:
    from quorate.client.answer_fields import part_of  # noqa: PLC0415 - as above

    faults: list[str] = []
    for shape in _shapes(gives):
        try:
            return msgspec.convert(tree, prepared(shape), dec_hook=part_of)
        except msgspec.ValidationError as error:
            faults.append(str(error))
    raise NotQuorateError(
        f"the server's answer has a form that this client does not know: {'; '.join(faults)}; "
        "is the service much older or newer than the client?"
    )
