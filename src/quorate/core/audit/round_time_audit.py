"""The audit (I8) of the time for which runs in rounds had GPUs. It keeps its own records."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from quorate.core.admission.run_shape import Violation
from quorate.model.events import (
    BudgetApplied,
    Event,
    LeaseEnded,
    LeaseStarted,
    RunEnded,
    RunSubmitted,
)
from quorate.model.specs import EnvelopeId, envelope_id
from quorate.model.state.state_view import StateView


@dataclass(slots=True)
class _Times:
    """How long a run had GPUs of each flavor, in total and shared; only ended leases count."""

    total_ms: dict[str, int] = field(default_factory=dict)
    paired_ms: dict[str, int] = field(default_factory=dict)


@dataclass(slots=True)
class RoundTimeBooks:
    """The open leases of runs in rounds, and for how long these runs had GPUs before.

    For each (run, start), ``parts`` has the number of the run's open leases with this start.
    """

    flavors: dict[EnvelopeId, str] = field(default_factory=dict)
    open: dict[str, LeaseStarted] = field(default_factory=dict)
    parts: Counter[tuple[str, int]] = field(default_factory=Counter)
    times: dict[str, _Times] = field(default_factory=dict)

    def enter(self, event: Event) -> Iterator[Violation]:
        """Record ``event``, and yield nothing: ``compare`` finds the violations."""
        match event:
            case BudgetApplied():
                budget = event.budget
                for envelope in budget.envelopes:
                    self.flavors[envelope_id(budget.name, envelope.name)] = envelope.flavor
            case RunSubmitted() if event.run.rounds is not None:
                self.times[event.run.name] = _Times()
            case LeaseStarted() if event.run in self.times:
                self.open[event.lease] = event
                self.parts[event.run, event.start_ms] += 1
            case LeaseEnded() if event.lease in self.open:
                self._end(self.open.pop(event.lease), event.end_ms)
            case RunEnded():
                self.times.pop(event.run, None)
            case _:
                pass
        yield from ()

    def _end(self, fact: LeaseStarted, end_ms: int) -> None:
        """Add the time of a lease that ended.

        Leases of one run with the same start are parts of one start. Their time is added once, when
        the last of them ends.
        """
        start = (fact.run, fact.start_ms)
        self.parts[start] -= 1
        if self.parts[start]:
            return
        del self.parts[start]
        flavor, ms = self.flavors.get(fact.payer, ""), end_ms - fact.start_ms
        for name in (fact.run, fact.partner):
            times = None if name is None else self.times.get(name)
            if times is not None:
                times.total_ms[flavor] = times.total_ms.get(flavor, 0) + ms
                if fact.partner is not None:
                    times.paired_ms[flavor] = times.paired_ms.get(flavor, 0) + ms

    def compare(self, view: StateView) -> Iterator[Violation]:
        """Yield a violation if a run's time with GPUs in ``view`` differs from its leases' time."""
        for name, member in view.in_rounds.items():
            times = self.times.get(name, _Times())
            if member.received_ms != times.total_ms:
                yield Violation("I8", name, "its time with GPUs differs from that of its leases")
            if member.received_paired_ms != times.paired_ms:
                yield Violation("I8", name, "its time in pairs differs from that of its leases")
