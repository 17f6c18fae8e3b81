"""A bound on the number of steps of a search; a search that stays within the bound is exact."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

SEARCH_STEPS_MAX: Final = 5_000
"""How many candidates one decision examines before it returns the refusal ``search-limit``."""


@dataclass(slots=True)
class SearchBudget:
    """The number of steps that a search may still take.

    If ``exhausted`` is true, the search stopped early, so a missing result proves nothing.
    """

    left: int = SEARCH_STEPS_MAX
    exhausted: bool = False

    def spend(self, steps: int = 1) -> bool:
        """Take ``steps`` from the budget; return False if not enough are left."""
        if self.left < steps:
            self.exhausted = True
            return False
        self.left -= steps
        return True
