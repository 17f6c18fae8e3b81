"""A real HTTP server that answers each request as a test says."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from tests.bounds import WAIT_S


@dataclass(frozen=True, slots=True)
class Got:
    """A request as received."""

    method: str
    path: str
    query: list[tuple[str, str]]
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class Stand:
    """One request that is being answered."""

    got: Got
    handler: BaseHTTPRequestHandler

    def send(
        self, status: int, body: bytes, media: str = "application/json", **headers: str
    ) -> None:
        self.handler.send_response(status)
        self.handler.send_header("Content-Type", media)
        self.handler.send_header("Content-Length", str(len(body)))
        for name, value in headers.items():
            self.handler.send_header(name.replace("_", "-"), value)
        self.handler.end_headers()
        self.handler.wfile.write(body)

    def hang_up(self) -> None:
        self.handler.connection.shutdown(socket.SHUT_RDWR)
        self.handler.close_connection = True

    def stream(
        self, *parts: bytes, whole: bool, between: Callable[[], object] = lambda: None
    ) -> None:
        """Send parts of a streamed answer; break the connection at the end unless it is ``whole``.

        ``between`` is called before each part but the first.
        """
        self.handler.send_response(200)
        self.handler.send_header("Content-Type", "text/event-stream")
        self.handler.send_header("Transfer-Encoding", "chunked")
        self.handler.end_headers()
        for position, part in enumerate(parts):
            if position:
                between()
            self.handler.wfile.write(f"{len(part):x}\r\n".encode() + part + b"\r\n")
            self.handler.wfile.flush()
        if whole:
            self.handler.wfile.write(b"0\r\n\r\n")
        else:
            self.hang_up()


Act = Callable[[Stand], None]


def gives(tree: object, status: int = 200, **headers: str) -> Act:
    return lambda stand: stand.send(status, json.dumps(tree).encode(), **headers)


def page(text: str, status: int = 200) -> Act:
    return lambda stand: stand.send(status, text.encode(), "text/html")


def refuses(status: int, code: str, *lines: str, **headers: str) -> Act:
    tree = {"title": "No", "status": status, "code": code, "lines": lines, "refusals": []}
    body = json.dumps(tree).encode()
    return lambda stand: stand.send(status, body, "application/problem+json", **headers)


def hangs_up(stand: Stand) -> None:
    stand.hang_up()


@dataclass
class Scripted:
    """Runs one act for each request, the last act for all later ones; ``got`` has the requests."""

    acts: list[Act]
    got: list[Got] = field(default_factory=list)
    server: ThreadingHTTPServer = field(init=False)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_address[1]}"


@contextmanager
def serving(*acts: Act) -> Iterator[Scripted]:
    """Serve on a free port of this machine."""
    found = Scripted(list(acts))

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as inherited
            del format, args

        def handle_any(self) -> None:
            parts = urlsplit(self.path)
            size = int(self.headers.get("Content-Length") or 0)
            got = Got(
                self.command,
                parts.path,
                parse_qsl(parts.query),
                {name.lower(): value for name, value in self.headers.items()},
                self.rfile.read(size),
            )
            act = found.acts[min(len(found.got), len(found.acts) - 1)]
            found.got.append(got)
            act(Stand(got, self))

        do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = handle_any  # noqa: N815

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, request: object, client_address: object) -> None:
            """Ignore errors, because tests close connections on purpose."""

    found.server = Server(("127.0.0.1", 0), Handler)
    thread = Thread(target=found.server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield found
    finally:
        found.server.shutdown()
        found.server.server_close()
        thread.join(WAIT_S)
        assert not thread.is_alive()
