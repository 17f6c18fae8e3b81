"""JSON without a fixed form as ``google.protobuf.Struct``, ``Value`` and ``ListValue``.

These types have only doubles. Whole numbers become integers again when they are read. A number that
a double cannot hold is carried as a string of digits, as protobuf's own JSON does with 64-bit
integers. A document may state a number in that form.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from math import isfinite
from typing import Any, Final

import msgspec
from google.protobuf.struct_pb2 import ListValue, Value
from google.protobuf.struct_pb2 import Struct as TreeMessage

from quorate.documents.document_problem import Path, path_text
from quorate.documents.located_tree import DEPTH_MAX, FLATTEN, TOO_DEEP
from quorate.model.amounts import fits_double
from quorate.service.grpc.grpc_problem import cut
from quorate.views.exits import CommandError, Exit

EXACT_MAX: Final = 2**53
"""The largest whole number up to which a double holds every whole number."""
WHERE_CHARS_MAX: Final = 200
"""How many characters of a field's path an error message shows."""


def plain(value: object) -> Any:
    """Return ``value`` in JSON types, except that decimals stay exact."""
    return msgspec.to_builtins(value, str_keys=True, builtin_types=(Decimal,))


class Budget:
    """The number of values that one message may still have."""

    def __init__(self, values_max: int) -> None:
        self._values_max = values_max
        self._left = values_max

    def take(self, values: int, where: Path) -> None:
        """Count ``values`` further values at ``where``; raises ``CommandError`` above the limit."""
        self._left -= values
        if self._left < 0:
            raise CommandError(
                Exit.INVALID,
                f"{told(where)}: the message has more than {self._values_max} values, too many "
                f"for its length; send fewer documents at once, without empty parts",
            )
        if len(where) >= DEPTH_MAX:
            raise CommandError(Exit.INVALID, f"{told(where)}: {TOO_DEEP}; {FLATTEN}")


def told(where: Path) -> str:
    """Return ``where`` as text, shortened if its keys are long."""
    return cut(path_text(where), WHERE_CHARS_MAX)


def read_tree(message: TreeMessage, where: Path, budget: Budget) -> dict[str, Any]:
    """Return the tree in ``message``, found at ``where``; raises ``CommandError``."""
    fields = message.fields
    budget.take(len(fields), where)
    return {key: read_value(value, (*where, key), budget) for key, value in fields.items()}


def read_list(message: ListValue, where: Path, budget: Budget) -> list[Any]:
    """Return the list in ``message``."""
    budget.take(len(message.values), where)
    return [read_value(each, (*where, at), budget) for at, each in enumerate(message.values)]


def read_value(message: Value, where: Path, budget: Budget) -> Any:
    """Return the value in ``message``; raises ``CommandError`` if there is no value."""
    match message.WhichOneof("kind"):
        case "string_value":
            return message.string_value
        case "number_value":
            return _number(message.number_value, where)
        case "bool_value":
            return message.bool_value
        case "null_value":
            return None
        case "struct_value":
            return read_tree(message.struct_value, where, budget)
        case "list_value":
            return read_list(message.list_value, where, budget)
        case _:
            raise CommandError(
                Exit.INVALID, f"{told(where)}: is a Value without a kind; for null set null_value"
            )


def _number(number: float, where: Path) -> int | float:
    if not isfinite(number):
        raise CommandError(
            Exit.INVALID, f"{told(where)}: {number} is not finite; give a finite number"
        )
    return int(number) if number.is_integer() and abs(number) <= EXACT_MAX else number


def fill_tree(message: TreeMessage, tree: Mapping[str, Any]) -> None:
    """Write ``tree`` into ``message``, even if it is empty."""
    message.SetInParent()
    for key, value in tree.items():
        fill_value(message.fields[key], value)


def fill_list(message: ListValue, values: Sequence[Any]) -> None:
    """Write ``values`` into ``message``, even if there are none."""
    message.SetInParent()
    for value in values:
        fill_value(message.values.add(), value)


def fill_value(message: Value, value: Any) -> None:
    """Write ``value`` into ``message``."""
    match value:
        case None:
            message.null_value = 0  # type: ignore[assignment] # an enum is a number here
        case bool():
            message.bool_value = value
        case int() if abs(value) > EXACT_MAX:
            message.string_value = str(value)
        case int() | float():
            message.number_value = value
        case Decimal() if not fits_double(value):
            message.string_value = str(value)
        case Decimal():
            message.number_value = float(value)
        case str():
            message.string_value = value
        case list() | tuple():
            fill_list(message.list_value, value)
        case dict():
            fill_tree(message.struct_value, value)
        case _:
            raise TypeError(
                f"{type(value).__name__} has no form in a protobuf Value; use null, a bool, a "
                "number, text, a list or an object"
            )
