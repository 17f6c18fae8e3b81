"""Parts of an answer: dicts that also have typed attributes.

A part keeps all fields and digits that the service sent, also fields that this client does not
know. The annotations of a subclass of ``Fields`` are the known fields: each becomes a typed
attribute with a name in snake case.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Mapping
from types import NoneType, UnionType
from typing import Any, Final, Union, get_args, get_origin, get_type_hints

import msgspec

from quorate.client.errors import MissingFieldError, NotQuorateError
from quorate.prepared_types import prepared

_UPPER: Final = {"gpu": "GPU", "gpus": "GPUs"}


class Fields(dict[str, Any]):
    """A part of an answer. If an optional field is missing, its attribute is None or empty."""

    def __init_subclass__(cls) -> None:
        for name in inspect.get_annotations(cls):
            setattr(cls, name, _Field(name))


class _Field:
    """One field of a part, as an attribute."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._key = wire_name(name)

    def __get__(self, part: Fields | None, owner: type[Fields]) -> Any:
        if part is None:
            return self
        kind = _hints(owner)[self._name]
        if self._key in part:
            return self._typed(part[self._key], kind, owner)
        try:
            return _absent(kind)
        except TypeError:
            raise MissingFieldError(
                f"{owner.__name__} has no {self._name}: the answer lacks {self._key!r}; "
                f"it has: {', '.join(part) or 'nothing'}"
            ) from None

    def __set__(self, part: Fields, value: object) -> None:
        raise AttributeError(
            f"{type(part).__name__}.{self._name} was read from the service and cannot be set; "
            "change it with an operation of the client",
            name=self._name,
            obj=part,
        )

    def _typed(self, value: Any, kind: Any, owner: type[Fields]) -> Any:
        try:
            return msgspec.convert(value, prepared(kind), dec_hook=part_of)
        except msgspec.ValidationError as error:
            raise NotQuorateError(
                f"{owner.__name__}.{self._name} is in a form unknown to this client: {error}; "
                "is the service much older or newer than the client?"
            ) from None


def wire_name(name: str) -> str:
    """Return the field's name in JSON for the attribute ``name``: ``freeGPUs``, ``plannedStart``.

    The first word is not capitalised, as in ``gpuType``.
    """
    first, *rest = name.split("_")
    return first + "".join(_UPPER.get(word, word.capitalize()) for word in rest)


def part_of(kind: type, value: Any) -> Any:
    """Return ``value`` as the part ``kind``; msgspec calls this for types that it cannot decode."""
    assert issubclass(kind, Fields), kind
    if not isinstance(value, dict):
        raise TypeError(f"Expected `object`, got `{type(value).__name__}`")
    return kind(value)


@functools.cache
def _hints(owner: type[Fields]) -> dict[str, Any]:
    return get_type_hints(owner)


def _absent(kind: Any) -> Any:
    """Return the value of a missing field of type ``kind``; TypeError if the field is required."""
    origin = get_origin(kind)
    if origin in (Union, UnionType) and NoneType in get_args(kind):
        return None
    if origin is tuple:
        return ()
    if origin is dict or origin is Mapping:
        return {}
    if isinstance(kind, type) and issubclass(kind, Fields):
        return kind()
    raise TypeError(kind)
