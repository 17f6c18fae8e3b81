"""Which hard quotas keep a waiting run from starting, and which runs use them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from msgspec.structs import replace

from quorate.core.admission.admit import Admitted, admit
from quorate.core.admission.hard_quota import HARD
from quorate.model.events import OwnerApplied
from quorate.model.refusal import Refusal, RefusalCode
from quorate.model.specs import Run
from quorate.model.state.apply_event import apply
from quorate.model.state.state_view import StateView

HOLDERS_MAX: Final = 5
"""How many of the runs that use a quota are listed by name."""

RAISES_MAX: Final = 16
"""How many times ``obstacles`` raises a limit in its trial state to find the next obstacle."""

LIMIT_FIELDS: Final = {
    RefusalCode.MAX_NODES: "nodes_max",
    RefusalCode.MAX_CONCURRENT_RUNS: "concurrent_runs_max",
}
"""For each refusal code of a hard quota, the field of ``Quota`` with the limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """A run that uses part of a quota, with the number of its nodes and of its GPUs."""

    run: str
    owner: str
    nodes: int
    gpus: int


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaInTheWay:
    """A hard quota that a run waits for, and the largest of the runs that use the quota.

    ``code`` says which of the tenant's limits is reached. ``holders`` are the largest runs that use
    the quota, and ``others`` is the number of further runs that use it.
    """

    code: RefusalCode
    tenant: str
    current: int
    wanted: int
    limit: int
    holders: tuple[Holder, ...]
    others: int


@dataclass(frozen=True, slots=True)
class Obstacles:
    """The quotas that keep a run from starting, in the order in which a trial found them.

    ``starts`` is true if the run would start after each of these quotas was raised just enough.
    """

    quotas: tuple[Refusal, ...] = ()
    starts: bool = False

    def raised(self) -> dict[tuple[str, str], int]:
        """Return the lowest limits that would suffice, by (tenant, field of the tenant's quota)."""
        return {_field(each): each.current + each.wanted for each in self.quotas}


def obstacles(view: StateView, run: Run, now_ms: int) -> Obstacles:
    """Return the hard quotas that would keep ``run`` from starting if no other run waited."""
    trial = view.overlay()
    refusals: dict[tuple[str, str], Refusal] = {}
    for _ in range(RAISES_MAX):
        answer = admit(trial, run, now_ms)
        if isinstance(answer, Admitted) or answer.code not in HARD:
            return Obstacles(tuple(refusals.values()), isinstance(answer, Admitted))
        tenant, field = _field(answer)
        # If a raised limit is still too low, the refusal keeps the limit that the quota really has.
        earlier = refusals.get((tenant, field))
        refusals[tenant, field] = (
            answer if earlier is None else replace(answer, limit=earlier.limit)
        )
        owner = trial.owners[tenant]
        quota = replace(owner.quota, **{field: answer.current + answer.wanted})
        apply(trial, OwnerApplied(at_ms=now_ms, actor="explain", owner=replace(owner, quota=quota)))
    return Obstacles(tuple(refusals.values()))


def _field(refusal: Refusal) -> tuple[str, str]:
    return refusal.subject, LIMIT_FIELDS[refusal.code]


def quotas_in_the_way(view: StateView, refusals: Iterable[Refusal]) -> tuple[QuotaInTheWay, ...]:
    """Return the quota that each of ``refusals`` names, with the runs that use this quota."""
    return tuple(_with_holders(view, refusal) for refusal in refusals)


def _with_holders(view: StateView, refusal: Refusal) -> QuotaInTheWay:
    holders = sorted(
        _holders(view, refusal.subject), key=lambda each: (-each.nodes, -each.gpus, each.run)
    )
    if refusal.code is RefusalCode.MAX_CONCURRENT_RUNS:
        holders.sort(key=lambda each: (-each.gpus, each.run))
    return QuotaInTheWay(
        code=refusal.code,
        tenant=refusal.subject,
        current=refusal.current,
        wanted=refusal.wanted,
        limit=refusal.limit,
        holders=tuple(holders[:HOLDERS_MAX]),
        others=max(0, len(holders) - HOLDERS_MAX),
    )


def _holders(view: StateView, tenant: str) -> Iterator[Holder]:
    """Yield the runs of ``tenant`` and its descendants that hold nodes."""
    owners = family_of(view, tenant)
    nodes: dict[str, set[str]] = {}
    gpus: dict[str, int] = {}
    for owner in owners:
        for name in view.owner_leases.get(owner, ()):
            lease = view.leases[name]
            run = lease.fact.run
            nodes.setdefault(run, set()).update(node for node, _ in lease.fact.slots)
            gpus[run] = gpus.get(run, 0) + lease.gpus
    for pledge in view.pledges.values():
        if view.runs[pledge.run].spec.owner in owners:
            nodes.setdefault(pledge.run, set()).update(node for node, _ in pledge.slots)
    for node, unwiped in view.unwiped.items():
        if view.runs[unwiped.claim].spec.owner in owners:
            nodes.setdefault(unwiped.claim, set()).add(node)
    for run, held in nodes.items():
        owner = view.runs[run].spec.owner
        yield Holder(run=run, owner=owner, nodes=len(held), gpus=gpus.get(run, 0))


def family_of(view: StateView, tenant: str) -> dict[str, None]:
    """Return ``tenant`` and its descendants, without duplicates."""
    found = {tenant: None}
    level = [tenant]
    while level:
        below = (child for name in level for child in view.children.get(name, ()))
        level = [child for child in dict.fromkeys(below) if child not in found]
        found.update(dict.fromkeys(level))
    return found
