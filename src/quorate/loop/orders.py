"""Orders and reports: what events mean to an executor, and what its reports ask of the ledger."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import assert_never

from quorate.core.commands import Command, Complete, Confirm, Fail
from quorate.model.events import Event, LeaseEnded, LeaseEnding, LeaseStarted
from quorate.model.view import StateView
from quorate.ports.executor import (
    EndLease,
    LeaseGone,
    Order,
    Report,
    RunExited,
    StartLease,
    StopLease,
)


def orders_of(view: StateView, events: Iterable[Event]) -> list[Order]:
    """Return what ``events``, all of them applied to ``view``, tell an executor to do."""
    orders: list[Order] = []
    for event in events:
        match event:
            case LeaseStarted():
                orders.append(StartLease(event, view.runs[event.run].spec))
            case LeaseEnding():
                orders.append(StopLease(event.lease, event.deadline_ms))
            case LeaseEnded():
                orders.append(EndLease(event.lease, event.reason))
            case _:
                pass
    return orders


def standing_orders(view: StateView) -> list[Order]:
    """Return the orders that hold in ``view``: every open lease, every stop under way."""
    orders: list[Order] = []
    for lease in view.leases.values():
        orders.append(StartLease(lease.fact, view.runs[lease.fact.run].spec))
        if lease.ending is not None:
            orders.append(StopLease(lease.fact.lease, lease.ending.deadline_ms))
    return orders


def commands_of(view: StateView, reports: Sequence[Report]) -> Iterator[Command]:
    """Yield the commands that bring ``reports`` into the ledger.

    Yields nothing for what the ledger has already, or has given up: an exit of a life of the run
    that is over must not end the next one.
    """
    for report in reports:
        match report:
            case RunExited():
                if report.lease not in view.leases:
                    continue
                yield Complete(report.run) if report.code == 0 else Fail(report.run, report.note)
            case LeaseGone():
                lease = view.leases.get(report.lease)
                if lease is not None and lease.ending is not None:
                    yield Confirm(report.lease)
            case _:
                assert_never(report)
