"""Parts of an answer that are dicts and have typed attributes as well.

A service may give more than this client knows, and every digit of what it gives is kept: so a part
stays the dict that was sent. The annotations of a class below ``Fields`` are the fields that are
known; each is an attribute, in snake case, of the type that is said.
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
    """A part of an answer. Where a field may be left out, its attribute is None or empty then."""

    def __init_subclass__(cls) -> None:
        for name in inspect.get_annotations(cls):
            setattr(cls, name, _Field(name))


class _Field:
    """A field of a part as an attribute."""

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
                f"{owner.__name__} has no {self._name}: the answer is without {self._key!r}; "
                f"it has: {', '.join(part) or 'nothing'}"
            ) from None

    def __set__(self, part: Fields, value: object) -> None:
        raise AttributeError(
            f"{type(part).__name__}.{self._name} is what the service said, and cannot be set; "
            "ask the service to change it",
            name=self._name,
            obj=part,
        )

    def _typed(self, value: Any, kind: Any, owner: type[Fields]) -> Any:
        try:
            return msgspec.convert(value, prepared(kind), dec_hook=part_of)
        except msgspec.ValidationError as error:
            raise NotQuorateError(
                f"{owner.__name__}.{self._name} is not what this client knows: {error}; "
                "is the service much older or newer than the client?"
            ) from None


def wire_name(name: str) -> str:
    """Return the name that the attribute ``name`` has in documents: ``freeGPUs``, ``plannedStart``.

    The first word stays as it is, so that it is ``gpuType``.
    """
    first, *rest = name.split("_")
    return first + "".join(_UPPER.get(word, word.capitalize()) for word in rest)


def part_of(kind: type, value: Any) -> Any:
    """Return ``value`` as the part ``kind``: msgspec asks this of types that it does not know."""
    assert issubclass(kind, Fields), kind
    if not isinstance(value, dict):
        raise TypeError(f"Expected `object`, got `{type(value).__name__}`")
    return kind(value)


@functools.cache
def _hints(owner: type[Fields]) -> dict[str, Any]:
    return get_type_hints(owner)


def _absent(kind: Any) -> Any:
    """Return what a field of type ``kind`` is where it was left out; TypeError if it may not be."""
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
