"""The audit of recalls: only loans are recalled, on the lender's terms, and never too early."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from quorate.core.admission.run_shape import Violation
from quorate.model.events import (
    BudgetApplied,
    EndReason,
    Event,
    LeaseEnded,
    LeaseEnding,
    LeaseStarted,
    LoanRecalled,
    PoolApplied,
    RecallWithdrawn,
    RunEnded,
    RunRequeued,
    RunSubmitted,
    Tier,
)
from quorate.model.specs import DEFAULT_POOL, Envelope, EnvelopeId, Pool, Run, envelope_id


@dataclass(slots=True)
class RecallBooks:
    """The open loans, the terms of every envelope, and the recalls.

    ``graces_ms`` has the longest grace that each pool ever gave, because a lease keeps the grace
    with which it started.
    """

    graces_ms: dict[str, int] = field(
        default_factory=lambda: {DEFAULT_POOL: Pool(name=DEFAULT_POOL).grace_max_ms}
    )
    lines: dict[EnvelopeId, tuple[str, Envelope]] = field(default_factory=dict)
    runs: dict[str, Run] = field(default_factory=dict)
    leases: dict[str, LeaseStarted] = field(default_factory=dict)
    held_by: dict[str, dict[str, None]] = field(default_factory=dict)
    recalls: dict[tuple[str, int], LoanRecalled] = field(default_factory=dict)
    stopping: set[str] = field(default_factory=set)

    def enter(self, event: Event) -> Iterator[Violation]:  # noqa: C901, PLR0912 - one case per kind
        """Record ``event``, and yield its violations."""
        match event:
            case PoolApplied():
                name, grace_ms = event.pool.name, event.pool.grace_max_ms
                self.graces_ms[name] = max(grace_ms, self.graces_ms.get(name, 0))
            case BudgetApplied():
                for line in event.budget.envelopes:
                    key = envelope_id(event.budget.name, line.name)
                    self.lines[key] = (event.budget.owner, line)
            case RunSubmitted():
                self.runs[event.run.name] = event.run
            case LeaseStarted():
                self.leases[event.lease] = event
                self.held_by.setdefault(event.run, {})[event.lease] = None
            case LoanRecalled():
                yield from self._recall(event)
                self.recalls[event.run, event.bundle] = event
            case RecallWithdrawn():
                if self.recalls.pop((event.run, event.bundle), None) is None:
                    yield Violation("I6", event.run, "has no recall that could be withdrawn")
            case LeaseEnding():
                self.stopping.add(event.lease)
                if event.reason is EndReason.RECALLED:
                    yield from self._stop(event)
            case LeaseEnded():
                yield from self._end(event)
            case RunRequeued() | RunEnded():
                for bundle in [n for run, n in self.recalls if run == event.run]:
                    del self.recalls[event.run, bundle]
            case _:
                return

    def _recall(self, event: LoanRecalled) -> Iterator[Violation]:
        """Yield a violation if the payer of ``event`` lent nothing, or if its terms are broken."""
        what = f"{event.run}, bundle {event.bundle}"
        if (event.run, event.bundle) in self.recalls:
            yield Violation("I6", what, "is recalled a second time")
        owner, line = self.lines.get(event.payer, ("", None))
        waiting = self.runs.get(event.waiting_run)
        if waiting is None or waiting.owner != owner or self.held_by.get(event.waiting_run):
            yield Violation(
                "I6",
                what,
                (
                    f"is recalled for {event.waiting_run}, which is not a run of {owner} or "
                    "already runs"
                ),
            )
        held = [self.leases[name] for name in self.held_by.get(event.run, ())]
        lent = [
            fact
            for fact in held
            if (fact.bundle, fact.payer, fact.tier) == (event.bundle, event.payer, Tier.BORROWED)
        ]
        if not lent:
            yield Violation("I3", what, f"is recalled, but borrows nothing from {event.payer}")
        notice_ms = None if line is None else line.lending.recall_notice_ms
        if notice_ms is None or event.due_ms - event.at_ms < notice_ms:
            yield Violation("I6", what, f"is recalled against its terms, due at {event.due_ms}")

    def _stop(self, event: LeaseEnding) -> Iterator[Violation]:
        """Yield a violation if a lease is stopped without a recall, or with too short a notice."""
        fact = self.leases.get(event.lease)
        recall = None if fact is None else self._recall_of(fact)
        if fact is None or recall is None:
            yield Violation("I6", event.lease, "is stopped as recalled, but was not recalled")
            return
        first_ms = recall.due_ms - self.graces_ms[self.runs[fact.run].pool]
        if event.deadline_ms < recall.due_ms or event.at_ms < first_ms:
            yield Violation("I6", event.lease, f"is stopped before {recall.due_ms}")

    def _end(self, event: LeaseEnded) -> Iterator[Violation]:
        fact = self.leases.pop(event.lease, None)
        if fact is None:
            return
        del self.held_by[fact.run][event.lease]
        if event.reason is EndReason.RECALLED and self._recall_of(fact) is None:
            yield Violation("I6", event.lease, "has ended as recalled, but was not recalled")
        # A hand-over or a swap ends a lease that was not stopping, and the bundle continues.
        is_over = event.lease in self.stopping or event.reason is EndReason.SHRINK
        self.stopping.discard(event.lease)
        held = self.held_by[fact.run]
        # The end of bundle 0 ends all bundles. So a recall of bundle 0 lasts until no lease is
        # left.
        if is_over and not any(fact.bundle in (0, self.leases[name].bundle) for name in held):
            # The run may grow into this bundle again, and the new loan may be recalled, too.
            self.recalls.pop((fact.run, fact.bundle), None)

    def _recall_of(self, fact: LeaseStarted) -> LoanRecalled | None:
        found = self.recalls.get((fact.run, fact.bundle))
        return self.recalls.get((fact.run, 0)) if found is None else found
