"""Decodes a REST request for its operation: path, query, headers and body together.

An unknown parameter is refused with an error that names it; no parameter is silently ignored.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import msgspec
from msgspec import Struct
from msgspec.inspect import ListType, StructType, UnionType, VarTupleType, type_info

from quorate.documents.bare import is_document
from quorate.documents.document_problem import shown
from quorate.documents.json_object import read_object
from quorate.documents.located_tree import Unreadable
from quorate.operations.common_requests import within_a_page
from quorate.operations.operation import ASIDE, DRY_RUN, KEY, Effect, Operation, Repeat
from quorate.prepared_types import prepared
from quorate.service.http.misfits import misfit
from quorate.service.problem_json import problem
from quorate.views.hints import nearest_name
from quorate.views.kinds.tenant_fields import QUOTA_FIELDS, flat_fields
from quorate.views.statuses import INVALID, USAGE

UNKNOWN_MAX: Final = 20
"""How many unknown names of one request an error message lists."""
NAME_CHARS_MAX: Final = 100
"""The longest unknown name that an error message repeats."""
_KEY_HEADER: Final = ASIDE[KEY].lower().encode()
_WITH_BODY: Final = ("POST", "PUT", "PATCH")
_TRUTHS: Final = {"true": True, "1": True, "false": False, "0": False, "": True}


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """Where each field of a request is sent: in the path, a header, the query or the body."""

    path: Mapping[str, str]
    """The name in the braces of the path -> the field's name in JSON."""
    headers: Mapping[bytes, str]
    query: frozenset[str]
    many: frozenset[str]
    """The query parameters that may be repeated."""
    body: frozenset[str]
    dry_run: str


@cache
def shape_of(operation: Operation) -> Shape:
    """Return where the fields of a request for ``operation`` are sent."""
    info = type_info(operation.takes)
    assert isinstance(info, StructType), operation
    in_path = {
        field.name: field.encode_name
        for field in info.fields
        if f"{{{field.name}}}" in operation.path
    }
    headers = {
        ASIDE[field.name].lower().encode(): field.encode_name
        for field in info.fields
        if field.name in ASIDE
    }
    dry_run = next((each.encode_name for each in info.fields if each.name == DRY_RUN), "")
    aside = {*in_path.values(), *headers.values(), dry_run}
    rest = [field for field in info.fields if field.encode_name not in aside]
    names = frozenset(field.encode_name for field in rest)
    has_body = operation.method in _WITH_BODY
    dry = {dry_run} if operation.effect is Effect.WRITE else set()
    return Shape(
        path=in_path,
        headers=headers,
        query=frozenset(dry) if has_body else names | dry,
        many=frozenset(each.encode_name for each in rest if _is_many(each.type)),
        body=names if has_body else frozenset(),
        dry_run=dry_run,
    )


def _is_many(kind: object) -> bool:
    if isinstance(kind, UnionType):
        return any(_is_many(each) for each in kind.types)
    return isinstance(kind, VarTupleType | ListType)


def has_body(operation: Operation) -> bool:
    """Return whether a request for ``operation`` may have a body."""
    return operation.method in _WITH_BODY


def asked_of(
    operation: Operation,
    path: Mapping[str, str],
    query: Sequence[tuple[str, str]],
    headers: Mapping[bytes, str],
    body: bytes,
) -> Struct:
    """Return the decoded request; raises ``CommandError`` with the names of faulty fields."""
    shape = shape_of(operation)
    if operation.repeat is Repeat.ANEW and _KEY_HEADER in headers:
        raise problem(
            USAGE,
            f"{ASIDE[KEY]}: {operation.name} does not support this header: each repetition is "
            "carried out; leave the header out, and check the result before you repeat the request",
        )
    values: dict[str, Any] = _query_values(shape, query)
    if has_body(operation):
        values |= _body_values(shape, body, path)
    values |= {shape.path[name]: value for name, value in path.items()}
    values |= {wire: headers[name] for name, wire in shape.headers.items() if name in headers}
    try:
        asked = msgspec.convert(values, prepared(operation.takes), strict=has_body(operation))
    except msgspec.ValidationError as error:
        raise problem(INVALID if has_body(operation) else USAGE, _told(error)) from None
    return within_a_page(asked)


