"""What an operation is: its name, its types, its permitted roles, and its address."""

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
    """What a token may be issued for: areas, to which it is limited, and rights that it adds."""

    RUNS = "runs"
    FLEET = "fleet"
    MONEY = "money"
    TENANTS = "tenants"
    CONTENTION = "contention"
    LEDGER = "ledger"
    SERVICE = "service"
    CLAIM = CLAIM


class Effect(StrEnum):
    """What a request does."""

    READ = "read"
    WRITE = "write"
    STREAM = "stream"


JSON: Final = "application/json"
JSON_LINES: Final = "application/x-ndjson"
EVENT_STREAM: Final = "text/event-stream"


class Repeat(StrEnum):
    """What a repeated request does."""

    SAFE = "safe"
    """Nothing is changed."""
    SAME = "same"
    """The second time finds everything as asked for."""
    KEYED = "keyed"
    """It is another request, unless both carry one idempotency key."""
    ANEW = "anew"
    """Each repetition does it again."""


class Operation(Struct, frozen=True, kw_only=True):
    """``handler`` is ``module:function``, imported when it is first needed.

    In ``path``, which is below ``/api/v1``, a field of ``takes`` in braces is a part of it; the
    other fields are in the query, or in the body where the method has one. ``about`` is the kind of
    thing, where one handler serves several. ``cli`` are its commands, and ``rpc`` its name in gRPC
    where that differs. ``media`` is the media type of a REST response; where it has more than one
    document, ``gives`` is the shape of each. ``of_blocks``: answered from the blocks alone, also
    where the state cannot be read. ``is_long``: takes time with the length of the ledger or the
    queue, or with the request, and changes nothing; ``of_queue``: the length of the ledger does not
    matter. ``is_apart``: computed from the request alone. ``is_for_any_scope``: allowed with a
    token for any area; the request decides. ``of_caller``: depends on the caller and the tenants
    alone. ``of_service``: needs what only a serving program has; ``of_leader``: where several serve
    one ledger, the one that leads.
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
        """Its name as a method of the client."""
        return self.name.replace("-", "_")

    @property
    def rpc_name(self) -> str:
        """Its name as a method of gRPC."""
        return self.rpc or "".join(word.capitalize() for word in self.name.split("-"))

    def handle(self) -> Callable[..., Any]:
        """Return the function that answers it."""
        module, _, function = self.handler.partition(":")
        found = getattr(importlib.import_module(module), function)
        assert callable(found), self.handler
        return found  # type: ignore[no-any-return]


KEY: Final = "idempotency_key"
"""The field that tells a repetition from another request."""
ASIDE: Final = {"if_match": "If-Match", KEY: "Idempotency-Key"}
"""Fields that travel in a header of REST, not in the body."""
NOTES: Final = "quorate-notes"
"""The header of REST in which a response for programs has the notes for people: JSON."""
DRY_RUN: Final = "dry_run"
"""The field of every write that travels in the query of REST."""
