"""Maps values of Structs to protobuf: one rule for each type.

A Struct distinguishes three cases: absent, null and empty. Protobuf distinguishes only two of these
cases. So a field that may be null, but is not null by default, is a ``google.protobuf.Value``. A
list that may be left out of a request is a ``google.protobuf.ListValue``. A field of these two
types can be present, empty, or absent. For a reader of a response, an empty list is the same as an
absent list. JSON objects whose fields are not fixed by a Struct (free trees) are
``google.protobuf.Struct``. Enums are strings, so that an old client can read a new value.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum, auto
from functools import cache
from typing import Any, Final

from msgspec import NODEFAULT, Struct
from msgspec import inspect as types

from quorate.operations.common_requests import Asked
from quorate.operations.ledger.ledger_operations import EventTold


class Form(Enum):
    """How a value is converted for a message."""

    SCALAR = auto()
    MESSAGE = auto()
    VALUE = auto()
    TREE = auto()
    LIST = auto()


class Label(Enum):
    """How often a field may occur in a message."""

    ONE = auto()
    """The field occurs at most once; a message shows whether an optional field is absent."""
    MANY = auto()
    MAP = auto()


@dataclass(frozen=True, slots=True)
class Shape:
    """A protobuf type.

    ``name`` is the name of the type. If the type is the message of a Struct, ``of`` is that Struct.
    """

    name: str
    form: Form
    of: type[Struct] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """A field: ``name`` is its name in protobuf, and ``wire`` is its name in JSON.

    An empty ``wire`` means all fields of the JSON object that the Struct does not name.
    """

    name: str
    wire: str
    shape: Shape
    label: Label
    required: bool
    nullable: bool


_VALUE: Final = Shape("google.protobuf.Value", Form.VALUE)
_TREE: Final = Shape("google.protobuf.Struct", Form.TREE)
_LIST: Final = Shape("google.protobuf.ListValue", Form.LIST)
_SCALARS: Final[dict[type[types.Type], str]] = {
    types.StrType: "string",
    types.EnumType: "string",
    types.LiteralType: "string",
    types.IntType: "int64",
    types.FloatType: "double",
    types.BoolType: "bool",
    types.BytesType: "bytes",
}
_MORE: Final = Field(
    name="more", wire="", shape=_TREE, label=Label.ONE, required=False, nullable=False
)
"""The field of an event's message for the fields that only some events have."""
_LISTS: Final = (types.ListType, types.VarTupleType, types.TupleType)
_ITEMS: Final = (types.ListType, types.VarTupleType)


def message_name(struct: type[Struct]) -> str:
    """Return the name of the message for ``struct``; the name for a request ends in ``Request``."""
    name = struct.__name__
    return name.removesuffix("Request") + "Request" if issubclass(struct, Asked) else name


@cache
def fields_of(struct: type[Struct]) -> tuple[Field, ...]:
    """Return the fields of the message that carries ``struct``, in the order of the Struct."""
    info = types.type_info(struct)
    assert isinstance(info, types.StructType), struct
    more = (_MORE,) if issubclass(struct, EventTold) else ()
    return (*(_field(each, struct) for each in info.fields), *more)


def structs_in(struct: type[Struct]) -> Iterator[type[Struct]]:
    """Yield the Structs in fields of ``struct`` that become messages."""
    for field in fields_of(struct):
        if field.shape.of is not None:
            yield field.shape.of


def _field(field: types.Field, struct: type[Struct]) -> Field:
    members, nullable = _members(field.type)
    if len(members) != 1 or (nullable and not (field.required or field.default is None)):
        shape, label = _VALUE, Label.ONE
    else:
        # If absent and empty mean the same, a list or a map needs no wrapper.
        same = not nullable and (
            field.required or _is_empty(field) or not issubclass(struct, Asked)
        )
        shape, label = _carried(members[0], plain=same)
    return Field(
        name=field.name.rstrip("_"),
        wire=field.encode_name,
        shape=shape,
        label=label,
        required=field.required,
        nullable=nullable,
    )


def _carried(kind: types.Type, *, plain: bool) -> tuple[Shape, Label]:
    if plain and isinstance(kind, _ITEMS):
        return _shape(kind.item_type), Label.MANY
    if plain and isinstance(kind, types.DictType):
        value = _shape(kind.value_type)
        if value.form in (Form.SCALAR, Form.MESSAGE):
            return value, Label.MAP
    return _shape(kind), Label.ONE


def _is_empty(field: types.Field) -> bool:
    """Return whether the default of ``field`` is an empty list or map."""
    if field.default_factory is not NODEFAULT:
        return field.default_factory in (list, dict, tuple)
    default: Any = field.default
    return isinstance(default, tuple | list | dict) and not default


def _members(kind: types.Type) -> tuple[tuple[types.Type, ...], bool]:
    """Return the types of ``kind`` (several for a union) without null, and whether null is allowed.

    A number that may be an integer or a float is carried as a float.
    """
    if not isinstance(kind, types.UnionType):
        return (kind,), False
    members = tuple(each for each in kind.types if not isinstance(each, types.NoneType))
    nullable = len(members) < len(kind.types)
    if {type(each) for each in members} == {types.IntType, types.FloatType}:
        return (types.FloatType(),), nullable
    return members, nullable


def _shape(kind: types.Type) -> Shape:
    """Return how one value of a type is carried."""
    if isinstance(kind, types.Metadata):
        return _shape(kind.type)
    if isinstance(kind, types.LiteralType | types.EnumType):
        _check_words(kind)
    scalar = _SCALARS.get(type(kind))
    if scalar is not None:
        return Shape(scalar, Form.SCALAR)
    if isinstance(kind, types.StructType):
        return Shape(message_name(kind.cls), Form.MESSAGE, kind.cls)
    if isinstance(kind, types.DictType):
        return _TREE
    if isinstance(kind, _LISTS):
        return _LIST
    if isinstance(kind, types.AnyType | types.UnionType):
        return _VALUE
    raise TypeError(f"no rule carries {kind} in protobuf; add one to grpc_shape.py")


def _check_words(kind: types.LiteralType | types.EnumType) -> None:
    values = (
        kind.values if isinstance(kind, types.LiteralType) else [each.value for each in kind.cls]
    )
    if not all(isinstance(value, str) for value in values):
        raise TypeError(f"{kind}: only strings may be carried as strings in protobuf")
