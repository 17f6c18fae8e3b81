"""A proxy like those before a service: it removes a prefix from each path, and nothing else."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from socketserver import BaseRequestHandler, ThreadingTCPServer
from threading import Thread
from typing import Final

_END: Final = b"\r\n\r\n"
_CHUNK: Final = 65_536


def _handler(prefix: str, host: str, port: int) -> type[BaseRequestHandler]:
    class Handler(BaseRequestHandler):
        """One connection, with one request."""

        def handle(self) -> None:
            """Forward the request and its answer."""
            received = b""
            while _END not in received:
                part = self.request.recv(_CHUNK)
                if not part:
                    return
                received += part
            head, _, rest = received.partition(_END)
            head = re.sub(rb"^(\S+) " + prefix.encode(), rb"\1 ", head)
            head = re.sub(rb"(?i)\r\nconnection:[^\r]*", b"", head) + b"\r\nConnection: close"
            with socket.create_connection((host, port)) as behind:
                behind.sendall(head + _END + rest)
                back = Thread(target=_pass_on, args=(behind, self.request), daemon=True)
                back.start()
                _pass_on(self.request, behind)
                back.join()

    return Handler


def _pass_on(source: socket.socket, target: socket.socket) -> None:
    """Forward all bytes until one side closes."""
    try:
        while part := source.recv(_CHUNK):
            target.sendall(part)
        target.shutdown(socket.SHUT_WR)
    except OSError:
        # One of the two has closed, so the other is closed, too.
        target.close()


class _Server(ThreadingTCPServer):
    daemon_threads = True
    block_on_close = False
    allow_reuse_address = True


@contextmanager
def proxied(prefix: str, host: str, port: int) -> Iterator[str]:
    """Yield the address of a proxy that adds ``prefix`` to the service at ``host``."""
    with _Server(("127.0.0.1", 0), _handler(prefix, host, port)) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}{prefix}"
        server.shutdown()
