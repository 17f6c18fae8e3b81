"""The read-only view of the state, for decisions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from quorate.model.state.reads.fleet_reads import FleetView
from quorate.model.state.reads.money_reads import MoneyView
from quorate.model.state.reads.plans_reads import PlanView
from quorate.model.state.reads.tenancy_reads import TenancyView
from quorate.model.state.reads.work_reads import WorkView

if TYPE_CHECKING:
    from quorate.model.state.state import State


class StateView(FleetView, MoneyView, WorkView, PlanView, TenancyView, Protocol):
    """The part of the state that a decision may read. Its mappings are read-only."""

    @property
    def seq(self) -> int:
        """The sequence number of the last event."""
        ...

    @property
    def at_ms(self) -> int:
        """The time of the last event."""
        ...

    @property
    def ledger_id(self) -> str:
        """The name that the ledger got when it was created."""
        ...

    @property
    def public_key(self) -> str:
        """The key (hex) that verifies the ledger's checkpoints."""
        ...

    def overlay(self) -> State:
        """Return an overlay of this state, in which events may be tried."""
        ...
