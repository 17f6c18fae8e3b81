"""Why a firm start cannot stand: the closed list of causes, each with its objects.

Something was late, lost or withdrawn. What was submitted, started, grew, filled a spare or was
cancelled is never among them: all of that goes around firm places.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from quorate.core.expected import said_end_ms
from quorate.core.planning.entry import Entry
from quorate.core.planning.profile import Profile, cap_members
from quorate.core.quota_holders import family_of
from quorate.model.events import MoveCause, MoveCode, NodeStatus
from quorate.model.island import IslandKey
from quorate.model.specs import CapId, EnvelopeId
from quorate.model.view import StateView

OBJECTS_MAX: Final = 8
"""How many objects of a cause are named."""

_WITHDRAWN: Final = {
    "envelope": (MoveCode.BUDGET_CHANGED, "envelope"),
    "lending": (MoveCode.BUDGET_CHANGED, "envelope"),
    "cap": (MoveCode.CAP_CHANGED, "cap"),
    "runs": (MoveCode.QUOTA_CHANGED, "owner"),
    "nodes": (MoveCode.QUOTA_CHANGED, "owner"),
}


def cause_of(profile: Profile, pin: Entry) -> MoveCause:
    """Return why ``pin``, which is not put into ``profile``, does not stand there.

    Leases that are late where anything is short; else what was lost or withdrawn there.
    """
    short = [
        (kind, name)
        for kind, name, resource, amount in profile.named_needs(pin)
        if resource.least(pin.start_ms, pin.end_ms) < amount
    ]
    late = _late(profile, (lease for what in short for lease in _leases(profile, pin, *what)))
    if late is not None:
        return late
    for kind, name in short:
        if kind == "domain":
            return _lost(profile.view, IslandKey(pin.pool, pin.slice.flavor, name))
        code, what = _WITHDRAWN[kind]
        return MoveCause(code, ((what, name),))
    return _closed(profile, pin)


def _leases(profile: Profile, pin: Entry, kind: str, name: str) -> Iterator[str]:
    """Yield the leases that hold something of what is short."""
    view = profile.view
    match kind:
        case "domain":
            key = IslandKey(pin.pool, pin.slice.flavor, name)
            yield from (lease for _, _, lease in profile.island_ends(key))
        case "envelope" | "lending":
            yield from view.payer_leases.get(EnvelopeId(name), ())
        case "cap":
            for member in cap_members(view, CapId(name)):
                yield from view.payer_leases.get(member, ())
        case _:
            for owner in family_of(view, name):
                yield from view.owner_leases.get(owner, ())


def _late(profile: Profile, leases: Iterable[str]) -> MoveCause | None:
    """Return that some of ``leases`` are late: overran first, then those that are slow to stop."""
    view, now_ms = profile.view, profile.now_ms
    overran: dict[str, None] = {}
    slow: dict[str, None] = {}
    for name in leases:
        lease = view.leases[name]
        if said_end_ms(view, lease) < now_ms:
            (overran if lease.ending is None else slow)[name] = None
    for code, late in ((MoveCode.LEASE_OVERRAN, overran), (MoveCode.EXECUTOR_LATE, slow)):
        if late:
            return MoveCause(code, tuple(("lease", name) for name in list(late)[:OBJECTS_MAX]))
    return None


def _lost(view: StateView, key: IslandKey) -> MoveCause:
    """Return which nodes of an island are lost or drained; that they have changed where none is."""
    domain = ("domain", key.domain)
    if key.domain not in view.domains(key.pool, key.flavor).numbers:
        return MoveCause(MoveCode.NODES_CHANGED, (domain,))
    nodes = [node.name for node in view.island(key).nodes]
    for status, code in (
        (NodeStatus.FAILED, MoveCode.NODE_LOST),
        (NodeStatus.CORDONED, MoveCode.NODE_DRAINED),
    ):
        found = [("node", name) for name in nodes if view.node_status.get(name) is status]
        if found:
            return MoveCause(code, tuple(found[:OBJECTS_MAX]))
    return MoveCause(MoveCode.NODES_CHANGED, (domain,))


def _closed(profile: Profile, pin: Entry) -> MoveCause:
    """Return what keeps a place that counting allows: who pays, or where the GPUs are."""
    view = profile.view
    for share in pin.shares:
        account = view.envelopes[share.payer]
        if account.retired or not account.spec.start_ms <= pin.start_ms < account.spec.end_ms:
            return MoveCause(MoveCode.BUDGET_CHANGED, (("envelope", share.payer),))
    if pin.is_choosy:
        return MoveCause(
            MoveCode.NODES_CHANGED, tuple(("domain", domain) for domain, _ in pin.slice.domains)
        )
    bounded = view.holdings.bounds_of(pin.owner)
    if bounded:
        return MoveCause(MoveCode.QUOTA_CHANGED, (("owner", bounded[0]),))
    return MoveCause(
        MoveCode.BUDGET_CHANGED, tuple(("envelope", share.payer) for share in pin.shares)
    )
