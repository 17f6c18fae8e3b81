"""The port at which the processes of a run meet.

It is chosen before rank 0 listens there, and another program could take it meanwhile. The kernel
gives the ports of one range to programs that ask for any port, and to those that connect; so the
port is outside of that range if possible.
"""

from __future__ import annotations

import socket
from collections.abc import Sequence
from pathlib import Path
from random import SystemRandom
from typing import Final

PORTS: Final = range(20_000, 29_500)
"""The ports of runs: above well-known ones, and below those that Linux gives away by default."""
TRIES_MAX: Final = 100
GIVEN_AWAY: Final = Path("/proc/sys/net/ipv4/ip_local_port_range")
"""The kernel's file of the first and the last port that it gives away."""
_ANY: Final = 0


def free_port(host: str, ports: range = PORTS, given_away: Path = GIVEN_AWAY) -> int:
    """Return a port of ``host`` that is free now, of ``ports`` unless the kernel gives those away.

    Raises ``OSError`` if no port is left.
    """
    tried: Sequence[int] = ()
    if _are_kept_back(ports, given_away):
        # At random: keepers that start together should not choose the same one.
        tried = SystemRandom().sample(ports, min(TRIES_MAX, len(ports)))
    return next((port for port in tried if _is_free(host, port)), None) or _any_port(host)


def _are_kept_back(ports: range, given_away: Path) -> bool:
    """Return whether the kernel gives none of ``ports`` away; False if that is not known."""
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
