"""The events that a watcher receives."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One event of the ledger. ``tag`` is its type; docs/reference/events.md lists all types.

    ``fields`` are the fields of that type, such as ``run``; ``at_ms`` is in milliseconds since
    1970.
    """

    seq: int
    tag: str
    at_ms: int
    actor: str
    fields: Mapping[str, Any]

    @classmethod
    def of(cls, tree: Mapping[str, Any]) -> Event:
        """Return the event in ``tree``."""
        own = ("seq", "tag", "at_ms", "actor")
        return cls(
            seq=int(tree["seq"]),
            tag=str(tree.get("tag", "")),
            at_ms=int(tree.get("at_ms", 0)),
            actor=str(tree.get("actor", "")),
            fields={name: value for name, value in tree.items() if name not in own},
        )

    def tree(self) -> dict[str, Any]:
        """Return the event as it was received."""
        own = {"seq": self.seq, "tag": self.tag, "at_ms": self.at_ms, "actor": self.actor}
        return own | dict(self.fields)
