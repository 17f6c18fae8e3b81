"""An object store for tests, which checks every signature by the published rules.

It shares no code with ``adapters/s3``: it parses the request as received.
"""

from __future__ import annotations

import hmac
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qsl, unquote
from xml.sax.saxutils import escape

from tests.bounds import WAIT_S

KEY_ID, SECRET, REGION = "key-of-tests", "a-secret/of+tests", "eu-test-1"
SKEW_S = 900
PAGE = 2
"""The most names in one page of a list."""


class S3Server(ThreadingHTTPServer):
    """Objects by path; ``failures`` are the statuses of the next answers."""

    daemon_threads = False

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.objects: dict[str, bytes] = {}
        self.failures: list[int] = []
        self.requests = 0

    @property
    def place(self) -> str:
        return f"s3+http://127.0.0.1:{self.server_port}/bucket-1"


class _Handler(BaseHTTPRequestHandler):
    server: S3Server

    def do_GET(self) -> None:
        if self._refused(b""):
            return
        path, _, query = self.path.partition("?")
        if query:
            self._list(dict(parse_qsl(query)))
        elif path in self.server.objects:
            self._answer(200, self.server.objects[path])
        else:
            self._fail(404, "NoSuchKey")

    def do_PUT(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        if not self._refused(body):
            self.server.objects[self.path] = body
            self._answer(200)

    def do_DELETE(self) -> None:
        if not self._refused(b""):
            self.server.objects.pop(self.path, None)
            self._answer(204)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the parent's name
        del format, args

    def _list(self, query: dict[str, str]) -> None:
        begin = f"/bucket-1/{query['prefix']}"
        names = sorted(each for each in self.server.objects if each.startswith(begin))
        first = int(query.get("continuation-token", "0"))
        keys = "".join(f"<Key>{escape(n[10:])}</Key>" for n in names[first : first + PAGE])
        more = first + PAGE
        after = f"<NextContinuationToken>{more}</NextContinuationToken>"
        text = f"<ListBucketResult>{keys}{after if more < len(names) else ''}</ListBucketResult>"
        self._answer(200, text.encode())

    def _refused(self, body: bytes) -> bool:
        """Answer and return True if the request must not be carried out."""
        self.server.requests += 1
        if self.server.failures:
            self._fail(self.server.failures.pop(0), "SlowDown")
            return True
        if self.headers["x-amz-content-sha256"] != sha256(body).hexdigest():
            self._fail(400, "XAmzContentSHA256Mismatch")
            return True
        if not self._is_signed():
            self._fail(403, "SignatureDoesNotMatch")
            return True
        return False

    def _is_signed(self) -> bool:
        kind, _, rest = self.headers["authorization"].partition(" ")
        parts = dict(each.strip().split("=", 1) for each in rest.split(","))
        at = self.headers["x-amz-date"]
        sent = datetime.strptime(at, "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
        if abs((datetime.now(UTC) - sent).total_seconds()) > SKEW_S:
            return False
        scope = f"{at[:8]}/{REGION}/s3/aws4_request"
        names = parts["SignedHeaders"].split(";")
        if "host" not in names or parts["Credential"] != f"{KEY_ID}/{scope}":
            return False
        path, _, query = self.path.partition("?")
        lines = [self.command, path, "&".join(sorted(query.split("&")))]
        lines += [f"{name}:{self.headers[name].strip()}" for name in names]
        lines += ["", ";".join(names), self.headers["x-amz-content-sha256"]]
        digest = sha256("\n".join(lines).encode()).hexdigest()
        key = b"AWS4" + SECRET.encode()
        for part in scope.split("/"):
            key = hmac.digest(key, part.encode(), "sha256")
        text = f"{kind}\n{at}\n{scope}\n{digest}"
        wanted = hmac.digest(key, text.encode(), "sha256").hex()
        assert unquote(path) == path, "names need no escapes"
        return kind == "AWS4-HMAC-SHA256" and hmac.compare_digest(wanted, parts["Signature"])

    def _fail(self, status: int, code: str) -> None:
        self._answer(status, f"<Error><Code>{code}</Code></Error>".encode())

    def _answer(self, status: int, body: bytes = b"") -> None:
        self.send_response(status)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@contextmanager
def s3_server() -> Iterator[S3Server]:
    """Serve until the end of the block."""
    with S3Server() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join(WAIT_S)
