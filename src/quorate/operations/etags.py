"""Versions of applied documents, as ETags: a number for an owner, else a hash of the document."""

from __future__ import annotations

import json
from hashlib import sha256
from typing import Final

from quorate.core.commands import Applied
from quorate.documents import render
from quorate.model.state.state_view import StateView
from quorate.views.exits import CommandError, Exit

_HEX: Final = 32
ANY: Final = "*"
VERSIONED: Final = frozenset({"node", "owner", "tenant", "budget", "pool", "system"})
"""The kinds that have versions: those whose resources are changed by applying whole documents."""


def spec_of(view: StateView, kind: str, name: str) -> Applied | None:
    """Return the spec that was applied under ``name``; None if there is none.

    The result is also None for kinds without versions, such as runs, whose documents never change.
    """
    match kind:
        case "node":
            record = view.nodes.get(name)
            return None if record is None else record.spec
        case "owner" | "tenant":
            return view.owners.get(name)
        case "budget":
            return view.budgets.get(name)
        case "pool":
            return view.pools.get(name)
        case "system":
            return view.system
        case _:
            return None


def etag_of(view: StateView, kind: str, name: str) -> str:
    """Return the version of a resource; empty if the resource has no version."""
    if kind in ("owner", "tenant"):
        version = view.owner_versions.get(name)
        return "" if version is None else str(version)
    spec = spec_of(view, kind, name)
    if spec is None:
        return ""
    text = json.dumps(render(spec), sort_keys=True, default=str)
    return sha256(text.encode()).hexdigest()[:_HEX]


def check_match(kind: str, name: str, now: str, if_match: str | None) -> None:
    """Raise ``CommandError`` if ``if_match`` does not name ``now``, the resource's version.

    ``now`` is empty if the resource does not exist, or if the caller may not see it.
    """
    if if_match is None:
        return
    asked = plain_tag(if_match)
    if (asked == ANY and now) or asked == now:
        return
    what = f"at version {now!r} now" if now else "not there"
    raise CommandError(
        Exit.REFUSED,
        f"{kind} {name!r} is {what}, not at {asked!r}; read it again, and check whether "
        "the change still applies",
        fault="stale-version",
    )


def plain_tag(text: str) -> str:
    """Return an entity tag without its quotes."""
    return text.strip().removeprefix("W/").strip('"')
