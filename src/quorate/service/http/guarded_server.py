"""The HTTP server of a surface: each connection is counted as soon as it is accepted."""

from __future__ import annotations

import socket
from typing import Any

import uvicorn

from quorate.service.http.accepting import Acceptor, Connections
from quorate.service.http.connection import GuardedProtocol


class GuardedServer(uvicorn.Server):
    """Serves ``config``, whose protocol must be a ``GuardedProtocol``.

    ``connections`` counts and limits the connections.
    """

    def __init__(
        self, config: uvicorn.Config, connections: Connections, handshake_s_max: float
    ) -> None:
        super().__init__(config)
        self._connections = connections
        self._handshake_s_max = handshake_s_max

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Accept connections at ``sockets``; count each connection as soon as it is accepted."""
        assert sockets is not None, "bound before"
        config = self.config

        def create() -> GuardedProtocol:
            return config.http_protocol_class(  # type: ignore[call-arg, return-value]
                config=config, server_state=self.server_state, app_state={}
            )

        acceptors: list[Any] = [
            Acceptor(
                each,
                create,
                self._connections,
                tls=config.ssl,
                handshake_s_max=self._handshake_s_max,
            )
            for each in sockets
        ]
        # The base class only closes its asyncio servers, so the acceptors can take their place.
        self.servers = acceptors
        self.started = True
