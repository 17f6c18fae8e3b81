"""How long a new service waits for the address and the locks of one that has just ended.

A forked child shares all descriptors of its parent until it executes its program; Linux cannot
exclude a descriptor from a fork. If a service is killed at that instant, its child, a keeper that
has not begun, still holds the service's address, ledger and work folder. The supervisor starts the
next service at once, so that service must wait for them.
"""

from __future__ import annotations

from typing import Final

TAKEOVER_S: Final = 5.0
"""Far longer than a loaded machine takes from fork to exec, and short enough to wait for."""
