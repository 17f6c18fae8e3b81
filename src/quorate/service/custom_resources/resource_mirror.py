"""Reservations, leases and outcomes as objects in a cluster, which only Quorate writes. Pure.

An object exists while the ledger has its counterpart: an open lease, a future firm start, or a
conflict. Ended leases, past starts and settled conflicts are in the ledger only. Leases and firm
starts are in the namespace of their run, and exist only for runs that are custom resources.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from quorate.adapters.kubernetes.object_names import object_name
from quorate.adapters.kubernetes.resource_objects import (
    LEASE,
    OUTCOME,
    RESERVATION,
    RUN,
    Resource,
    ResourceKind,
)
from quorate.service.custom_resources.ledger_picture import LedgerPicture, RunPicture
from quorate.service.custom_resources.resource_documents import ledger_name, owner_of
from quorate.service.custom_resources.resource_status import is_news, plain

Key = tuple[str, str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnObject:
    """An object that should exist; ``above`` is the resource that owns the object, if any."""

    kind: ResourceKind
    namespace: str
    name: str
    spec: Mapping[str, Any]
    status: Mapping[str, Any]
    above: Resource | None = None

    @property
    def key(self) -> Key:
        """The object's kind, namespace and name."""
        return self.kind.name, self.namespace, self.name

    def new_status(self, now: Resource) -> Mapping[str, Any] | None:
        """Return the status to write; None if ``now``, the present object, already has it."""
        return self.status if is_news(self.status, now.status) else None


@dataclass(frozen=True, slots=True)
class MirrorChanges:
    """The objects to create, change and delete."""

    made: tuple[OwnObject, ...] = ()
    changed: tuple[tuple[Resource, OwnObject], ...] = ()
    deleted: tuple[Resource, ...] = ()


def run_objects(resource: Resource, picture: RunPicture) -> list[OwnObject]:
    """Return the objects of a run: its leases, and its firm start."""
    found = [
        OwnObject(
            kind=LEASE,
            namespace=resource.namespace,
            name=object_name(name),
            spec={},
            status=plain(tree["status"]) | {"run": resource.name, "ledgerName": name},
            above=resource,
        )
        for name, tree in picture.leases.items()
    ]
    if picture.reservation is not None:
        name, tree = picture.reservation
        found.append(
            OwnObject(
                kind=RESERVATION,
                namespace=resource.namespace,
                name=object_name(name),
                spec=plain(tree["spec"]) | {"runRef": {"name": resource.name}},
                status=plain(tree["status"]) | {"ledgerName": name},
                above=resource,
            )
        )
    return found


def outcome_name(conflict: str) -> str:
    """Return the object name for a conflict, whose own name is a number."""
    return object_name(f"conflict-{conflict}")


def outcome_object(name: str, tree: Mapping[str, Any]) -> OwnObject:
    """Return the object for a conflict."""
    return OwnObject(
        kind=OUTCOME,
        namespace="",
        name=outcome_name(name),
        spec=plain(tree["spec"]),
        status=plain(tree["status"]) | {"ledgerName": name},
    )


def run_status(status: Mapping[str, Any]) -> dict[str, Any]:
    """Return the status of a run, with the object names of its leases and its firm start."""
    found = dict(status)
    found["leases"] = [object_name(each) for each in status["leases"]]
    reservation = status.get("reservation")
    if reservation is not None:
        found["reservation"] = {**reservation, "name": object_name(reservation["name"])}
    return found


Agreed = Mapping[Key, tuple[OwnObject, Resource]]
"""Objects that were compared with the cluster and found to be up to date."""


def mirror_changes(
    wanted: Iterable[OwnObject],
    kept: Iterable[Key],
    seen: Mapping[Key, Resource],
    ledger: str,
    agreed: Agreed,
) -> tuple[MirrorChanges, Agreed]:
    """Return the changes that make the objects of the ledger ``ledger`` equal to ``wanted``.

    Objects in ``kept`` stay as they are. An object that another program created stays as it is,
    too, unless it has the name of a wanted object: in that case it gets the wanted status. Objects
    in ``agreed`` are not compared again. The second result has the objects that are up to date now.
    """
    made: list[OwnObject] = []
    changed: list[tuple[Resource, OwnObject]] = []
    agrees: dict[Key, tuple[OwnObject, Resource]] = {}
    keys = set(kept)
    for each in wanted:
        keys.add(each.key)
        known = seen.get(each.key)
        if known is None:
            made.append(each)
        elif known.is_deleting:
            continue
        elif _is_in(agreed, each, known) or not is_news(each.status, known.status):
            agrees[each.key] = each, known
        else:
            changed.append((known, each))
    deleted = [
        each
        for key, each in seen.items()
        if each.kind.is_own and each.ledger == ledger and key not in keys and not each.is_deleting
    ]
    return MirrorChanges(tuple(made), tuple(changed), tuple(deleted)), agrees


def _is_in(agreed: Agreed, own: OwnObject, known: Resource) -> bool:
    before = agreed.get(own.key)
    return before is not None and before[0] is own and before[1] is known


class Mirror:
    """Compares the objects of the ledger ``ledger`` with the objects in the cluster.

    The objects of a run are reused while the ledger's data of the run does not change.
    """

    def __init__(self, ledger: str) -> None:
        self._ledger = ledger
        self._made: dict[str, tuple[RunPicture, list[OwnObject]]] = {}
        self._agreed: Agreed = {}

    def changes(
        self, resources: Iterable[Resource], seen: Mapping[Key, Resource], picture: LedgerPicture
    ) -> MirrorChanges:
        """Return the changes that make the cluster's objects agree with the ledger."""
        wanted = self._of_runs(resources, picture)
        kept: list[Key] = []
        for name, tree in picture.outcomes.items():
            if tree is None:
                kept.append((OUTCOME.name, "", outcome_name(name)))
            else:
                wanted.append(outcome_object(name, tree))
        found, self._agreed = mirror_changes(wanted, kept, seen, self._ledger, self._agreed)
        return found

    def _of_runs(self, resources: Iterable[Resource], picture: LedgerPicture) -> list[OwnObject]:
        """Return the objects that should exist for runs."""
        wanted: list[OwnObject] = []
        made: dict[str, tuple[RunPicture, list[OwnObject]]] = {}
        for resource in resources:
            run = picture.runs.get(ledger_name(resource)) if resource.kind == RUN else None
            if run is None or run.spec.owner != owner_of(resource):
                continue
            before = self._made.get(resource.uid)
            is_same = before is not None and before[0] is run
            own = before[1] if before is not None and is_same else run_objects(resource, run)
            made[resource.uid] = run, own
            wanted += own
        self._made = made
        return wanted
