"""The accounting port: another system that grants hours, records their use, and bills for it.

An owner is linked to a *resource* of the other system. Each kind of hours is a *component* of the
resource; the other system chooses its name. A report has the whole amount used in a month so far,
so that a repeated report changes nothing (docs/adr/0022).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from quorate.model.events import Allowance
from quorate.ports.outbox_port import Waiting


@dataclass(frozen=True, slots=True)
class Amount:
    """How much of a component was used, in whole hundredths of an hour."""

    component: str
    hundredths: int

    @property
    def hours_text(self) -> str:
        """The exact amount in hours, as text."""
        return f"{self.hundredths // 100}.{self.hundredths % 100:02d}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Consumption:
    """The use of a resource in the month of ``at_ms``, counted while an owner was linked to it."""

    resource: str
    at_ms: int
    amounts: tuple[Amount, ...]
    note: str


@dataclass(slots=True)
class LinkStatus:
    """The status of all links to an accounting system, for metrics and operators.

    Any thread may read it. ``troubles`` has, for each owner whose last request had no answer, the
    reason. ``trouble`` is a fault of this service that stops all reports, with the remedy.
    """

    answered_ms: dict[str, int] = field(default_factory=dict)
    troubles: dict[str, str] = field(default_factory=dict)
    waiting: Waiting | None = None
    answers: int = 0
    failures: int = 0
    deliveries: int = 0
    delivery_failures: int = 0
    trouble: str = ""


class Accounting(Protocol):
    """An accounting system. Methods take a bounded time, and raise only ``AccountingError``."""

    def remaining(self, resource: str, components: Sequence[str]) -> tuple[Allowance, ...]:
        """Return the granted and the remaining hours of each of ``components``, in this order."""
        ...

    def report(self, consumption: Consumption) -> None:
        """Record ``consumption`` in the other system; it replaces the month's earlier report."""
        ...

    def close(self) -> None:
        """Release all resources. A second call does nothing."""
        ...
