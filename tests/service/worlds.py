"""Ledgers to serve in tests: a small fleet with two families, in memory or in a file."""

from __future__ import annotations

from typing import Any, Final

from quorate.adapters.stores.store_memory import MemoryStore
from quorate.core.commands import Apply
from quorate.loop.engine import Engine
from quorate.model.specs import Owner
from quorate.operations.caller import Caller, Role
from quorate.testing.builders import budget, envelope, fleet
from quorate.testing.memory_engines import HandClock, memory_engine

ADMIN: Final = Caller(actor="root", role=Role.ADMIN, user="root")
ALICE: Final = Caller(actor="alice", role=Role.USER, user="alice", tenant="team")
BOB: Final = Caller(actor="bob", role=Role.USER, user="bob", tenant="other")


def small_ledger(store: MemoryStore | None = None, clock: HandClock | None = None) -> Engine:
    """Return the engine of a ledger with 16 GPUs, paid for by ``team``."""
    engine = memory_engine(store, clock)
    owners = (
        Owner(name="org"),
        Owner(name="team", parents=("org",)),
        Owner(name="other"),
    )
    money = budget("b", "team", envelope("e", 16))
    receipt = engine.execute(Apply((*owners, *fleet({"A": 16}), money)), actor="test")
    assert not receipt.decision.refusals, receipt
    return engine


def run_tree(name: str, owner: str = "team", gpus: int = 4, **spec: Any) -> dict[str, Any]:
    """Return a Run document."""
    return {
        "apiVersion": "quorate.dev/v1",
        "kind": "Run",
        "metadata": {"name": name},
        "spec": {"owner": owner, "resources": {"gpuType": "H100", "totalGPUs": gpus}} | spec,
    }


def large_run_tree(name: str, owner: str) -> dict[str, Any]:
    """Return a run whose event takes 100 kB: few of these fill all buffers between two programs."""
    return run_tree(name, owner, command=["true", "x" * 100_000])
