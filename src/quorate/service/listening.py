"""Where the service listens: a socket of its own, and a private key that nobody else reads."""

from __future__ import annotations

import socket
import stat
from pathlib import Path
from typing import Final

from quorate.answers.exits import CommandError, Exit
from quorate.service.config import Configuration
from quorate.service.config_values import Address

BACKLOG: Final = 2_048
_OTHERS_BITS: Final = stat.S_IRWXG | stat.S_IRWXO


def bind(address: Address) -> socket.socket:
    """Return a socket that listens at ``address``; raises ``CommandError`` when it cannot."""
    try:
        (family, kind, protocol, _, where), *_ = socket.getaddrinfo(
            address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        found = socket.socket(family, kind, protocol)
    except OSError as error:
        raise CommandError(
            Exit.UNUSABLE, f"listen: {address} cannot be used: {error.strerror or error}"
        ) from None
    try:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind(where)
        found.listen(BACKLOG)
    except OSError as error:
        found.close()
        raise CommandError(
            Exit.UNUSABLE,
            f"listen: {address} cannot be used: {error.strerror}; stop what is there, or choose "
            "another with --listen HOST:PORT",
        ) from None
    found.setblocking(False)  # noqa: FBT003 - as sockets are told
    return found


def check_tls(configuration: Configuration) -> None:
    """Raise ``CommandError`` when others may read the private key."""
    if not configuration.tls_key:
        return
    try:
        mode = Path(configuration.tls_key).stat().st_mode
    except OSError as error:
        raise CommandError(
            Exit.UNUSABLE, f"tls.key: {configuration.tls_key}: {error.strerror}"
        ) from None
    if mode & _OTHERS_BITS:
        raise CommandError(
            Exit.UNUSABLE,
            f"tls.key: {configuration.tls_key} may be read or changed by others; run: "
            f"chmod 600 {configuration.tls_key}",
        )
