"""The type of an operation: its name, its types, its permitted roles, and its address."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from enum import StrEnum
from typing import Any, Final

from msgspec import Struct

from quorate.operations.caller import CLAIM, Role


class Area(StrEnum):
    """The subject of operations; a token may be limited to some areas."""

    RUNS = "runs"
    FLEET = "fleet"
    MONEY = "money"
    TENANTS = "tenants"
    CONTENTION = "contention"
    LEDGER = "ledger"
    SERVICE = "service"


class Scope(StrEnum):
    """The scopes of a token: areas, which limit it, and rights, which extend it."""

    RUNS = "runs"
    FLEET = "fleet"
    MONEY = "money"
    TENANTS = "tenants"
    CONTENTION = "contention"
    LEDGER = "ledger"
    SERVICE = "service"
    CLAIM = CLAIM


class Effect(StrEnum):
    """The effect of a request."""

    READ = "read"
    WRITE = "write"
    STREAM = "stream"


JSON: Final = "application/json"
JSON_LINES: Final = "application/x-ndjson"
EVENT_STREAM: Final = "text/event-stream"


class Repeat(StrEnum):
    """The effect of a repeated request."""

    SAFE = "safe"
    """A read: it changes nothing."""
    SAME = "same"
    """The repetition changes nothing, because the state is already as requested."""
    KEYED = "keyed"
    """The repetition is a new request, unless it has the idempotency key of the first request."""
    ANEW = "anew"
    """Each repetition is carried out again."""


class Operation(Struct, frozen=True, kw_only=True):
    """One operation: its types, its addresses, and the function that answers it.

    ``handler`` is ``module:function``, imported on first use. In ``path``, which is below
    ``/api/v1``, a name in braces is a field of ``takes``. The other fields are in the query or, if
    the method has a body, in the body. ``about`` is the kind of resource, if one handler serves
    several kinds. ``cli`` are the commands of the operation. ``rpc`` is its gRPC name if that name
    is not made from ``name``. ``media`` is the media type of a REST response; if the response has
    several documents, ``gives`` is the type of each.

    An operation ``of_blocks`` reads only blocks, and works even if the state cannot be read. An
    operation that ``is_long`` changes nothing, and its cost grows with the ledger, the queue or the
    request. If it is also ``of_queue``, its cost does not grow with the ledger. An operation that
    ``is_apart`` reads only the request. If ``is_for_any_scope``, a token that is limited to any
    areas may call the operation; if the areas depend on the request, its command is checked for
    them later (``check_command``). The result of an operation ``of_caller`` depends on the caller
    and the tenants alone. An operation ``of_service`` needs a running service. An operation
    ``of_leader`` needs the leader, if several services share one ledger.
    """

    name: str
    area: Area
    summary: str
    takes: type[Struct]
    gives: Any
    roles: frozenset[Role]
    method: str
    path: str
    handler: str
    effect: Effect = Effect.READ
    repeat: Repeat = Repeat.SAFE
    refusals: tuple[str, ...] = ()
    about: str = ""
    cli: tuple[str, ...] = ()
    rpc: str = ""
    media: str = JSON
    of_blocks: bool = False
    is_long: bool = False
    is_apart: bool = False
    of_queue: bool = False
    of_caller: bool = False
    of_service: bool = False
    of_leader: bool = False
    is_for_any_scope: bool = False

    @property
    def function_name(self) -> str:
        """The name of the client's method."""
        return self.name.replace("-", "_")

    @property
    def rpc_name(self) -> str:
        """The name of the gRPC method."""
        return self.rpc or "".join(word.capitalize() for word in self.name.split("-"))

    def handle(self) -> Callable[..., Any]:
        """Return the function that answers the operation."""
        module, _, function = self.handler.partition(":")
        found = getattr(importlib.import_module(module), function)
        assert callable(found), self.handler
        return found  # type: ignore[no-any-return] # checked above


KEY: Final = "idempotency_key"
"""The field that distinguishes a repetition from a new request."""
ASIDE: Final = {"if_match": "If-Match", KEY: "Idempotency-Key"}
"""Fields that REST sends in a header, not in the body."""
NOTES: Final = "quorate-notes"
"""The REST header with the notes for people, as JSON, beside a response for programs."""
DRY_RUN: Final = "dry_run"
"""The field of every write that REST sends in the query."""
