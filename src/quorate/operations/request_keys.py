"""Idempotency keys: how a request with a key is identified in the ledger.

A key belongs to its caller: the same text from another caller is a different key. With the key, the
ledger records a digest of the request's content, so that a key cannot be used for two different
requests.
"""

from __future__ import annotations

from hashlib import sha256
from typing import Final
from urllib.parse import quote

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from quorate.core.commands import Command, Keyed
from quorate.operations.caller import Caller
from quorate.operations.operation import DRY_RUN, KEY, Operation
from quorate.operations.request_context import RequestContext

_ENCODER: Final = msgspec.json.Encoder(order="deterministic", decimal_format="string")


def keyed(caller: Caller, operation: Operation, asked: Struct, command: Command) -> Command:
    """Return ``command``, wrapped in ``Keyed`` if ``asked`` has a key.

    A ``Keyed`` command is carried out only once. A dry run needs no key, because it changes
    nothing.
    """
    key = getattr(asked, KEY, None)
    if key is None or getattr(asked, DRY_RUN, False):
        return command
    assert not isinstance(command, Keyed), command
    return Keyed(command, key_of(caller, key), _digest(operation, asked), sent=key)


def is_repetition(context: RequestContext, operation: Operation, asked: Struct) -> bool:
    """Return whether the ledger still has a request with the key and the content of ``asked``.

    If so, this first request already had its effects. For example, a resource that it removed is
    gone, so the repetition must not be refused because of a missing resource.
    """
    key = getattr(asked, KEY, None)
    if key is None or getattr(asked, DRY_RUN, False):
        return False
    record = context.recorded.requests.get(key_of(context.caller, key))
    if record is None or record.is_forgotten(context.engine.now_ms()):
        return False
    return record.digest == _digest(operation, asked)


def _digest(operation: Operation, asked: Struct) -> str:
    content = _ENCODER.encode([operation.name, replace(asked, **{KEY: None})])
    return sha256(content).hexdigest()


def key_of(caller: Caller, key: str) -> str:
    """Return the key of the caller as the ledger records it: ``TENANT/USER/KEY``.

    Slashes in the name of the tenant and in the name of the user are encoded.
    """
    return f"{quote(caller.tenant, safe='')}/{quote(caller.user, safe='@')}/{key}"


def plain(command: Command) -> Command:
    """Return ``command`` without its key."""
    return command.command if isinstance(command, Keyed) else command
