"""Checks the leader's certificate: by ``quorum.ca``, or by the machine's authorities."""

from __future__ import annotations

import asyncio
import ssl
from contextlib import suppress
from pathlib import Path
from typing import Final

from quorate.views.exits import CommandError, Exit

_HASHED: Final = "*.[0-9]"
"""The names that OpenSSL looks up in a folder of certificates."""


def trusted(ca_file: str) -> ssl.SSLContext:
    """Return the TLS context that checks the leader's certificate; raises ``CommandError``."""
    try:
        return ssl.create_default_context(cafile=ca_file or None)
    except (OSError, ssl.SSLError) as error:
        raise CommandError(
            Exit.UNUSABLE,
            f"quorum.ca: {ca_file}: {getattr(error, 'strerror', None) or error}; give a file with "
            "certificates in PEM",
        ) from None


class LeaderTrust:
    """The authorities that may sign a leader's certificate for gRPC.

    ``ca_file`` is a file with these authorities. If it is empty, the machine's authorities are
    used.
    """

    def __init__(self, ca_file: str) -> None:
        self.ca_file = ca_file
        self._context: ssl.SSLContext | None = None

    def roots(self) -> bytes | None:
        """Return the authorities' certificates in PEM; None if the machine has none.

        The certificates are passed to gRPC explicitly, because gRPC would otherwise use its own
        authorities and not the machine's.
        """
        if self.ca_file:
            try:
                return Path(self.ca_file).read_bytes()
            except OSError as error:
                raise CommandError(
                    Exit.UNUSABLE,
                    f"quorum.ca: {self.ca_file}: {error.strerror}; check the path and its rights",
                ) from None
        paths = ssl.get_default_verify_paths()
        found = [Path(paths.cafile)] if paths.cafile else []
        if paths.capath:
            found += sorted(Path(paths.capath).glob(_HASHED))
        return b"\n".join(each.read_bytes() for each in found if each.is_file()) or None

    async def check(self, address: str) -> None:
        """Check that the service at ``address``, ``HOST:PORT``, shows a good certificate.

        Raises ``ssl.SSLCertVerificationError`` if the leader showed a bad certificate, and
        ``OSError`` if it showed no certificate. gRPC does not report these errors to the caller of
        a channel.
        """
        if self._context is None:
            # This runs on a thread, because reading the machine's certificates takes 80 ms.
            self._context = await asyncio.to_thread(trusted, self.ca_file)
            self._context.set_alpn_protocols(["h2"])
        host, _, port = address.rpartition(":")
        _, writer = await asyncio.open_connection(host.strip("[]"), int(port), ssl=self._context)
        writer.close()
        # The certificate is accepted already, so an error in closing the connection does not
        # matter.
        with suppress(OSError):
            await writer.wait_closed()
