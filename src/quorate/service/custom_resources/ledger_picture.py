"""What the ledger has of the custom resources of a cluster, read in one go on its thread."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from quorate.core.commands import Applied
from quorate.documents.times import time_text
from quorate.model.specs import Run
from quorate.model.state.records import TERMINAL
from quorate.operations.request_context import RequestContext
from quorate.views.kinds.kind import Tree
from quorate.views.kinds.kinds_fleet import POOL
from quorate.views.kinds.kinds_money import BUDGET
from quorate.views.kinds.kinds_owners import OWNER
from quorate.views.kinds.kinds_plans import OUTCOME, RESERVATION
from quorate.views.kinds.kinds_work import LEASE, run_trees


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPicture:
    """A run: what was submitted, its status, its open leases and its firm start."""

    spec: Run
    status: Tree
    is_over: bool
    is_stopping: bool
    leases: Mapping[str, Tree] = field(default_factory=dict)
    reservation: tuple[str, Tree] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Declared:
    """An owner, a budget or a pool: what was applied, and its status."""

    spec: Applied
    status: Tree


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What is asked for, by name; ``outcomes`` are conflicts that need not be shown again."""

    runs: Collection[str] = ()
    pools: Collection[str] = ()
    owners: Collection[str] = ()
    budgets: Collection[str] = ()
    outcomes: Collection[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerPicture:
    """The answer: ``seq`` is the last event of it, ``now`` its time.

    ``owners`` are all there are. Of conflicts that need not be shown again there is no tree.
    """

    seq: int
    now: str
    runs: Mapping[str, RunPicture]
    declared: Mapping[tuple[str, str], Declared]
    owners: frozenset[str]
    outcomes: Mapping[str, Tree | None]


def read_picture(
    context: RequestContext, wanted: Wanted, kept: Mapping[str, RunPicture]
) -> LedgerPicture:
    """Return what the ledger has of what is ``wanted``; what it does not have is left out.

    Runs that are ``kept`` are as they were when they were read, and taken from there.
    """
    moment, view = context.moment, context.moment.view
    names = [name for name in wanted.runs if name not in kept and name in view.runs]
    runs = dict(kept)
    for name, tree in zip(names, run_trees(moment, names), strict=True):
        record = view.runs[name]
        leases = list(record.leases)
        firm = record.reservation
        runs[name] = RunPicture(
            spec=record.spec,
            status=tree["status"],
            is_over=record.phase in TERMINAL,
            is_stopping=record.stopping is not None and record.stopping.outcome is not None,
            leases=dict(zip(leases, LEASE.trees(moment, leases), strict=True)),
            reservation=None if firm is None else (firm, RESERVATION.trees(moment, [firm])[0]),
        )
    declared: dict[tuple[str, str], Declared] = {}
    tables: list[tuple[str, Any, Collection[str], Mapping[str, Any]]] = [
        ("Pool", POOL, wanted.pools, view.pools),
        ("Owner", OWNER, wanted.owners, view.owners),
        ("Budget", BUDGET, wanted.budgets, view.budgets),
    ]
    for title, kind, asked, table in tables:
        there = [name for name in asked if name in table]
        for name, tree in zip(there, kind.trees(moment, there), strict=True):
            declared[title, name] = Declared(spec=table[name], status=tree["status"])
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
