"""The service's listening socket, and the check that no other user can read the private key."""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
import stat
from collections.abc import Callable, Sequence
from pathlib import Path
from time import monotonic
from typing import Final, TypeAlias, TypeVar

from quorate.adapters.takeover import TAKEOVER_S
from quorate.service.config import Configuration
from quorate.service.config_values import Address
from quorate.views.exits import CommandError, Exit

_LOG = logging.getLogger(__name__)
T = TypeVar("T")
_Place: TypeAlias = tuple[
    socket.AddressFamily,
    socket.SocketKind,
    int,
    str,
    tuple[str, int] | tuple[str, int, int, int] | tuple[int, bytes],
]

BACKLOG: Final = 2_048
_TRY_AGAIN_S: Final = 0.05
_OTHERS_BITS: Final = stat.S_IRWXG | stat.S_IRWXO


async def bind(
    address: Address, wait_s: float = TAKEOVER_S, *, setting: str = "listen"
) -> socket.socket:
    """Return a socket that listens at ``address``; retry for ``wait_s`` while it is in use.

    Raises ``CommandError``, which names ``setting``, if the address cannot be used.
    """
    return await when_free(lambda: _bound(address), address, setting, wait_s)


async def when_free(
    take: Callable[[], T], address: Address, setting: str, wait_s: float = TAKEOVER_S
) -> T:
    """Return the result of ``take``; retry for ``wait_s`` while ``address`` is in use.

    Raises ``CommandError``, which names ``setting``, if the address stays in use, or if ``take``
    raises another OSError.
    """
    until_s = monotonic() + wait_s
    is_told = False
    while True:
        try:
            return take()
        except OSError as error:
            is_in_use = error.errno == errno.EADDRINUSE
            if not is_in_use or monotonic() >= until_s:
                why = (error.strerror or str(error)).lower()
                tried = (
                    (f" (tried for {wait_s:g} s); stop the program that uses it, or")
                    if is_in_use
                    else ";"
                )
                raise CommandError(
                    Exit.UNUSABLE,
                    f"{setting}: {address} cannot be used: {why}{tried} choose another with "
                    f"--{setting.replace('.', '-')} HOST:PORT",
                ) from None
        if not is_told:
            is_told = True
            _LOG.warning("%s: %s is in use; trying for %g s", setting, address, wait_s)
        await asyncio.sleep(_TRY_AGAIN_S)


def check_free(address: Address) -> None:
    """Raise OSError if ``address`` is in use, or if no process can listen there.

    If a host name resolves to several addresses, all of them must be free.
    """
    places = _places(address)
    errors: list[OSError] = []
    for place in places:
        try:
            with _bound_to(place):
                pass
        except OSError as error:
            errors.append(error)
    in_use = [each for each in errors if each.errno == errno.EADDRINUSE]
    if in_use or len(errors) == len(places):
        raise (in_use or errors)[0]


def _bound(address: Address) -> socket.socket:
    found = _bound_to(_places(address)[0])
    try:
        found.listen(BACKLOG)
    except OSError:
        found.close()
        raise
    found.setblocking(False)  # noqa: FBT003 - the API of sockets
    return found


def _bound_to(place: _Place) -> socket.socket:
    family, kind, protocol, _, where = place
    found = socket.socket(family, kind, protocol)
    try:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind(where)
    except OSError:
        found.close()
        raise
    return found


def _places(address: Address) -> Sequence[_Place]:
    return socket.getaddrinfo(
        address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )


def check_tls(configuration: Configuration) -> None:
    """Raise ``CommandError`` if other users may read the private key."""
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
            f"tls.key: other users may read or change {configuration.tls_key}; run: chmod 600 "
            f"{configuration.tls_key}",
        )
