"""The port at which the processes of a run find each other (``MASTER_PORT``).

The port is chosen before rank 0 listens at it, so another program could take the port in between.
The kernel gives ports of its local range to programs that connect, or that ask for any port. So the
chosen port is outside of this range if possible.
"""

from __future__ import annotations

import socket
from collections.abc import Sequence
from pathlib import Path
from random import SystemRandom
from typing import Final

PORTS: Final = range(20_000, 29_500)
"""The ports of runs: above well-known ports, and below Linux's default local range."""
TRIES_MAX: Final = 100
GIVEN_AWAY: Final = Path("/proc/sys/net/ipv4/ip_local_port_range")
"""The kernel's file with the first and the last port of its local range."""
_ANY: Final = 0


def free_port(host: str, ports: range = PORTS, given_away: Path = GIVEN_AWAY) -> int:
    """Return a free port of ``host``: if possible a port in ``ports``, else any port.

    ``ports`` are not used if a port among them is in the kernel's local range. The file
    ``given_away`` states this range. Raises ``OSError`` if no port is left.
    """
    tried: Sequence[int] = ()
    if _are_kept_back(ports, given_away):
        # Random, so that keepers that start together rarely choose the same port.
        tried = SystemRandom().sample(ports, min(TRIES_MAX, len(ports)))
    return next((port for port in tried if _is_free(host, port)), None) or _any_port(host)


def _are_kept_back(ports: range, given_away: Path) -> bool:
    """Return whether ``ports`` are outside of the kernel's local range; False if not known."""
    try:
        first, last = map(int, given_away.read_text(encoding="ascii").split())
    except (OSError, ValueError):
        return False
    return last < ports[0] or ports[-1] < first


def _is_free(host: str, port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind((host, port))
        except OSError:
            return False
    return True


def _any_port(host: str) -> int:
    with socket.socket() as probe:
        probe.bind((host, _ANY))
        port: int = probe.getsockname()[1]
        return port
