"""`quorate serve` of an older and of a newer version, as during an upgrade of services.

The older version lacks one kind of event, and the fields of entries in etcd that have a default.
The newer version writes one more field into each entry.
"""

from __future__ import annotations

from typing import Any, Final, Union, get_args

import msgspec

from quorate.ledger import chain, codec
from quorate.model.events import Event, TokenRevoked
from quorate.ports.leader_port import LeaderRecord, MemberRecord
from quorate.service.quorum import leader_role
from tests.service.program import CLI
from tests.tidy.tree import ROOT

NEWER_VERSION: Final = "99.0.0"
UNKNOWN: Final = TokenRevoked
"""The kind of event that the older version does not know."""


def _code(plant: str) -> str:
    path = f"import sys; sys.path.insert(0, {str(ROOT)!r})"
    return f"{path}\nfrom tests.etcd.planted_versions import {plant}; {plant}()\n{CLI}"


OLDER: Final = _code("be_older")
NEWER: Final = _code("be_newer")
"""The program of such a service."""


def be_older() -> None:
    """Make this process behave like the older version."""
    known = tuple(each for each in get_args(Event) if each is not UNKNOWN)
    # Blocks are decoded in one pass, which knows all kinds of events, or event by event.
    chain._body = chain._body_closely
    decoder = codec.EventDecoder(Union[known], codec.UPCASTERS)  # type: ignore[arg-type]  # noqa: UP007
    codec._DECODER = decoder  # type: ignore[misc]
    _write_entries(lambda fields: {name: fields[name] for name in fields if name in _FIRST})


_FIRST: Final = frozenset({"name", "address", "term"})
"""The fields that entries had in the first version."""


def be_newer() -> None:
    """Make this process behave like the newer version."""
    leader_role.__version__ = NEWER_VERSION  # type: ignore[attr-defined]
    _write_entries(lambda fields: fields | {"place": "a field of the newer version"})


def _write_entries(change: Any) -> None:
    """Write entries in etcd with the fields that ``change`` returns for the present fields."""
    encode = msgspec.json.encode

    def encoded(found: Any, **more: Any) -> bytes:
        if isinstance(found, LeaderRecord | MemberRecord):
            found = change(msgspec.to_builtins(found))
        return encode(found, **more)

    msgspec.json.encode = encoded
