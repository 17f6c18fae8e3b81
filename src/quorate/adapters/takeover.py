"""How long a new service waits for the address and the locks of one that has just ended.

A process shares its descriptors with each process that it starts until that one executes its
program, and Linux knows no descriptor that a fork leaves out. A service that is killed in this
instant is gone, while its address, its ledger and its work folder are still held: by a keeper that
has not begun. Its supervisor starts the next service at once, which must not give up for that.
"""

from __future__ import annotations

from typing import Final

TAKEOVER_S: Final = 5.0
"""Far more than a loaded machine needs from a fork to the program, and short enough to wait for."""
