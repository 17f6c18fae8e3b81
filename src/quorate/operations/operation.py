"""The type of operations: the name, the types, the permitted roles, and the address of each."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from enum import StrEnum
from typing import Any, Final

from msgspec import Struct

from quorate.operations.caller import CLAIM, Role


class Area(StrEnum):
    """The subject of operations. A token may be limited to some areas."""

    RUNS = "runs"
    FLEET = "fleet"
    MONEY = "money"
    TENANTS = "tenants"
    CONTENTION = "contention"
    LEDGER = "ledger"
    SERVICE = "service"


class Scope(StrEnum):
    """The scopes of a token: areas limit what the token may do; rights extend it."""

    RUNS = "runs"
    FLEET = "fleet"
    MONEY = "money"
    TENANTS = "tenants"
    CONTENTION = "contention"
    LEDGER = "ledger"
    SERVICE = "service"
    CLAIM = CLAIM


class Effect(StrEnum):
    """The kind of effect that a request has."""

    READ = "read"
    WRITE = "write"
    STREAM = "stream"


JSON: Final = "application/json"
JSON_LINES: Final = "application/x-ndjson"
EVENT_STREAM: Final = "text/event-stream"


class Repeat(StrEnum):
    """The kind of effect that a request has if it is repeated."""

    SAFE = "safe"
    """A read: it changes nothing."""
    SAME = "same"
    """The repetition changes nothing, because the state is as requested already."""
    KEYED = "keyed"
    """Without an idempotency key, the repetition is a new request. With the key of the first
    request, it changes nothing."""
    ANEW = "anew"
    """Each repetition is carried out again."""


class Operation(Struct, frozen=True, kw_only=True):
    """One operation: its types, its addresses, and the function that answers it.

    ``handler`` is ``module:function``, imported on first use. ``path`` is below ``/api/v1``; a name
    in braces in ``path`` is a field of ``takes``. The other fields of ``takes`` are in the query
    or, if the method has a body, in the body. ``about`` is the kind of resource, if one handler
    serves several kinds. ``cli`` are the commands of the operation. ``rpc`` is the gRPC name if it
    is not made from ``name``. ``media`` is the media type of a REST response. If the response has
    several documents, ``gives`` is the type of each document.

    An operation ``of_blocks`` reads only blocks, and works even if the state cannot be read. An
    operation that ``is_long`` changes nothing, and its cost grows with the ledger, the queue or the
    request. If the operation is also ``of_queue``, its cost does not grow with the ledger. An
    operation that ``is_apart`` reads only the request. An operation that ``is_for_any_scope`` may
    be called with any token, whatever areas the token is limited to. If the needed area depends on
    the request, ``check_command`` checks the area later. The result of an operation ``of_caller``
    depends on the caller and the tenants alone. An operation ``of_service`` needs a running
    service. An operation ``of_leader`` needs the leader, if several services share one ledger.
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
"""The fields that REST sends in a header, not in the body."""
NOTES: Final = "quorate-notes"
"""The REST header with the notes for people, as JSON, that comes with a response for programs."""
DRY_RUN: Final = "dry_run"
"""The field of every write that REST sends in the query."""
