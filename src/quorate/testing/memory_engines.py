"""Engines for tests: a ledger in memory, and a clock that the test sets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from quorate.adapters.stores.store_memory import MemoryStore
from quorate.loop.engine import Engine
from quorate.testing.builders import NOW_MS

LOTTERY_SECRET: Final = b"the secret that only tests know."
"""A secret of the right length. Only tests may use it, because everybody can read it here."""
LOTTERY_LENGTH: Final = 1_000
"""The number of lotteries in the chain. It is small, so that an engine is made quickly."""


@dataclass(slots=True)
class HandClock:
    """A clock that the test sets."""

    ms: int = NOW_MS

    def now_ms(self) -> int:
        """Return the time to which the clock is set."""
        return self.ms


def memory_engine(store: MemoryStore | None = None, clock: HandClock | None = None) -> Engine:
    """Return the engine of a new ledger in memory."""
    return Engine.create(
        MemoryStore() if store is None else store,
        HandClock() if clock is None else clock,
        ledger_id="test",
        public_key="",
        actor="test",
        lottery_secret=LOTTERY_SECRET,
        lottery_length=LOTTERY_LENGTH,
    )
