"""Makes a method for each operation of the table, for both clients.

``methods.pyi`` has the types of these methods for editors and type checkers. That file is generated
from the same signatures.
"""

from __future__ import annotations

import functools
import inspect
import textwrap
from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from inspect import Parameter, Signature
from types import UnionType
from typing import Annotated, Any, Final, Union, get_args, get_origin

from msgspec import NODEFAULT, UNSET, Struct, structs
from msgspec.structs import FieldInfo

from quorate.client.run_document import Said
from quorate.operations.operation import DRY_RUN, JSON_LINES, Effect, Operation

CHANGES: Final = "changes"
"""The parameter that takes several fields of a resource together."""
_SPOKEN: Final = ("user", "days")
"""Optional fields that may be positional arguments, like path parameters and required fields."""
_WIDTH: Final = 92


@functools.cache
def fields(takes: type[Struct]) -> tuple[FieldInfo, ...]:
    """Return the fields of a request type; cached, because msgspec takes long to find them."""
    return structs.fields(takes)


def add_methods(client: type, operations: Iterable[Operation], *, is_async: bool) -> None:
    """Add a method for each of ``operations`` to ``client``, which has ``_ask`` and ``_stream``."""
    for operation in operations:
        method = _method(operation, is_async=is_async)
        method.__name__ = operation.function_name
        method.__qualname__ = f"{client.__qualname__}.{operation.function_name}"
        method.__module__ = client.__module__
        method.__doc__ = docstring(operation)
        setattr(client, operation.function_name, method)


def _method(operation: Operation, *, is_async: bool) -> Any:
    name, call = operation.name, _call(operation)

    def stream(self: Any, *given: Any, **named: Any) -> Any:
        return self._stream(name, call.question(self, *given, **named))

    def ask(self: Any, *given: Any, **named: Any) -> Any:
        return self._ask(name, call.question(self, *given, **named))

    async def ask_and_await(self: Any, *given: Any, **named: Any) -> Any:
        return await self._ask(name, call.question(self, *given, **named))

    method: Any = stream if is_many(operation) else ask_and_await if is_async else ask
    method.__signature__ = call.signature
    return method


class _Call:
    """Builds the request of an operation from the arguments of its method."""

    def __init__(self, operation: Operation) -> None:
        self.signature = signature_of(operation)
        self._name = operation.function_name
        self._takes = operation.takes
        self._fields = {each.name: each for each in fields(operation.takes)}
        self._loose = loose_fields(operation)

    def question(self, *given: Any, **named: Any) -> Struct:
        """Return the request; raises TypeError for wrong arguments, as a Python function does."""
        try:
            arguments = dict(self.signature.bind(*given, **named).arguments)
        except TypeError as error:
            raise TypeError(f"{self._name}(): {error}") from None
        del arguments["self"]
        changes: Mapping[str, Any] = arguments.pop(CHANGES, None) or {}
        for name in changes:
            if name not in self._loose:
                known = ", ".join(self._loose)
                raise TypeError(f"{name}: unknown field; known fields: {known}")
            if arguments.get(name, UNSET) is not UNSET:
                raise TypeError(f"{name}: is given twice, by name and in {CHANGES}")
        taken = {name: self._taken(name, each) for name, each in {**arguments, **changes}.items()}
        return self._takes(**{name: each for name, each in taken.items() if each is not UNSET})

    def _taken(self, name: str, value: Any) -> Any:
        """Return ``value`` in the type of the field ``name``; UNSET if the field is left out."""
        each = self._fields[name]
        if value is None and each.default is NODEFAULT and not each.required:
            return UNSET
        if value is None or value is UNSET:
            return value
        kind = _plain(each.type)
        if kind is tuple:
            if isinstance(value, str | bytes):
                raise TypeError(f"{name}: give a list of strings, not one string: [{value!r}]")
            return tuple(value)
        if kind is dict:
            return dict(value)
        return kind(value) if isinstance(kind, type) and issubclass(kind, Enum) else value


@functools.cache
def _call(operation: Operation) -> _Call:
    """Return the ``_Call`` for ``operation``, which both clients share."""
    return _Call(operation)


def is_many(operation: Operation) -> bool:
    """Return whether the method returns an iterator over many answers."""
    return operation.effect is Effect.STREAM or operation.media == JSON_LINES


def signature_of(operation: Operation) -> Signature:
    """Return the signature: positional fields, then keyword-only fields with ``dry_run`` last.

    Fields that stay unchanged if they are not given may also be passed together in ``changes``.
    """
    known = fields(operation.takes)
    first = [each for each in known if "{" + each.name + "}" in operation.path]
    first += [each for each in known if each.required and each not in first]
    first += [each for each in known if each.name in _SPOKEN and each not in first]
    rest = [each for each in known if each not in first]
    rest.sort(key=lambda each: each.name == DRY_RUN)
    by_place = [Parameter("self", Parameter.POSITIONAL_OR_KEYWORD)]
    by_place += [_parameter(each, Parameter.POSITIONAL_OR_KEYWORD) for each in first]
    if loose_fields(operation):
        by_place.append(Parameter(CHANGES, Parameter.POSITIONAL_OR_KEYWORD, default=None))
    return Signature([*by_place, *(_parameter(each, Parameter.KEYWORD_ONLY) for each in rest)])


def submit_signature(submit: Callable[..., Any]) -> Signature:
    """Return the signature of ``submit`` with all its keyword arguments, for editors and help."""
    known = inspect.signature(submit)
    own = [each for each in known.parameters.values() if each.kind is not Parameter.VAR_KEYWORD]
    said = [
        Parameter(name, Parameter.KEYWORD_ONLY, default=None, annotation=kind)
        for name, kind in inspect.get_annotations(Said).items()
    ]
    return Signature([*own, *said], return_annotation=known.return_annotation)


def _parameter(each: FieldInfo, kind: Any) -> Parameter:
    if each.required:
        return Parameter(each.name, kind)
    return Parameter(each.name, kind, default=None if each.default is NODEFAULT else each.default)


def loose_fields(operation: Operation) -> tuple[str, ...]:
    """Return the names of the fields that stay unchanged if they are not given."""
    return tuple(each.name for each in fields(operation.takes) if each.default is UNSET)


def _plain(kind: Any) -> Any:
    """Return the plain type of a field, such as ``tuple`` for ``tuple[str, ...]``."""
    origin, parts = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return _plain(parts[0])
    if origin in (Union, UnionType):
        found = {_plain(each) for each in parts}
        return next((each for each in (tuple, dict) if each in found), kind)
    return kind if origin is None else origin


@functools.cache
def docstring(operation: Operation) -> str:
    """Return the docstring of a method: what it does, its HTTP path, and its refusals."""
    where = f"``{operation.method} /api/v1{operation.path}``"
    parts = [operation.summary, *about(operation)]
    parts.append(f"{where}, for: {', '.join(sorted(operation.roles))}.")
    if operation.refusals:
        refusals = f"Raises ``RefusedError`` with: {', '.join(operation.refusals)}."
        parts.append(textwrap.fill(refusals, _WIDTH, break_on_hyphens=False))
    return "\n\n".join(parts)


def about(operation: Operation) -> list[str]:
    """Return paragraphs about the arguments of a method."""
    takes = inspect.getdoc(operation.takes) if fields(operation.takes) else None
    parts = [takes] if takes else []
    if loose_fields(operation):
        parts.append(f"Fields may be given by name, or together in ``{CHANGES}``.")
    return parts
