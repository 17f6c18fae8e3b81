"""Reads the owners and budgets of a world.

If an envelope states no start and no end, its window is from 2000 to 2100. With ``open: true``,
such a window has no bounds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from msgspec.structs import replace

from quorate.calc.world_reader import settle
from quorate.core.tenancy.owner_checks import cycle_through
from quorate.documents import values
from quorate.documents.budget_document import pre_activation, recall_notice
from quorate.documents.document_problem import quoted
from quorate.documents.field_reader import At, Fields, complete, fields_of, listed, mapped
from quorate.documents.labels import label_key, label_value
from quorate.documents.times import time_ms
from quorate.model.amounts import TIME_MS_MAX, TIME_MS_MIN
from quorate.model.selector import Selector
from quorate.model.specs import Budget, Cap, Envelope, Lending, Owner, Sharing

WIDE_START_MS: Final = 946_684_800_000  # 2000-01-01T00:00:00Z
WIDE_END_MS: Final = 4_102_444_800_000  # 2100-01-01T00:00:00Z

GPU_MS_UNBOUNDED: Final = 2**62
"""More GPU-milliseconds than the runs of any world can use."""

_BUDGET: Final = frozenset({"name", "namespace", "owner", "parents", "envelopes", "aggregateCaps"})
_ENVELOPE: Final = frozenset(
    {
        "name",
        "flavor",
        "selector",
        "concurrency",
        "start",
        "end",
        "open",
        "maxGPUHours",
        "preActivation",
        "sharing",
        "lending",
    }
)
_LENDING: Final = frozenset({"allow", "to", "maxConcurrency", "maxGPUHours", "recall"})
_CAP: Final = frozenset({"name", "flavor", "envelopes", "maxConcurrency", "maxGPUHours"})
_OWNER: Final = frozenset({"name", "parents"})
_sharing = values.choice(Sharing)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorldBudget:
    """A budget of a world. ``spec.name`` is unique; ``name`` is its name in the world."""

    name: str
    namespace: str
    parents: tuple[str, ...]
    spec: Budget


@dataclass(frozen=True, slots=True)
class Funds:
    """The budgets of a world, and its owners with their parents."""

    budgets: tuple[WorldBudget, ...]
    owners: tuple[Owner, ...]

    def find(self, *, name: str, namespace: str | None) -> WorldBudget | None:
        """Return the first budget called ``name`` in ``namespace``; None means any namespace."""
        for budget in self.budgets:
            if budget.name == name and namespace in (None, budget.namespace):
                return budget
        return None


def read_funds(fields: Fields, at: At) -> Funds:
    """Return the budgets and owners of a world."""
    drafts = complete(fields.optional("budgets", lambda v, a: listed(v, a, _budget), ())) or ()
    owners = complete(fields.optional("owners", lambda v, a: listed(v, a, _owner), ())) or ()
    settle(at)
    seen: set[tuple[str, str]] = set()
    for index, budget in enumerate(drafts):
        if (budget.namespace, budget.name) in seen:
            at.child("budgets").child(index).child("name").fault(
                f"is a duplicate budget name {quoted(budget.name)}", "choose another name"
            )
        seen.add((budget.namespace, budget.name))
    settle(at)
    names = [budget.name for budget in drafts]
    budgets = tuple(
        budget
        if names.count(budget.name) == 1
        else WorldBudget(
            name=budget.name,
            namespace=budget.namespace,
            parents=budget.parents,
            # Budgets of different namespaces may have the same name. But the ids of envelopes
            # contain this name, and must differ.
            spec=replace(budget.spec, name=f"{budget.name}@{budget.namespace}"),
        )
        for budget in drafts
    )
    family = _family(budgets, owners)
    _refuse_cycle(family, at, {owner.name for owner in owners if owner.parents})
    return Funds(budgets, family)


def _refuse_cycle(family: tuple[Owner, ...], at: At, declared: set[str]) -> None:
    """Report the first cycle of parents as a fault, if there is a cycle.

    ``declared`` are the owners whose parents are in the world's field ``owners``. The parents of
    other owners are in the budgets of these owners.
    """
    parents = {owner.name: owner.parents for owner in family}
    for name in parents:
        cycle = cycle_through(parents, name)
        if cycle:
            field = "budgets" if declared.isdisjoint(cycle) else "owners"
            at.child(field).fault(
                f"has parents that make a cycle: {' -> '.join(cycle)}",
                "a family is a tree or a DAG: remove one of these parents",
            )
            break
    settle(at)


def _family(budgets: tuple[WorldBudget, ...], owners: tuple[Owner, ...]) -> tuple[Owner, ...]:
    """Return every owner that the world names, with all parents of the owner."""
    parents: dict[str, dict[str, None]] = {
        owner.name: dict.fromkeys(owner.parents) for owner in owners
    }
    for budget in budgets:
        known = parents.setdefault(budget.spec.owner, {})
        known.update(dict.fromkeys(budget.parents))
    for known in list(parents.values()):
        for parent in known:
            parents.setdefault(parent, {})
    return tuple(Owner(name=name, parents=tuple(known)) for name, known in parents.items())


def without_hours(budget: Budget) -> Budget:
    """Return ``budget`` without any limit on GPU-hours."""
    return replace(
        budget,
        envelopes=tuple(
            replace(
                envelope,
                gpu_ms_max=GPU_MS_UNBOUNDED,
                lending=replace(envelope.lending, gpu_ms_max=None),
            )
            for envelope in budget.envelopes
        ),
        caps=tuple(replace(cap, gpu_ms_max=None) for cap in budget.caps),
    )


def without_places(budget: Budget) -> Budget:
    """Return ``budget`` with envelopes that pay anywhere."""
    envelopes = tuple(replace(envelope, selector=()) for envelope in budget.envelopes)
    return replace(budget, envelopes=envelopes)


def _owner(value: object, at: At) -> Owner | None:
    fields = fields_of(value, at, _OWNER)
    if fields is None:
        return None
    name = fields.required("name", values.line)
    parents = fields.optional("parents", _lines, ())
    return None if name is None else Owner(name=name, parents=parents)


def _lines(value: object, at: At) -> tuple[str, ...] | None:
    return complete(listed(value, at, values.line))


def _budget(value: object, at: At) -> WorldBudget | None:
    fields = fields_of(value, at, _BUDGET)
    if fields is None:
        return None
    name = fields.required("name", values.line)
    owner = fields.required("owner", values.line, remedy="say whose budget it is")
    envelopes = complete(fields.optional("envelopes", lambda v, a: listed(v, a, _envelope), ()))
    known = {envelope.name for envelope in envelopes or ()}
    caps = complete(fields.optional("aggregateCaps", lambda v, a: listed(v, a, _cap), ()))
    for index, cap in enumerate(caps or ()):
        for member in cap.envelopes:
            if envelopes is not None and member not in known:
                fields.at("aggregateCaps").child(index).child("envelopes").fault(
                    f"references unknown envelope {quoted(member)}", "name one of this budget"
                )
    namespace = fields.optional("namespace", values.line, "")
    parents = fields.optional("parents", _lines, ())
    if name is None or owner is None or envelopes is None or caps is None:
        return None
    spec = Budget(name=name, owner=owner, envelopes=envelopes, caps=caps)
    return WorldBudget(name=name, namespace=namespace, parents=parents, spec=spec)


def _envelope(value: object, at: At) -> Envelope | None:
    fields = fields_of(value, at, _ENVELOPE)
    if fields is None:
        return None
    name = fields.required("name", values.line)
    flavor = fields.required("flavor", values.line)
    concurrency = fields.required("concurrency", values.count)
    is_open = fields.optional("open", values.truth, default=False)
    start_ms, end_ms = (TIME_MS_MIN, TIME_MS_MAX) if is_open else (WIDE_START_MS, WIDE_END_MS)
    reservations, admission = fields.optional("preActivation", pre_activation, (False, False))
    if name is None or flavor is None or concurrency is None:
        return None
    return Envelope(
        name=name,
        flavor=flavor,
        selector=fields.optional("selector", _selector, ()),
        start_ms=fields.optional("start", time_ms, start_ms),
        end_ms=fields.optional("end", time_ms, end_ms),
        concurrency=concurrency,
        gpu_ms_max=fields.maybe("maxGPUHours", values.gpu_hours),
        allow_reservations=reservations,
        allow_admission=admission,
        sharing=fields.optional("sharing", _sharing, Sharing.FAMILY),
        lending=fields.optional("lending", _lending, Lending()),
    )


def _selector(value: object, at: At) -> Selector | None:
    return mapped(value, at, key=label_key, read=label_value)


def _lending(value: object, at: At) -> Lending | None:
    fields = fields_of(value, at, _LENDING)
    if fields is None:
        return None
    return Lending(
        allow=fields.optional("allow", values.truth, default=False),
        to=fields.optional("to", _lines, ()),
        concurrency_max=fields.maybe("maxConcurrency", values.count),
        gpu_ms_max=fields.maybe("maxGPUHours", values.gpu_hours),
        recall_notice_ms=fields.maybe("recall", recall_notice),
    )


def _cap(value: object, at: At) -> Cap | None:
    fields = fields_of(value, at, _CAP)
    if fields is None:
        return None
    name = fields.required("name", values.line)
    members = fields.required("envelopes", _lines, remedy="list the envelopes it bounds")
    if name is None or members is None:
        return None
    return Cap(
        name=name,
        flavor=fields.optional("flavor", values.line, ""),
        envelopes=members,
        concurrency_max=fields.maybe("maxConcurrency", values.count),
        gpu_ms_max=fields.maybe("maxGPUHours", values.gpu_hours),
    )
