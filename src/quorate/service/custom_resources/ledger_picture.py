"""The ledger's data for the custom resources of a cluster, read by the ledger thread."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from quorate.core.commands import Applied
from quorate.documents.times import time_text
from quorate.model.specs import Budget, Run
from quorate.model.state.records import TERMINAL
from quorate.operations.caller import Caller, Role
from quorate.operations.request_context import RequestContext
from quorate.operations.visibility import tenants_of
from quorate.ports.executor_port import Readiness
from quorate.views.kinds.kind import Tree
from quorate.views.kinds.kinds_fleet import POOL
from quorate.views.kinds.kinds_money import BUDGET
from quorate.views.kinds.kinds_owners import OWNER
from quorate.views.kinds.kinds_plans import OUTCOME, RESERVATION
from quorate.views.kinds.kinds_work import LEASE, run_trees
from quorate.views.runs.instant import Moment

BUDGET_SUMS: Final = ("totalGPUs", "activeGPUs", "reservedGPUs", "lentGPUs")
"""The fields of a budget's status that sum up its envelopes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPicture:
    """A run: its document, its status, its open leases and its firm start.

    ``ready`` says whether the run's work has begun. It is None if that is unknown, or if the run
    has no leases.
    """

    spec: Run
    status: Tree
    is_over: bool
    is_stopping: bool
    leases: Mapping[str, Tree] = field(default_factory=dict)
    reservation: tuple[str, Tree] | None = None
    ready: Readiness | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Declared:
    """An owner, a budget or a pool: the applied document, and its status."""

    spec: Applied
    status: Tree


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """The names of the objects to read.

    ``outcomes`` is the opposite: it has the names of conflicts that need not be read again.
    """

    runs: Collection[str] = ()
    pools: Collection[str] = ()
    owners: Collection[str] = ()
    budgets: Collection[str] = ()
    outcomes: Collection[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerPicture:
    """The ledger's data after the event ``seq``, at the instant ``now``.

    ``owners`` has all owners. ``outcomes`` has all conflicts by name. The value is None for a
    conflict that need not be read again.
    """

    seq: int
    now: str
    runs: Mapping[str, RunPicture]
    declared: Mapping[tuple[str, str], Declared]
    owners: frozenset[str]
    outcomes: Mapping[str, Tree | None]


def budget_sums(spec: Budget, status: Tree) -> dict[str, int]:
    """Return the sums over the envelopes of a budget, for the columns of ``kubectl get``.

    ``totalGPUs`` is the concurrency of the envelopes that can pay now.
    """
    lines = {each["name"]: each for each in status["envelopes"]}
    found = {name: sum(each[name] for each in lines.values()) for name in BUDGET_SUMS[1:]}
    usable = [each.concurrency for each in spec.envelopes if lines[each.name]["usable"]]
    return {BUDGET_SUMS[0]: sum(usable), **found}


def as_told_to(moment: Moment, owner: str) -> Moment:
    """Return ``moment``, limited to the names that users of ``owner`` may see."""
    user = Caller(actor=owner, role=Role.USER, user="", tenant=owner)
    return replace(moment, seen=tenants_of(moment.view, user), shared=moment.outlook)


def _runs_of(moment: Moment, names: Sequence[str]) -> dict[str, RunPicture]:
    found: dict[str, RunPicture] = {}
    for name, tree in zip(names, run_trees(moment, names), strict=True):
        record = moment.view.runs[name]
        leases = list(record.leases)
        firm = record.reservation
        found[name] = RunPicture(
            spec=record.spec,
            status=tree["status"],
            is_over=record.phase in TERMINAL,
            is_stopping=record.stopping is not None and record.stopping.outcome is not None,
            leases=dict(zip(leases, LEASE.trees(moment, leases), strict=True)),
            reservation=None if firm is None else (firm, RESERVATION.trees(moment, [firm])[0]),
        )
    return found


def read_picture(
    context: RequestContext, wanted: Wanted, kept: Mapping[str, RunPicture]
) -> LedgerPicture:
    """Return the ledger's data for ``wanted``; objects that are not in the ledger are left out.

    Runs in ``kept`` have not changed since they were read, and are reused. All users of an owner
    can read the owner's namespace. So the data of a run has only names that these users may see.
    """
    moment, view = context.moment, context.moment.view
    names: dict[str, list[str]] = {}
    for name in wanted.runs:
        if name not in kept and name in view.runs:
            names.setdefault(view.runs[name].spec.owner, []).append(name)
    runs = dict(kept)
    for owner, own in names.items():
        runs |= _runs_of(as_told_to(moment, owner), own)
    declared: dict[tuple[str, str], Declared] = {}
    tables: list[tuple[str, Any, Collection[str], Mapping[str, Any]]] = [
        ("Pool", POOL, wanted.pools, view.pools),
        ("Owner", OWNER, wanted.owners, view.owners),
        ("Budget", BUDGET, wanted.budgets, view.budgets),
    ]
    for title, kind, asked, table in tables:
        there = [name for name in asked if name in table]
        for name, tree in zip(there, kind.trees(moment, there), strict=True):
            spec, status = table[name], tree["status"]
            if isinstance(spec, Budget):
                status = {**status, **budget_sums(spec, status)}
            declared[title, name] = Declared(spec=spec, status=status)
    return LedgerPicture(
        seq=moment.seq,
        now=time_text(moment.now_ms),
        runs=runs,
        declared=declared,
        owners=frozenset(view.owners),
        outcomes={
            name: None if name in wanted.outcomes else OUTCOME.trees(moment, [name])[0]
            for name in view.conflicts
        },
    )
