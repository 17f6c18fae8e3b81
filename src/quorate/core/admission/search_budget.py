"""A bound on searching: exact results up to a given number of steps, then 'not found'."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

SEARCH_STEPS_MAX: Final = 5_000
"""How many candidates one decision examines before it returns the refusal ``search-limit``."""


@dataclass(slots=True)
class SearchBudget:
    """The steps left to a search. Once ``exhausted``, the lack of a result proves nothing."""

    left: int = SEARCH_STEPS_MAX
    exhausted: bool = False

    def spend(self, steps: int = 1) -> bool:
        """Return whether another ``steps`` may be taken, and take them."""
        if self.left < steps:
            self.exhausted = True
            return False
        self.left -= steps
        return True
