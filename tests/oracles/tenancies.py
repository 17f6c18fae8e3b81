"""Tenants with money for everything, so that only quotas limit their runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from quorate.core.commands import Apply, Command, Decision
from quorate.core.tenancy.queue_order import queue_order
from quorate.model.amounts import DAY_MS
from quorate.model.refusal import sentence
from quorate.model.specs import Budget, Owner, Pool, Quota, System
from quorate.model.state.records import Phase
from quorate.testing.builders import NOW_MS, budget, envelope, fleet
from tests.oracles.lives import Life

EVER_MS: Final = 4_000 * DAY_MS


def money_of(owner: str) -> Budget:
    """Return a budget of an owner that is always large enough."""
    line = envelope("all", 100_000, start_ms=NOW_MS - EVER_MS, end_ms=NOW_MS + EVER_MS)
    return budget(owner, owner, line)


class Tenancy(Life):
    """Owners, and ``nodes`` nodes of ``gpus`` GPUs in each of ``domains``."""

    def __init__(
        self,
        owners: Sequence[Owner] = (),
        *,
        nodes: int = 4,
        gpus: int = 8,
        domains: Sequence[str] = "AB",
        pools: Sequence[Pool] = (),
        system: System | None = None,
    ) -> None:
        super().__init__(
            nodes=fleet(dict.fromkeys(domains, gpus * nodes), gpus=gpus),
            owners=owners,
            budgets=[money_of(owner.name) for owner in owners],
            pools=pools,
        )
        if system is not None:
            self.do(Apply((system,)))

    def later(self, command: Command, after_ms: int) -> Decision:
        """Decide and record a command ``after_ms`` later."""
        return self.do(command, self.now_ms + after_ms)

    def said(self, command: Command) -> str:
        """Return the only reason, as text, for which a command is refused."""
        decision = self.try_(command)
        (refusal,) = decision.refusals
        assert decision.events == ()
        return sentence(refusal)

    def limit(self, owner: str, quota: Quota) -> Decision:
        """Return the decision that gives ``owner`` other limits."""
        parents = self.state.owners[owner].parents
        return self.do(Apply((Owner(name=owner, parents=parents, quota=quota),)))

    def queue(self) -> list[str]:
        """Return the waiting runs, in queue order."""
        return queue_order(self.state, self.now_ms)

    def running(self) -> list[str]:
        """Return the running runs, in the order of their submission."""
        return [n for n, r in self.state.runs.items() if r.phase is Phase.RUNNING]
