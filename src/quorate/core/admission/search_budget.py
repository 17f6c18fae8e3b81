"""A bound on a search: its result is exact up to a given number of steps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

SEARCH_STEPS_MAX: Final = 5_000
"""How many candidates one decision examines before it returns the refusal ``search-limit``."""


@dataclass(slots=True)
class SearchBudget:
    """The steps left to a search. If ``exhausted``, a missing result proves nothing."""

    left: int = SEARCH_STEPS_MAX
    exhausted: bool = False

    def spend(self, steps: int = 1) -> bool:
        """Take ``steps`` from the budget; return False if not enough are left."""
        if self.left < steps:
            self.exhausted = True
            return False
        self.left -= steps
        return True
