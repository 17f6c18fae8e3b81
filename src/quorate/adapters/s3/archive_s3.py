"""The archive in an object store: each file is one object, written whole or not at all.

Each request is signed when it is sent. The client repeats a request if the store did not answer or
was busy. This is safe, because writing the same object twice changes nothing.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from hashlib import sha256
from html import unescape
from pathlib import Path
from typing import Final
from urllib.parse import quote, urlsplit

import httpx

from quorate.adapters.s3.s3_address import S3Address
from quorate.adapters.s3.s3_signing import S3Request, query_text, signed_headers
from quorate.ports.errors import SegmentError, StoreFullError

ATTEMPTS_MAX: Final = 4
_PAUSE_S: Final = 0.2
_TIMEOUT_S: Final = 60.0
_CHUNK: Final = 1 << 20
_NOTHING: Final = sha256(b"").hexdigest()
_MISSING: Final = 404
_FULL: Final = frozenset(("QuotaExceeded", "XMinioStorageFull", "InsufficientCapacity"))
_FULL_STATUS: Final = 507
_KEY: Final = re.compile(r"<Key>([^<]*)</Key>")
_NEXT: Final = re.compile(r"<NextContinuationToken>([^<]*)</NextContinuationToken>")
_CODE: Final = re.compile(r"<Code>([^<]*)</Code>")

Content = Callable[[], bytes | Iterator[bytes]]


class S3Archive:
    """An archive in one bucket; several threads may use it. See ``FileArchive``."""

    def __init__(self, address: S3Address, *, pause: Callable[[float], None] = time.sleep) -> None:
        self._address = address
        self._pause = pause
        # No proxies from the environment and no redirects, because the operator configured neither.
        self._http = httpx.Client(timeout=_TIMEOUT_S, trust_env=False)

    def put(self, name: str, data: bytes) -> None:
        """Store ``data`` as ``name``; see ``FileArchive``."""
        self._put(name, lambda: data, len(data), sha256(data).hexdigest())

    def get(self, name: str) -> bytes:
        """Return the content of ``name``; see ``FileArchive``."""
        return self._done("GET", name).content

    def put_file(self, name: str, source: Path) -> None:
        """Store a copy of ``source`` as ``name``; see ``FileArchive``."""
        try:
            digest, size = sha256(), 0
            for chunk in _chunks(source):
                digest.update(chunk)
                size += len(chunk)
            self._put(name, lambda: _chunks(source), size, digest.hexdigest())
        except OSError as error:
            raise SegmentError(f"{source} cannot be read: {error.strerror}") from error

    def get_file(self, name: str, target: Path) -> None:
        """Write the content of ``name`` to ``target``; see ``FileArchive``."""
        data = self.get(name)
        try:
            target.unlink(missing_ok=True)
            target.touch(mode=0o600)
            target.write_bytes(data)
        except OSError as error:
            raise SegmentError(f"{target} cannot be written: {error.strerror}") from error

    def names(self, room: str) -> list[str]:
        """Return the names of the files in ``room``; see ``FileArchive``."""
        prefix = self._address.prefix
        query = {"list-type": "2", "prefix": f"{prefix}{room}/"}
        found: list[str] = []
        while True:
            text = self._done("GET", "", query=query).text
            found += [unescape(each).removeprefix(prefix) for each in _KEY.findall(text)]
            after = _NEXT.search(text)
            if after is None:
                return sorted(found)
            query["continuation-token"] = unescape(after[1])

    def remove(self, name: str) -> None:
        """Remove ``name``; see ``FileArchive``."""
        self._done("DELETE", name, is_missing_fine=True)

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def _put(self, name: str, content: Content, size: int, digest: str) -> None:
        headers = {"content-length": str(size)}
        self._done("PUT", name, content=content, headers=headers, digest=digest)

    def _done(  # noqa: PLR0913 - the parts of a request
        self,
        method: str,
        name: str,
        *,
        query: Mapping[str, str] | None = None,
        content: Content | None = None,
        headers: Mapping[str, str] | None = None,
        digest: str = _NOTHING,
        is_missing_fine: bool = False,
    ) -> httpx.Response:
        """Return the answer to a request that the store carried out; raises errors of the port."""
        what = f"{self._address.place}{name}"
        why = ""
        for attempt in range(ATTEMPTS_MAX):
            if attempt:
                self._pause(_PAUSE_S * (1 << attempt))
            try:
                answer = self._sent(
                    method,
                    name,
                    query=query or {},
                    headers=headers or {},
                    content=content,
                    digest=digest,
                )
            except httpx.TransportError as error:
                why = str(error) or type(error).__name__
                continue
            if answer.is_success or (is_missing_fine and answer.status_code == _MISSING):
                return answer
            why = _why(answer)
            if answer.status_code == _FULL_STATUS or why in _FULL:
                raise StoreFullError(f"{what} cannot be written: the object store is full ({why})")
            if not answer.is_server_error:
                break
        raise SegmentError(
            f"{method} {what} failed: {why}; the archive of this ledger must be a bucket in which "
            f"the key in {self._address.credentials} may read, list, write and delete, and the "
            f"clock of this machine must be right (archive= in the URL of the ledger)"
        )

    def _sent(  # noqa: PLR0913 - the parts of a request
        self,
        method: str,
        name: str,
        *,
        query: Mapping[str, str],
        content: Content | None,
        headers: Mapping[str, str],
        digest: str,
    ) -> httpx.Response:
        address = self._address
        path = f"/{address.bucket}" + (f"/{address.prefix}{name}" if name else "")
        request = S3Request(
            method=method,
            path=path,
            query=query,
            headers={"host": urlsplit(address.origin).netloc, **headers},
            body_sha256=digest,
            at=datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ"),
        )
        text = query_text(query)
        return self._http.request(
            method,
            f"{address.origin}{quote(path, safe='/-_.~')}{'?' if text else ''}{text}",
            content=None if content is None else content(),
            headers=signed_headers(request, address.key(), address.region),
        )


def _chunks(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            yield chunk


def _why(answer: httpx.Response) -> str:
    code = _CODE.search(answer.text)
    return f"{answer.status_code}" if code is None else unescape(code[1])
