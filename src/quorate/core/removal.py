"""Removal: carry out a ``Remove`` of a node, a pool or a budget on which no running work depends.

Afterwards waiting runs are planned again. If a firm start was planned on the removed node, or was
to be paid by the removed budget, this start moves. The recorded cause of the move is that the nodes
of a domain changed, or that the budget changed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Final, assert_never

from quorate.core.commands import Change, Decision, Removable, Remove
from quorate.core.decision_log import DecisionLog
from quorate.model.closed_words import counted
from quorate.model.events import BudgetRemoved, Event, NodeRemoved, PoolRemoved
from quorate.model.refusal import Refusal, RefusalCode
from quorate.model.specs import DEFAULT_POOL, envelope_id
from quorate.model.state.state_view import StateView

_NAMES_SHOWN_MAX: Final = 5


def remove(log: DecisionLog, command: Remove) -> Decision:
    """Write the removal of the resource, or return a refusal for each use of the resource."""
    view, name = log.view, command.name
    if not _is_there(view, command):
        return Decision(refusals=(_unknown(command),))
    at_ms, actor, reason = log.now_ms, log.actor, command.reason
    event: Event
    match command.kind:
        case Removable.NODE:
            refusals = tuple(_node_holds(view, name))
            event = NodeRemoved(at_ms=at_ms, actor=actor, node=name, reason=reason)
        case Removable.POOL:
            refusals = tuple(_pool_holds(view, name))
            event = PoolRemoved(at_ms=at_ms, actor=actor, pool=name, reason=reason)
        case Removable.BUDGET:
            refusals = tuple(_budget_holds(view, name))
            owner = view.budgets[name].owner
            event = BudgetRemoved(at_ms=at_ms, actor=actor, budget=name, owner=owner, reason=reason)
        case _:
            assert_never(command.kind)
    if refusals:
        return Decision(refusals=refusals)
    warnings = tuple(_warnings(view, command))
    log.write(event)
    return Decision(changes=((command.kind.value, name, Change.REMOVED),), warnings=warnings)


def _is_there(view: StateView, command: Remove) -> bool:
    match command.kind:
        case Removable.NODE:
            return command.name in view.nodes
        case Removable.POOL:
            return command.name in view.pools
        case Removable.BUDGET:
            return command.name in view.budgets
        case _:
            assert_never(command.kind)


def _unknown(command: Remove) -> Refusal:
    kind = command.kind.value.lower()
    return Refusal(
        code=RefusalCode.UNKNOWN_NAME,
        subject=f"there is no {kind} {command.name!r}",
        remedy=f"list them: quorate get {kind}s",
    )


def _node_holds(view: StateView, name: str) -> Iterator[Refusal]:
    """Yield a refusal for the runs that have GPUs of the node, and for an unfinished wipe.

    If a run fills a spare of another run, the refusal names the run that fills the spare.
    """
    runs = dict.fromkeys(view.leases[lease].fact.run for lease in view.node_leases.get(name, ()))
    if runs:
        yield _in_use(
            f"node {name!r} has GPUs in use by {_listed(runs)}",
            f"stop its work first: quorate node drain {name}",
        )
    unwiped = view.unwiped.get(name)
    if unwiped is not None and unwiped.claim not in runs:
        yield _in_use(
            f"node {name!r} was not wiped after claim {unwiped.claim!r}",
            f"wipe it, then record that: quorate node wiped {name}",
        )


def _pool_holds(view: StateView, name: str) -> Iterator[Refusal]:
    """Yield a refusal for the runs, for the unwiped nodes and for the open conflicts of the pool.

    The default pool is always refused.
    """
    if name == DEFAULT_POOL:
        yield _in_use(
            f"pool {name!r} takes the nodes that no other pool selects, and cannot be removed",
            f"change its settings instead: quorate patch pool {name} PATH=VALUE",
        )
        return
    running = {lease.fact.run for lease in view.leases.values()}
    live = sorted(
        run
        for run in {*view.pending, *view.in_rounds, *running}
        if view.runs[run].spec.pool == name
    )
    if live:
        yield _in_use(
            f"pool {name!r} has {counted(len(live), 'run')} that run or wait: {_listed(live)}",
            f"wait until they end, or cancel them: quorate cancel {live[0]}",
        )
    unwiped = sorted(n for n in view.unwiped if view.nodes[n].island.pool == name)
    if unwiped:
        yield _in_use(
            f"nodes of pool {name!r} were not wiped after a claim: {_listed(unwiped)}",
            f"wipe them, then record that: quorate node wiped {unwiped[0]}",
        )
    declared = sorted(
        c for c in view.open_conflicts if view.conflicts[c].declared.scope.pool == name
    )
    if declared:
        yield _in_use(
            f"a conflict of pool {name!r} is declared and not settled: {_listed(declared)}",
            "wait until the conflict is settled: quorate get resolveroutcomes",
        )


def _budget_holds(view: StateView, name: str) -> Iterator[Refusal]:
    """Yield refusals for each envelope that pays for GPUs now, or that has a pledge.

    A pledge keeps GPUs and money of the envelope for a spare that another run fills.
    """
    for envelope in view.budgets[name].envelopes:
        key = envelope_id(name, envelope.name)
        account = view.envelopes[key]
        if account.gpus_active:
            runs = dict.fromkeys(view.leases[lease].fact.run for lease in view.payer_leases[key])
            yield _in_use(
                f"envelope {key} pays for {counted(account.gpus_active, 'GPU')} of {_listed(runs)}",
                f"wait until they end, or stop them: quorate cancel {next(iter(runs))}",
            )
        filled = [pledge for pledge in view.pledges.values() if pledge.payer == key]
        if filled:
            gpus = counted(sum(pledge.gpus for pledge in filled), "GPU")
            keepers = sorted({pledge.run for pledge in filled})
            yield _in_use(
                f"envelope {key} keeps {gpus} for spares of {_listed(keepers)}; other runs fill "
                "these spares",
                f"wait until they end, or stop them: quorate cancel {keepers[0]}",
            )


def _warnings(view: StateView, command: Remove) -> Iterator[str]:
    """Yield a warning for each effect that the removal has on other resources."""
    name = command.name
    match command.kind:
        case Removable.NODE:
            return
        case Removable.POOL:
            nodes = sorted(n for n, record in view.nodes.items() if record.island.pool == name)
            if nodes:
                yield f"nodes that go to pool {DEFAULT_POOL!r}: {_listed(nodes)}"
        case Removable.BUDGET:
            keys = {envelope_id(name, envelope.name) for envelope in view.budgets[name].envelopes}
            promised = sorted(
                record.made.run
                for record in view.reservations.values()
                if any(share.payer in keys for share in record.payers)
            )
            if promised:
                starts = _listed(promised)
                yield f"firm starts that the budget was to pay for are planned again: {starts}"
            if any(view.envelopes[key].committed_gpu_ms for key in keys):
                yield "the payments of the budget stay recorded"
        case _:
            assert_never(command.kind)


def _in_use(subject: str, remedy: str) -> Refusal:
    return Refusal(code=RefusalCode.CONFLICT, subject=subject, remedy=remedy)


def _listed(names: Collection[str]) -> str:
    shown = ", ".join(list(names)[:_NAMES_SHOWN_MAX])
    more = len(names) - _NAMES_SHOWN_MAX
    return f"{shown} and {more} more" if more > 0 else shown
