"""A ledger that gets commands one by one, with all checks after each command."""

from __future__ import annotations

from collections.abc import Sequence

from quorate.core.audit.history_audit import audit
from quorate.core.audit.invariants import sweep
from quorate.core.audit.plan_audit import check_plan
from quorate.core.commands import Command, Decision
from quorate.core.decide import decide
from quorate.core.next_due import next_due_ms
from quorate.model.events import EndReason, Event, LeaseEnded, LeaseEnding, Role
from quorate.model.specs import Budget, Node, Owner, Pool
from quorate.model.state.apply_event import apply_all
from quorate.model.state.records import Phase
from quorate.model.state.state import State
from quorate.testing.builders import NOW_MS, opening


class Life:
    """One ledger; ``now_ms`` is the time of the last command.

    It is also the time of the next command, unless another time is given. If ``audits`` is False,
    the audit, whose cost grows with the history, runs only when ``audit`` is called.
    """

    def __init__(
        self,
        *,
        nodes: Sequence[Node],
        budgets: Sequence[Budget],
        owners: Sequence[Owner] = (),
        pools: Sequence[Pool] = (),
        has_executor: bool = False,
        audits: bool = True,
    ) -> None:
        self.events: list[Event] = opening(nodes=nodes, budgets=budgets, owners=owners, pools=pools)
        self.state = State()
        apply_all(self.state, self.events)
        self.has_executor = has_executor
        self.audits = audits
        self.now_ms = NOW_MS

    def do(self, command: Command, at_ms: int | None = None) -> Decision:
        """Decide and record a command that must not be refused; check all invariants."""
        self.now_ms = self.now_ms if at_ms is None else at_ms
        decision = self.try_(command)
        assert not decision.refusals, decision.refusals
        return decision

    def try_(self, command: Command) -> Decision:
        """Decide a command, and record it unless it is refused; check all invariants."""
        decision = self.ask(command)
        apply_all(self.state, decision.events)
        self.events += decision.events
        if decision.events:
            assert sweep(self.state) == []
            if self.audits:
                self.audit()
        else:
            # All caches were checked before, except for the plan that a decision keeps.
            assert list(check_plan(self.state)) == []
        return decision

    def audit(self) -> None:
        """Audit the whole history so far."""
        assert audit(self.events, view=self.state) == []

    def ask(self, command: Command) -> Decision:
        """Return the decision on ``command`` without recording it."""
        return decide(
            self.state,
            command,
            now_ms=self.now_ms,
            actor="test",
            has_executor=self.has_executor,
        )

    def due_ms(self) -> int | None:
        """Return when the next change is due."""
        return next_due_ms(self.state, has_executor=self.has_executor, after_ms=self.now_ms)

    def phase(self, run: str) -> Phase:
        """Return the phase of a run."""
        return self.state.runs[run].phase

    def on(self, run: str, *roles: Role) -> dict[str, int]:
        """Return the GPUs of a run on each node, in leases with ``roles``, by default working ones.

        Working leases have the role Active or Borrowed.
        """
        wanted = roles or (Role.ACTIVE, Role.BORROWED)
        found: dict[str, int] = {}
        for lease in self.state.runs[run].leases:
            fact = self.state.leases[lease].fact
            if fact.role in wanted:
                for node, mask in fact.slots:
                    found[node] = found.get(node, 0) + mask.bit_count()
        return found

    def gpus(self, run: str, *roles: Role) -> int:
        """Return the sum of the GPUs that ``on`` returns."""
        return sum(self.on(run, *roles).values())

    def filled(self, run: str) -> int:
        """Return how many spare GPUs of ``run`` other runs fill."""
        return sum(pledge.gpus for pledge in self.state.pledges.values() if pledge.run == run)

    def stopping(self) -> list[str]:
        """Return the leases that were ordered to stop and have not ended."""
        return [name for name, lease in self.state.leases.items() if lease.ending is not None]


def ends(decision: Decision) -> list[tuple[str, EndReason]]:
    """Return the leases that ended, with their reasons."""
    return [(e.lease, e.reason) for e in decision.events if isinstance(e, LeaseEnded)]


def stops(decision: Decision) -> list[tuple[str, EndReason]]:
    """Return the leases that were ordered to stop, with their reasons."""
    return [(e.lease, e.reason) for e in decision.events if isinstance(e, LeaseEnding)]
