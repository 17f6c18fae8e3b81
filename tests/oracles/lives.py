"""A ledger that is given commands one by one, and looked at from every side after each."""

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
    """One ledger; ``now_ms`` is the time of the last command, and of the next unless told.

    ``audits`` False leaves the audit, which takes longer the longer the life is, to the end.
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
        """Return what was decided and recorded; nothing is refused, and everything holds after."""
        self.now_ms = self.now_ms if at_ms is None else at_ms
        decision = self.try_(command)
        assert not decision.refusals, decision.refusals
        return decision

    def try_(self, command: Command) -> Decision:
        """Return what was decided, and recorded unless it was refused; everything holds after."""
        decision = self.ask(command)
        apply_all(self.state, decision.events)
        self.events += decision.events
        if decision.events:
            assert sweep(self.state) == []
            if self.audits:
                self.audit()
        else:
            # All is as it was looked at before, except the plan that a decision keeps.
            assert list(check_plan(self.state)) == []
        return decision

    def audit(self) -> None:
        """Go through all that happened so far; nothing was ever wrong."""
        assert audit(self.events, view=self.state) == []

    def ask(self, command: Command) -> Decision:
        """Return what would be decided now."""
        return decide(
            self.state,
            command,
            now_ms=self.now_ms,
            actor="test",
            has_executor=self.has_executor,
        )

    def due_ms(self) -> int | None:
        """Return when somebody has to tick."""
        return next_due_ms(self.state, has_executor=self.has_executor, after_ms=self.now_ms)

    def phase(self, run: str) -> Phase:
        """Return where a run is in its life."""
        return self.state.runs[run].phase

    def on(self, run: str, *roles: Role) -> dict[str, int]:
        """Return the GPUs a run has on each node: those that work, or those in ``roles``."""
        wanted = roles or (Role.ACTIVE, Role.BORROWED)
        found: dict[str, int] = {}
        for lease in self.state.runs[run].leases:
            fact = self.state.leases[lease].fact
            if fact.role in wanted:
                for node, mask in fact.slots:
                    found[node] = found.get(node, 0) + mask.bit_count()
        return found

    def gpus(self, run: str, *roles: Role) -> int:
        """Return the GPUs of ``on`` together."""
        return sum(self.on(run, *roles).values())

    def filled(self, run: str) -> int:
        """Return how many spare GPUs of ``run`` others fill."""
        return sum(pledge.gpus for pledge in self.state.pledges.values() if pledge.run == run)

    def stopping(self) -> list[str]:
        """Return the leases that were told to stop and have not been confirmed."""
        return [name for name, lease in self.state.leases.items() if lease.ending is not None]


def ends(decision: Decision) -> list[tuple[str, EndReason]]:
    """Return the leases that ended, and why."""
    return [(e.lease, e.reason) for e in decision.events if isinstance(e, LeaseEnded)]


def stops(decision: Decision) -> list[tuple[str, EndReason]]:
    """Return the leases that were told to stop, and why."""
    return [(e.lease, e.reason) for e in decision.events if isinstance(e, LeaseEnding)]
