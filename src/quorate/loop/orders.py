"""Orders and reports: the orders that follow from events, and the commands that record reports."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import assert_never

from quorate.core.commands import Command, Complete, Confirm, Fail, NotStarted, Reported, Wiped
from quorate.core.rounds.lease_bounds import LeaseBounds
from quorate.model.events import (
    Event,
    LeaseEnded,
    LeaseEnding,
    LeaseStarted,
    NodeMarked,
    NodeStatus,
)
from quorate.model.state.durations import grace_ms
from quorate.model.state.state_view import StateView
from quorate.ports.executor_port import (
    EndLease,
    FenceNode,
    LeaseGone,
    Order,
    Report,
    RunExited,
    RunUnstarted,
    StartLease,
    StopLease,
    WipeDone,
    WipeNode,
)


def orders_of(view: StateView, events: Iterable[Event]) -> list[Order]:
    """Return the executor's orders that follow from ``events``, which ``view`` already includes."""
    orders: list[Order] = []
    bounds = LeaseBounds(view)
    for event in events:
        match event:
            case LeaseStarted():
                orders.append(_start(view, event, bounds))
            case LeaseEnding():
                orders.append(StopLease(event.lease, event.deadline_ms))
            case LeaseEnded():
                orders.append(EndLease(event.lease, event.reason))
            case NodeMarked(status=NodeStatus.FAILED):
                orders.append(FenceNode(event.node))
            case _:
                pass
    return [*orders, *_wipes(view)] if orders else orders


def _start(view: StateView, fact: LeaseStarted, bounds: LeaseBounds) -> StartLease:
    run = view.runs[fact.run].spec
    partner = None if fact.partner is None else view.runs[fact.partner].spec
    pool = view.pools[run.pool]
    order = StartLease(fact, run, grace_ms(run, pool), partner, pool.executor_name)
    if run.rounds is None:
        return order
    return replace(order, bounds=tuple(bounds.of(fact, each.name) for each in order.runs))


def _wipes(view: StateView) -> list[WipeNode]:
    """Return an order for each node that a claim has left unwiped; repeated orders do no harm."""
    return [
        WipeNode(name, node.claim)
        for name, node in view.unwiped.items()
        if not node.leases and not node.is_quarantined
    ]


def standing_orders(view: StateView) -> list[Order]:
    """Return the orders for the state ``view``: for every open lease, and for every stop under way.

    A failed node is fenced even if it has no lease any more, because its work may still run.
    """
    orders: list[Order] = []
    bounds = LeaseBounds(view)
    for lease in view.leases.values():
        orders.append(_start(view, lease.fact, bounds))
        if lease.ending is not None:
            orders.append(StopLease(lease.fact.lease, lease.ending.deadline_ms))
    fences = [
        FenceNode(node) for node, status in view.node_status.items() if status is NodeStatus.FAILED
    ]
    return [*orders, *fences, *_wipes(view)]


def commands_of(view: StateView, reports: Sequence[Report]) -> Iterator[Command]:
    """Yield the commands that record ``reports`` in the ledger.

    A report about a lease that is over in the ledger yields no command. Otherwise the exit of an
    earlier start of a run could end the run's next start. Work that ends under a claim leaves the
    claim unchanged. A run that was cancelled or completed by hand stays cancelled or completed,
    however its work ends. All ends of runs and leases are one command, because one waiting run may
    need the GPUs of several ended leases.
    """
    for report in reports:
        if isinstance(report, WipeDone):
            node = view.unwiped.get(report.node)
            if node is not None and node.claim == report.claim and not node.is_quarantined:
                yield Wiped(report.node, report.is_clean, report.claim, report.note)
    together = [found for report in reports if (found := _end_of(view, report)) is not None]
    if len(together) > 1:
        yield Reported(tuple(together))
    else:
        yield from together


def _end_of(view: StateView, report: Report) -> Complete | Fail | NotStarted | Confirm | None:
    """Return the command for a reported end of a run or a lease; None if nothing has to change."""
    match report:
        case RunExited():
            if report.lease not in view.leases or _is_settled(view, report.run):
                return None
            if report.code == 0:
                return Complete(report.run, has_gone=True)
            return Fail(report.run, report.note, has_gone=True)
        case RunUnstarted():
            lease = view.leases.get(report.lease)
            is_open = lease is not None and lease.ending is None
            return NotStarted(report.run, report.note) if is_open else None
        case LeaseGone():
            lease = view.leases.get(report.lease)
            is_stopping = lease is not None and lease.ending is not None
            return Confirm(report.lease) if is_stopping else None
        case WipeDone():
            return None
        case _:
            assert_never(report)


def _is_settled(view: StateView, run: str) -> bool:
    """Return whether to ignore the exit of a run's work: the run is a claim or already ending."""
    record = view.runs[run]
    is_ending = record.stopping is not None and record.stopping.outcome is not None
    return record.spec.sensitive or is_ending
