"""The messages and services of gRPC, derived from the table of operations.

``tools/protobuf.py`` writes the messages and services to proto/quorate/v1/quorate.proto, and the
server registers its methods from here, so the file and the server agree.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from types import UnionType
from typing import Any, ClassVar, Final, get_args, get_origin

from msgspec import Struct

from quorate.operations.operation import JSON_LINES, Area, Effect, Operation
from quorate.operations.table import OPERATIONS
from quorate.service.grpc.grpc_problem import Problem
from quorate.service.grpc.grpc_shape import message_name, structs_in

PACKAGE: Final = "quorate.v1"
TREE: Final = "google.protobuf.Struct"

SERVICE_OF: Final = {
    Area.RUNS: "RunService",
    Area.FLEET: "FleetService",
    Area.MONEY: "MoneyService",
    Area.TENANTS: "AdminService",
    Area.CONTENTION: "ContentionService",
    Area.LEDGER: "LedgerService",
    Area.SERVICE: "AdminService",
}
"""The gRPC service of each area. ``AdminService`` has tenants and the installation itself."""
_ADMIN_TOO: Final = frozenset({"tenant-usage", "user-usage"})
"""Operations that are in ``AdminService``, although their area belongs to another service."""


@dataclass(frozen=True, slots=True)
class Many:
    """A message with a list of ``struct`` in a field called ``items``."""

    FIELD: ClassVar = "items"

    struct: type[Struct]

    @property
    def name(self) -> str:
        """The name of the message, such as ``ForecastList``."""
        return f"{self.struct.__name__}List"


@dataclass(frozen=True, slots=True)
class Choice:
    """A message with one of ``members``, each in a field with the member's name."""

    FIELD: ClassVar = "given"
    """The name of the oneof that joins the members."""

    members: tuple[type[Struct] | Many, ...]

    @property
    def name(self) -> str:
        """The name of the message, such as ``ThingOrListing``."""
        return "Or".join(name_of(each) for each in self.members)

    def field_of(self, member: type[Struct] | Many) -> str:
        """Return the name of the field for ``member``."""
        name = name_of(member)
        letters = (f"_{each.lower()}" if each.isupper() else each for each in name)
        return "".join(letters).removeprefix("_")


Given = type[Struct] | Many | Choice | None
"""What an operation returns; None means any JSON object."""


def name_of(given: Given) -> str:
    """Return the name of the message for ``given``."""
    match given:
        case None:
            return TREE
        case Many() | Choice():
            return given.name
        case struct:
            return message_name(struct)


@dataclass(frozen=True, slots=True)
class Method:
    """An operation as a method of gRPC."""

    operation: Operation
    gives: Given

    @property
    def service(self) -> str:
        """The service of the method."""
        is_admin = self.operation.name in _ADMIN_TOO
        return SERVICE_OF[Area.TENANTS if is_admin else self.operation.area]

    @property
    def name(self) -> str:
        """The name of the method."""
        return self.operation.rpc_name

    @property
    def path(self) -> str:
        """The path of the method, such as ``/quorate.v1.RunService/SubmitRun``."""
        return f"/{PACKAGE}.{self.service}/{self.name}"

    @property
    def is_stream(self) -> bool:
        """Whether the answer is a stream of messages."""
        return self.operation.effect is Effect.STREAM or self.operation.media == JSON_LINES


@dataclass(frozen=True, slots=True)
class Schema:
    """All methods, and all messages by name: ``structs`` and ``groups``.

    ``taken`` are the Structs of requests, which distinguish an absent field from an empty field.
    """

    methods: tuple[Method, ...]
    structs: Mapping[str, type[Struct]]
    groups: Mapping[str, Many | Choice]
    taken: frozenset[type[Struct]]

    def services(self) -> dict[str, list[Method]]:
        """Return the methods of each service, in the order of the table."""
        found: dict[str, list[Method]] = {name: [] for name in SERVICE_OF.values()}
        for method in self.methods:
            found[method.service].append(method)
        return {name: methods for name, methods in found.items() if methods}


def schema_of(operations: Iterable[Operation]) -> Schema:
    """Return the schema of ``operations``; two messages with one name are a bug in the table."""
    methods = tuple(Method(each, _given(each.gives)) for each in operations)
    taken = _reached(method.operation.takes for method in methods)
    groups: dict[str, Many | Choice] = {}
    given: list[type[Struct]] = [Problem]
    for method in methods:
        _collect(method.gives, groups, given)
    structs: dict[str, type[Struct]] = {}
    for struct in [*taken, *_reached(given)]:
        name = message_name(struct)
        if structs.setdefault(name, struct) is not struct or name in groups:
            raise TypeError(f"two types would be the message {name}; rename {struct}")
    return Schema(methods, dict(sorted(structs.items())), groups, frozenset(taken))


@cache
def schema() -> Schema:
    """Return the schema of the table."""
    return schema_of(OPERATIONS.values())


def _given(gives: Any) -> Given:
    if isinstance(gives, UnionType):
        return Choice(tuple(_member(each) for each in get_args(gives)))
    return None if get_origin(gives) is dict else _member(gives)


def _member(gives: Any) -> type[Struct] | Many:
    if isinstance(gives, type) and issubclass(gives, Struct):
        return gives
    if get_origin(gives) is tuple:
        struct, _ = get_args(gives)
        if isinstance(struct, type) and issubclass(struct, Struct):
            return Many(struct)
    raise TypeError(
        f"no message carries {gives}; return a Struct, a list of one, a union of Structs, or a tree"
    )


def _collect(given: Given, groups: dict[str, Many | Choice], structs: list[type[Struct]]) -> None:
    """Add the types in ``given`` to ``groups`` and ``structs``."""
    match given:
        case None:
            pass
        case Many():
            groups[given.name] = given
            structs.append(given.struct)
        case Choice():
            groups[given.name] = given
            for member in given.members:
                _collect(member, groups, structs)
        case struct:
            structs.append(struct)


def _reached(structs: Iterable[type[Struct]]) -> dict[type[Struct], None]:
    """Return ``structs`` and all Structs in their fields, each once."""
    waiting, found = list(structs), dict[type[Struct], None]()
    while waiting:
        struct = waiting.pop()
        if struct not in found:
            found[struct] = None
            waiting.extend(structs_in(struct))
    return found
