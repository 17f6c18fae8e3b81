"""The process's limit on open files, and how connections share it."""

from __future__ import annotations

import logging
import resource
from typing import Final

from quorate.views.exits import CommandError, Exit

_LOG = logging.getLogger(__name__)

RESERVE: Final = 128
"""How many descriptors are reserved for the ledger, its readers, logs and the service itself."""
CONNECTIONS_MIN: Final = 16


def connections_within(wanted: int, surfaces: int = 1) -> int:
    """Return how many connections each surface may have: at most ``wanted``.

    ``surfaces`` is the number of surfaces that share the limit. Increases the soft limit of the
    process as far as allowed. Raises ``CommandError`` if the limit is still too low to serve the
    ledger.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = surfaces * wanted + RESERVE
    if soft != resource.RLIM_INFINITY and soft < needed:
        soft = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return wanted
    found = (soft - RESERVE) // surfaces
    if found < CONNECTIONS_MIN:
        least = surfaces * CONNECTIONS_MIN + RESERVE
        raise CommandError(
            Exit.UNUSABLE,
            f"open files: this process may open {soft}, but needs at least {least}; raise the "
            f"limit, as with: ulimit -n {min(needed, 65_536)}",
        )
    _LOG.warning(
        "limits.connections: %d instead of %d, because this process may have %d files open; raise "
        "that limit, as with: ulimit -n %d",
        found,
        wanted,
        soft,
        needed,
    )
    return found
