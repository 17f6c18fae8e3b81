"""A bound on searching: exact answers up to a stated number of steps, then a plain 'not found'."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

SEARCH_STEPS_MAX: Final = 5_000
"""How many candidates one decision looks at before it answers ``search-limit``."""


@dataclass(slots=True)
class SearchBudget:
    """How much searching is left. Once ``exhausted``, a missing answer proves nothing."""

    left: int = SEARCH_STEPS_MAX
    exhausted: bool = False

    def spend(self, steps: int = 1) -> bool:
        """Return whether another ``steps`` may be taken, and take them."""
        if self.left < steps:
            self.exhausted = True
            return False
        self.left -= steps
        return True