def _query_values(shape: Shape, query: Sequence[tuple[str, str]]) -> dict[str, Any]:
    unknown = [name for name, _ in query if name not in shape.query]
    if unknown:
        raise problem(USAGE, *_all_unknown(unknown, shape.query, "parameter"))
    found: dict[str, Any] = {}
    for name, value in query:
        if name in shape.many:
            found.setdefault(name, []).append(value)
        elif name in found:
            raise problem(USAGE, f"{name}: is given more than once; give it once")
        elif name == shape.dry_run:
            if value.lower() not in _TRUTHS:
                raise problem(USAGE, f"{name}: must be true or false, got {value!r}")
            found[name] = _TRUTHS[value.lower()]
        else:
            found[name] = value
    return found


def _body_values(shape: Shape, body: bytes, path: Mapping[str, str]) -> dict[str, Any]:
    tree = _wrapped(shape, _json_object(body))
    in_path = {shape.path[name]: value for name, value in path.items()}
    for name, value in in_path.items():
        if name in tree and tree[name] != value:
            raise problem(
                INVALID,
                f"{name}: the body has {shown(tree[name])}, but the path has {shown(value)}",
            )
    if shape.dry_run in tree:
        raise problem(INVALID, f"{shape.dry_run}: must be in the query: ?{shape.dry_run}=true")
    unknown = [name for name in tree if name not in shape.body and name not in in_path]
    if unknown:
        raise problem(INVALID, *_all_unknown(unknown, shape.body, "field"))
    return tree


def _wrapped(shape: Shape, tree: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of the request in its body.

    If the body is a document, the document becomes the value of the field ``document`` or
    ``documents``. A tenant's document becomes the fields of a tenant, so that ``PUT`` accepts the
    document that ``GET /tenants/{id}`` returns.
    """
    one, many = "document", "documents"
    if one in tree or many in tree or not is_document(tree):
        return tree
    if one in shape.body:
        return {one: tree}
    if shape.body >= QUOTA_FIELDS.keys():
        return flat_fields(tree) or tree
    if many not in shape.body:
        return tree
    items = tree.get("items") if tree.get("kind") == "List" else None
    return {many: items if isinstance(items, list) else [tree]}


def _json_object(body: bytes) -> dict[str, Any]:
    """Return the JSON object in ``body``; an empty body is an empty object.

    The body is parsed like documents: numbers stay exact, and a repeated key is refused.
    """
    found = read_object(body)
    if not isinstance(found, Unreadable):
        return found
    where = "" if found.line is None else f" at line {found.line}, column {found.column}"
    remedy = f"; {found.remedy}" if found.remedy else ""
    raise problem(USAGE, f"body{where}: {found.message}{remedy}")


def _all_unknown(names: Sequence[str], known: frozenset[str], what: str) -> list[str]:
    """Return a line for each of ``names`` that is not ``known``, up to a limit."""
    each = list(dict.fromkeys(names))
    left = len(each) - UNKNOWN_MAX
    told = [_unknown(name, known, what) for name in each[:UNKNOWN_MAX]]
    return [*told, f"and {left} more; correct these first"] if left > 0 else told


def _unknown(name: str, known: frozenset[str], what: str) -> str:
    near = nearest_name(name, known)
    is_short = len(name) <= NAME_CHARS_MAX and name.isprintable()
    told = name if is_short else shown(name)
    if near is not None:
        return f"{told}: there is no such {what}; did you mean {near!r}?"
    rest = ", ".join(sorted(known)) or "none"
    return f"{told}: there is no such {what}; use one of: {rest}"


def _told(error: msgspec.ValidationError) -> str:
    """Return msgspec's message with the field first, as in all other messages."""
    name, text = misfit(error)
    text = text.replace("`", "").replace(" | ", " or ")
    text = f"{text[:1].lower()}{text[1:]}"
    return f"{name}: {text}" if name else text
