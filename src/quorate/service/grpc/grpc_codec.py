"""Converts between protobuf messages and the Structs of operations."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, TypeVar

import msgspec
from google.protobuf.message import DecodeError, Message
from google.protobuf.unknown_fields import UnknownFieldSet
from msgspec import Struct

from quorate.documents.document_problem import Path
from quorate.documents.json_object import values_allowed
from quorate.prepared_types import prepared
from quorate.service.grpc import grpc_values as values
from quorate.service.grpc.grpc_protocol import message_class
from quorate.service.grpc.grpc_schema import Choice, Given, Many, Method, name_of
from quorate.service.grpc.grpc_shape import Field, Form, Label, Shape, fields_of, message_name
from quorate.service.http.misfits import misfit
from quorate.views.exits import CommandError, Exit

T = TypeVar("T", bound=Struct)


def read_request(method: Method, data: bytes) -> Struct:
    """Return the request in ``data`` for ``method``; raises a ``CommandError`` naming the field."""
    takes = method.operation.takes
    message = message_class(message_name(takes))()
    try:
        message.ParseFromString(data)
    except DecodeError:
        raise CommandError(
            Exit.INVALID, f"request: is not a {message_name(takes)}; see quorate.proto"
        ) from None
    return read_struct(message, takes, values.Budget(values_allowed(len(data))))


def read_struct(message: Message, struct: type[T], budget: values.Budget | None = None) -> T:
    """Return the ``struct`` that ``message`` carries; raises ``CommandError``."""
    tree = read_tree(message, struct, budget=budget)
    try:
        return msgspec.convert(tree, prepared(struct))
    except msgspec.ValidationError as error:
        field, what = misfit(error)
        text = f"{field or message_name(struct)}: {what}; see quorate.proto"
        raise CommandError(Exit.INVALID, text) from None


def read_tree(
    message: Message,
    struct: type[Struct],
    where: Path = (),
    budget: values.Budget | None = None,
) -> dict[str, Any]:
    """Return the ``struct`` that ``message`` carries, as a JSON tree.

    An unknown field is refused, not ignored. ``budget`` limits the number of values in a client's
    message.
    """
    budget = budget or _ample()
    unknown = UnknownFieldSet(message)
    if len(unknown):
        number = unknown[0].field_number
        place = f"{values.told(where)}." if where else ""
        raise CommandError(
            Exit.INVALID,
            f"{place}field {number} of {message_name(struct)} is unknown; use the quorate.proto "
            f"of this version, or a newer service",
        )
    found: dict[str, Any] = {}
    for field in fields_of(struct):
        _read_field(found, message, field, where, budget)
    more: dict[str, Any] = found.pop("", {})
    return found | more


def _ample() -> values.Budget:
    """Return a budget for messages that this program has written itself."""
    return values.Budget(sys.maxsize)


def _read_field(
    found: dict[str, Any], message: Message, field: Field, where: Path, budget: values.Budget
) -> None:
    value, here = getattr(message, field.name), (*where, field.name)
    match field.label:
        case Label.MANY if value or field.required:
            budget.take(len(value), here)
            found[field.wire] = [
                _read(field.shape, each, (*here, at), budget) for at, each in enumerate(value)
            ]
        case Label.MAP if value or field.required:
            budget.take(len(value), here)
            found[field.wire] = {
                key: _read(field.shape, each, (*here, key), budget) for key, each in value.items()
            }
        case Label.ONE if not _has_presence(message, field) or message.HasField(field.name):
            found[field.wire] = _read(field.shape, value, here, budget)
        case Label.ONE if field.required and field.nullable:
            found[field.wire] = None
        case _:
            pass


def _has_presence(message: Message, field: Field) -> bool:
    return bool(message.DESCRIPTOR.fields_by_name[field.name].has_presence)


def _read(shape: Shape, value: Any, where: Path, budget: values.Budget) -> Any:
    match shape.form:
        case Form.SCALAR:
            return value
        case Form.MESSAGE:
            assert shape.of is not None
            return read_tree(value, shape.of, where, budget)
        case Form.VALUE:
            return values.read_value(value, where, budget)
        case Form.TREE:
            return values.read_tree(value, where, budget)
        case Form.LIST:
            return values.read_list(value, where, budget)


def write_answer(method: Method, tree: Any) -> bytes:
    """Return ``tree``, an answer of ``method``, as a message."""
    message = message_class(name_of(method.gives))()
    _fill_given(message, values.plain(tree), method.gives)
    return message.SerializeToString()


def write_struct(value: Struct) -> Message:
    """Return the message that carries ``value``."""
    message = message_class(message_name(type(value)))()
    fill(message, values.plain(value), type(value))
    return message


def _fill_given(message: Any, tree: Any, given: Given) -> None:
    match given:
        case None:
            values.fill_tree(message, tree)
        case Many():
            for each in tree:
                fill(getattr(message, given.FIELD).add(), each, given.struct)
        case Choice():
            member = _fitting(given, tree)
            field = getattr(message, given.field_of(member))
            field.SetInParent()
            _fill_given(field, tree, member)
        case struct:
            fill(message, tree, struct)


def _fitting(choice: Choice, tree: Any) -> type[Struct] | Many:
    """Return the member of ``choice`` that fits ``tree``: a list, or the Struct with its fields."""
    fitting = [
        member
        for member in choice.members
        if isinstance(member, Many) == isinstance(tree, list | tuple)
        and (
            isinstance(member, Many)
            or all(field.wire in tree for field in fields_of(member) if field.required)
        )
    ]
    assert len(fitting) == 1, (choice.name, tree)
    return fitting[0]


def fill(message: Message, tree: Mapping[str, Any], struct: type[Struct]) -> None:
    """Write ``tree``, a ``struct`` in JSON, into ``message``.

    Fields of ``tree`` that ``struct`` lacks are left out: an answer may have fields that its type
    does not name yet.
    """
    message.SetInParent()
    for field in fields_of(struct):
        value: Any = tree.get(field.wire) if field.wire else _more(tree, struct)
        if value is None and (field.wire not in tree or field.shape.form is not Form.VALUE):
            continue  # The field is absent, or null, which means the same.
        match field.label:
            case Label.ONE if field.shape.form is Form.SCALAR:
                exact = isinstance(value, Decimal)
                setattr(message, field.name, float(value) if exact else value)
            case Label.ONE:
                _fill(field.shape, getattr(message, field.name), value)
            case Label.MANY:
                _fill_many(field.shape, getattr(message, field.name), value)
            case Label.MAP:
                _fill_map(field.shape, getattr(message, field.name), value)


def _more(tree: Mapping[str, Any], struct: type[Struct]) -> dict[str, Any]:
    """Return the fields of ``tree`` that ``struct`` does not have."""
    known = {field.wire for field in fields_of(struct)}
    return {key: value for key, value in tree.items() if key not in known}


def _fill_many(shape: Shape, repeated: Any, items: list[Any]) -> None:
    if shape.form is Form.SCALAR:
        repeated.extend(items)
        return
    for each in items:
        _fill(shape, repeated.add(), each)


def _fill_map(shape: Shape, entries: Any, tree: Mapping[str, Any]) -> None:
    for key, value in tree.items():
        if shape.form is Form.SCALAR:
            entries[key] = value
        else:
            _fill(shape, entries[key], value)


def _fill(shape: Shape, message: Any, value: Any) -> None:
    match shape.form:
        case Form.MESSAGE:
            assert shape.of is not None
            fill(message, value, shape.of)
        case Form.VALUE:
            values.fill_value(message, value)
        case Form.TREE:
            values.fill_tree(message, value)
        case Form.LIST:
            values.fill_list(message, value)
        case Form.SCALAR:
            raise AssertionError(shape)
