"""How long a new service waits for the address and locks of a service that has just ended.

A forked child has copies of all file descriptors of its parent until it executes its program; Linux
cannot exclude a descriptor from a fork. If a service is killed between fork and execution, its
child (the future keeper) still holds the service's address, ledger and work folder. The supervisor
starts the next service immediately, so the next service must wait until all three are free.
"""

from __future__ import annotations

from typing import Final

TAKEOVER_S: Final = 5.0
"""The time to wait: far longer than a busy machine takes from fork to exec."""
