"""Idempotency keys: how a request that carries one is identified in the ledger.

A key is its caller's own: the same text of another caller is another key. The content of the
request goes into a digest, so that a key cannot be used for two different requests.
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

_ENCODER: Final = msgspec.json.Encoder(order="deterministic", decimal_format="string")


def keyed(caller: Caller, operation: Operation, asked: Struct, command: Command) -> Command:
    """Return ``command``, to be carried out once if ``asked`` has a key.

    A dry run needs none: it changes nothing.
    """
    key = getattr(asked, KEY, None)
    if key is None or getattr(asked, DRY_RUN, False):
        return command
    assert not isinstance(command, Keyed), command
    content = _ENCODER.encode([operation.name, replace(asked, **{KEY: None})])
    return Keyed(command, key_of(caller, key), sha256(content).hexdigest(), sent=key)


def key_of(caller: Caller, key: str) -> str:
    """Return ``key`` as the ledger has it: after its tenant and its user, which have no /."""
    return f"{quote(caller.tenant, safe='')}/{quote(caller.user, safe='@')}/{key}"


def plain(command: Command) -> Command:
    """Return ``command`` without its key."""
    return command.command if isinstance(command, Keyed) else command
