"""Parses and checks ``waldur.links``: which owners are linked to which resources of Waldur."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final
from uuid import UUID

LINKS_KEY: Final = "waldur.links"
LINKS_MAX: Final = 1_000
"""How many owners may be linked.

There is a limit because the service asks Waldur about one owner after the other.
"""
_FIELDS: Final = ("resource", "gpu_hours", "node_hours")


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkedOwner:
    """An owner, its resource in Waldur, and the resource's components for the owner's hours.

    ``gpu`` is the component for GPU-hours, and ``node`` for node-hours. One of them may be empty.
    """

    owner: str
    resource: str
    gpu: str
    node: str

    @property
    def components(self) -> tuple[str, ...]:
        """The names of the components that are reported."""
        return tuple(filter(None, (self.gpu, self.node)))


def links_of(table: object, file: str) -> tuple[tuple[LinkedOwner, ...], list[str]]:
    """Return the links in a file, by owner, and all faults in them."""
    if not isinstance(table, dict):
        return (), [f"{file}: {LINKS_KEY}: must be a table with a table for each owner"]
    if len(table) > LINKS_MAX:
        return (), [f"{file}: {LINKS_KEY}: must not have more than {LINKS_MAX} owners"]
    found: dict[str, LinkedOwner] = {}
    wrong: list[str] = []
    for owner, given in sorted(table.items()):
        faults = list(_faults(given))
        wrong += [f"{file}: {LINKS_KEY}.{owner}{fault}" for fault in faults]
        if not faults:
            link = _link(owner, given)
            other = found.setdefault(link.resource, link)
            if other is not link:
                # Two owners would overwrite each other's reported usage.
                wrong.append(
                    f"{file}: {LINKS_KEY}.{owner}.resource: {other.owner} already has this resource"
                )
    return tuple(sorted(found.values(), key=lambda link: link.owner)), wrong


def _faults(given: object) -> Iterator[str]:
    if not isinstance(given, dict):
        yield ": must be a table"
        return
    for key in given:
        if key not in _FIELDS:
            yield f".{key}: is not a setting; the settings are {', '.join(_FIELDS)}"
    if not _is_uuid(given.get("resource")):
        yield f".resource: must be the UUID of a resource in Waldur, got {given.get('resource')!r}"
    components = [given[key] for key in _FIELDS[1:] if key in given]
    if not components:
        yield ": must name the component of gpu_hours, of node_hours, or both"
    for name in components:
        if not isinstance(name, str) or not name or not name.isprintable():
            yield f": a component must be text on one line, got {name!r}"
    if len(set(map(str, components))) < len(components):
        yield ": gpu_hours and node_hours must be different components"


def _is_uuid(value: object) -> bool:
    try:
        return isinstance(value, str) and bool(UUID(value))
    except ValueError:
        return False


def _link(owner: str, given: Mapping[str, str]) -> LinkedOwner:
    return LinkedOwner(
        owner=owner,
        resource=str(UUID(given["resource"])),
        gpu=given.get("gpu_hours", ""),
        node=given.get("node_hours", ""),
    )
