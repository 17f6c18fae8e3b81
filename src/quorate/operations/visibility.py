"""Visibility: all callers see the fleet and its rules; a tenant sees only its own resources.

A tenant's own resources include those of its descendants. Admins and auditors see everything.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from quorate.model.specs import CapId, EnvelopeId
from quorate.model.state.records import TokenRecord
from quorate.model.state.state_view import StateView
from quorate.operations.caller import Caller, Role
from quorate.views.kinds.kind import Kind
from quorate.views.kinds.kinds_plans import reservation_run


@dataclass(frozen=True, slots=True)
class Tenants:
    """The tenants, their descendants, and the linked tenants; immutable."""

    names: frozenset[str] = frozenset()
    children: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    linked: frozenset[str] = frozenset()

    @classmethod
    def of(cls, view: StateView) -> Tenants:
        """Return a copy of the tenants of ``view``."""
        return cls(frozenset(view.owners), dict(view.children), frozenset(view.reports))

    def seen_by(self, caller: Caller) -> frozenset[str]:
        """Return the tenants whose resources ``caller`` sees."""
        if caller.oversees:
            return self.names
        return _seen(caller, self.names, self.children, self.linked)


def tenants_of(view: StateView, caller: Caller) -> frozenset[str]:
    """Return the tenants whose resources ``caller`` sees: its own tenant, and all below it.

    An accounting system sees the linked tenants, but no tenants below them.
    """
    return _seen(caller, view.owners, view.children, view.reports)


def _seen(
    caller: Caller,
    names: Container[str],
    children: Mapping[str, tuple[str, ...]],
    linked: Iterable[str],
) -> frozenset[str]:
    if caller.role is Role.ACCOUNTING:
        return frozenset(linked)
    found: set[str] = set()
    todo = [caller.tenant] if caller.tenant in names else []
    while todo:
        name = todo.pop()
        if name not in found:
            found.add(name)
            todo.extend(children.get(name, ()))
    return frozenset(found)


def seen_by(view: StateView, caller: Caller) -> frozenset[str] | None:
    """Return the tenants whose resources ``caller`` may see; None means all tenants."""
    return None if caller.oversees else tenants_of(view, caller)


def sees_owner(view: StateView, caller: Caller, owner: str) -> bool:
    """Return whether ``caller`` may see the resources of ``owner``."""
    return caller.oversees or owner in tenants_of(view, caller)


def knows_token(view: StateView, caller: Caller, record: TokenRecord) -> bool:
    """Return whether ``caller`` may see a token.

    Callers see their own tokens. A tenant-admin also sees the tokens of its tenants.
    """
    issued = record.issued
    if caller.oversees:
        return True
    if caller.role is Role.TENANT_ADMIN and issued.tenant:
        return sees_owner(view, caller, issued.tenant)
    return issued.tenant == caller.tenant and issued.user == caller.user


def _run_owner(view: StateView, name: str) -> str:
    array = view.arrays.get(name)
    return view.runs[name if array is None else array.first].spec.owner


def _lease_owner(view: StateView, name: str) -> str:
    return _run_owner(view, view.leases[name].fact.run)


def _cap_owner(view: StateView, name: str) -> str:
    return view.budgets[CapId(name).partition("/")[0]].owner


OWNERS: Final[dict[str, Callable[[StateView, str], str]]] = {
    "owner": lambda view, name: name if name in view.owners else "",
    "tenant": lambda view, name: name if name in view.owners else "",
    "budget": lambda view, name: view.budgets[name].owner,
    "envelope": lambda view, name: view.envelopes[EnvelopeId(name)].owner,
    "cap": _cap_owner,
    "run": _run_owner,
    "queue": _run_owner,
    "reservation": lambda view, name: _run_owner(view, reservation_run(name)),
    "lease": _lease_owner,
    "claim": _run_owner,
    "charge": lambda view, name: _run_owner(view, name.partition("/")[0]),
}
"""For each kind, a function that returns the owner of a resource. Kinds that are not here are
visible to all callers."""


def visible(view: StateView, caller: Caller, kind: Kind, names: Sequence[str]) -> list[str]:
    """Return those of ``names`` that ``caller`` may see."""
    owner_of = OWNERS.get(kind.name)
    if caller.oversees or owner_of is None:
        return list(names)
    mine = tenants_of(view, caller)
    return [name for name in names if owner_of(view, name) in mine]
