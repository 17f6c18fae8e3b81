"""The API of one cluster, typed as far as Quorate uses it: objects are the trees that JSON has.

Every failure is a ``ClusterError``: ``ClusterDownError`` where asking again later may help,
``ClusterRefusedError`` with its HTTP status where the API server said no.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import StrEnum
from threading import Lock
from typing import Any, Final

import httpx
import msgspec

from quorate.adapters.kubernetes.cluster_access import ClusterAccess
from quorate.ports.errors import ClusterDownError, ClusterRefusedError

Tree = dict[str, Any]

TIMEOUT_S: Final = 10.0
PAGE: Final = 500
"""How many objects one page of a list has."""
SILENCE_S: Final = 30.0
"""How much longer than it was asked for a watch may be silent before it is given up."""
GONE: Final = 410
CONFLICT: Final = 409
NOT_FOUND: Final = 404
_TOO_MANY: Final = 429
_SERVER_FAULT: Final = 500
_FAULT: Final = 400
_MERGE: Final = "application/merge-patch+json"
APPLY: Final = "application/apply-patch+yaml"
"""The content type of server-side apply; JSON is YAML."""


class Change(StrEnum):
    """What a watch says of an object."""

    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"
    BOOKMARK = "BOOKMARK"


@dataclass(frozen=True, slots=True)
class Watched:
    """One event of a watch."""

    change: Change
    object: Tree


class KubeApi:
    """Asks the API server of one cluster; safe for several threads. ``close`` ends watches."""

    def __init__(self, access: ClusterAccess, *, timeout_s: float = TIMEOUT_S) -> None:
        self._access = access
        self._timeout_s = timeout_s
        self._http = httpx.Client(
            base_url=access.server,
            verify=access.trust if access.trust is not None else False,
            timeout=timeout_s,
            trust_env=False,
        )
        self._lock = Lock()
        self._watched: set[socket.socket] = set()
        self._asked = 0
        self._is_closed = False

    def close(self) -> None:
        """End watches, which wait for their server; connections are closed by the last request."""
        with self._lock:
            self._is_closed = True
            watched = list(self._watched)
            is_asked = self._asked > 0
        for each in watched:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
        if not is_asked:
            self._http.close()

    def get(self, path: str, **params: str) -> Tree:
        """Return the object at ``path``."""
        return self._ask("GET", path, params=params)

    def create(self, path: str, body: Mapping[str, Any]) -> Tree:
        """Return the object that was made; refused with ``CONFLICT`` where it is there already."""
        return self._ask("POST", path, body=body)

    def merge(self, path: str, patch: Mapping[str, Any]) -> Tree:
        """Return the object after a merge patch."""
        return self._ask("PATCH", path, body=patch, content_type=_MERGE)

    def replace(self, path: str, body: Mapping[str, Any]) -> Tree:
        """Return the object after it was replaced; refused with ``CONFLICT`` where it is newer."""
        return self._ask("PUT", path, body=body)

    def apply(self, path: str, body: Mapping[str, Any], *, manager: str = "quorate") -> Tree:
        """Return the object after a server-side apply by ``manager``."""
        params = {"fieldManager": manager, "force": "true"}
        return self._ask("PATCH", path, body=body, content_type=APPLY, params=params)

    def delete(self, path: str, *, grace_s: int | None = None, uid: str = "") -> Tree | None:
        """Return the object as it is now, or None where there is none any more.

        With ``uid`` another object of the same name is left alone.
        """
        options: Tree = {"apiVersion": "v1", "kind": "DeleteOptions"}
        if grace_s is not None:
            options["gracePeriodSeconds"] = grace_s
        if uid:
            options["preconditions"] = {"uid": uid}
        try:
            return self._ask("DELETE", path, body=options)
        except ClusterRefusedError as error:
            if error.status == NOT_FOUND or (uid and error.status == CONFLICT):
                return None
            raise

    def list_all(self, path: str, selector: str = "") -> tuple[list[Tree], str]:
        """Return all objects at ``path`` and the resource version to watch on from."""
        params = {"limit": str(PAGE)}
        if selector:
            params["labelSelector"] = selector
        items: list[Tree] = []
        while True:
            page = self._ask("GET", path, params=params)
            items += page.get("items") or []
            metadata = page.get("metadata") or {}
            if not metadata.get("continue"):
                return items, str(metadata.get("resourceVersion", ""))
            params["continue"] = metadata["continue"]

    def watch(
        self,
        path: str,
        version: str,
        selector: str = "",
        *,
        for_s: int = 300,
        opened: Callable[[], None] = lambda: None,
    ) -> Iterator[Watched]:
        """Yield what changes from ``version`` on, until the server ends the watch.

        ``opened`` is called when the server has begun to answer.
        Raises ``ClusterRefusedError`` with ``GONE`` where ``version`` is too old to go on from:
        then the objects have to be listed anew.
        """
        params = {
            "watch": "1",
            "resourceVersion": version,
            "timeoutSeconds": str(for_s),
            "allowWatchBookmarks": "true",
        }
        if selector:
            params["labelSelector"] = selector
        silence = httpx.Timeout(self._timeout_s, read=for_s + SILENCE_S)
        try:
            with (
                self._in_use(),
                self._http.stream(
                    "GET", path, params=params, headers=self._access.headers(), timeout=silence
                ) as response,
            ):
                if response.status_code >= _FAULT:
                    response.read()
                    raise _refusal(response)
                with self._ended_by_close(response):
                    opened()
                    for line in response.iter_lines():
                        if line:
                            yield _watched(line)
        except httpx.HTTPError as error:
            raise ClusterDownError(f"{path}: the watch was lost: {error}") from None

    @contextmanager
    def _in_use(self) -> Iterator[None]:
        """Keep the client open for one request; the last one after ``close`` closes it.

        A client that is closed while another thread connects would never close that connection.
        """
        self._begin()
        try:
            yield
        finally:
            with self._lock:
                self._asked -= 1
                is_last = self._is_closed and not self._asked
            if is_last:
                self._http.close()

    def _begin(self) -> None:
        with self._lock:
            if self._is_closed:
                raise ClusterDownError("the connection is closed")
            self._asked += 1

    @contextmanager
    def _ended_by_close(self, response: httpx.Response) -> Iterator[None]:
        """Have ``close`` end a read of ``response`` that waits in another thread."""
        own: socket.socket = response.extensions["network_stream"].get_extra_info("socket")
        with self._lock:
            if self._is_closed:
                raise ClusterDownError("the connection is closed")
            self._watched.add(own)
        try:
            yield
        finally:
            with self._lock:
                self._watched.discard(own)

    def _ask(
        self,
        method: str,
        path: str,
        *,
        body: Mapping[str, Any] | None = None,
        content_type: str = "application/json",
        params: Mapping[str, str] | None = None,
    ) -> Tree:
        headers = self._access.headers()
        if body is not None:
            headers["Content-Type"] = content_type
        try:
            with self._in_use():
                response = self._http.request(
                    method,
                    path,
                    params=dict(params or {}),
                    headers=headers,
                    content=None if body is None else msgspec.json.encode(body),
                )
        except httpx.HTTPError as error:
            raise ClusterDownError(
                f"{self._access.server} does not answer: {type(error).__name__} {error}"
            ) from None
        if response.status_code >= _FAULT:
            raise _refusal(response)
        return _object(response.content)


def _refusal(response: httpx.Response) -> ClusterDownError | ClusterRefusedError:
    """Return the error that an answer is."""
    status = response.status_code
    try:
        message = str(_object(response.content).get("message", ""))
    except ClusterDownError:
        message = response.text[:200]
    text = f"{response.request.method} {response.request.url.path}: {status} {message}".strip()
    if status >= _SERVER_FAULT or status == _TOO_MANY:
        return ClusterDownError(text)
    return ClusterRefusedError(text, status=status)


def _object(content: bytes | str) -> Tree:
    try:
        found = json.loads(content)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise ClusterDownError("the API server answered with what is no object of Kubernetes")
    return found


def _watched(line: str) -> Watched:
    """Return one event; raises what an ERROR event or a line that is none stands for."""
    event = _object(line)
    body = event.get("object")
    if event.get("type") == "ERROR" and isinstance(body, dict):
        status, message = int(body.get("code", _SERVER_FAULT)), str(body.get("message", ""))
        if status == GONE:
            raise ClusterRefusedError(f"the watch cannot go on: {message}", status=GONE)
        raise ClusterDownError(f"the watch has failed: {status} {message}")
    if event.get("type") not in set(Change) or not isinstance(body, dict):
        # A server may answer so just after it has learnt of a kind of object.
        raise ClusterDownError("the watch answered with what is no event")
    return Watched(Change(event["type"]), body)
