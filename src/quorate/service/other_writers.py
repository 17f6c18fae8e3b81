"""What other writers append to the ledger of a service: read on at short intervals.

Only a ledger in a store that others write to is read on. So lists, watches, tokens and metrics of
this service are as old as the interval at most, also when it commits nothing itself.
"""

from __future__ import annotations

import logging
from math import inf
from time import monotonic
from typing import Final

from quorate.loop.engine import Engine
from quorate.ports.errors import QuorateError

_LOG = logging.getLogger(__name__)

FOLLOW_S: Final = 0.5
"""How often the ledger is read on: a token that another service revokes is refused within 1 s."""


class OtherWriters:
    """Reads on for one engine; for the ledger's thread only. ``trouble`` says why that fails."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._next_s = 0.0
        self.trouble = ""

    def wait_s(self) -> float:
        """Return how long nothing has to be read."""
        return max(0.0, self._next_s - monotonic()) if self._engine.is_shared else inf

    def read_on(self) -> bool:
        """Apply what others have appended, if it is time to; return whether there was anything."""
        if self.wait_s() > 0:
            return False
        try:
            blocks = self._engine.follow()
        except QuorateError as error:
            text = f"what other services have recorded cannot be read: {error}"
            if text != self.trouble:
                _LOG.warning("%s; it is tried again", text)
            self.trouble = text
            return False
        finally:
            self._next_s = monotonic() + FOLLOW_S
        if self.trouble:
            _LOG.info("what other services have recorded is read again")
        self.trouble = ""
        return blocks > 0
