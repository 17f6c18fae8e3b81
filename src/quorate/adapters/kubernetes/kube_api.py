"""The calls of one cluster's API that Quorate uses; objects are JSON trees.

Every failure is a ``ClusterError``: ``ClusterDownError`` if a later retry may help, or
``ClusterRefusedError``, with the HTTP status, if the API server refused the request.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from http.client import HTTPResponse
from typing import Any, Final
from urllib.parse import quote, urlencode

import msgspec

from quorate.adapters.kubernetes.cluster_access import ClusterAccess
from quorate.adapters.kubernetes.kube_connections import KubeConnections
from quorate.ports.errors import ClusterDownError, ClusterRefusedError
from quorate.version import __version__

Tree = dict[str, Any]

TIMEOUT_S: Final = 10.0
PAGE: Final = 500
"""The number of objects in one page of a list."""
SILENCE_S: Final = 30.0
"""The client ends a watch that sends nothing for its requested duration plus this time."""
GONE: Final = 410
CONFLICT: Final = 409
NOT_FOUND: Final = 404
_TOO_MANY: Final = 429
_SERVER_FAULT: Final = 500
_FAULT: Final = 400
_READ_BYTES: Final = 65_536
_JSON: Final = "application/json"
_SAID: Final = {"Accept": _JSON, "User-Agent": f"quorate/{__version__}"}
"""The headers of every request; audit logs and ``managedFields`` show the program's name."""
_MERGE: Final = "application/merge-patch+json"
APPLY: Final = "application/apply-patch+yaml"
"""The content type of server-side apply; the client sends JSON, which is also YAML."""


class Change(StrEnum):
    """The kind of change that a watch event reports."""

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
    """Calls the API server of one cluster; safe for several threads. ``close`` ends watches."""

    def __init__(self, access: ClusterAccess, *, timeout_s: float = TIMEOUT_S) -> None:
        self._access = access
        self._timeout_s = timeout_s
        self._connections = KubeConnections(access)

    def close(self) -> None:
        """End the watches, which wait for the server; requests in progress are still answered."""
        self._connections.close()

    def get(self, path: str, **params: str) -> Tree:
        """Return the object at ``path``."""
        return self._ask("GET", path, params=params)

    def create(self, path: str, body: Mapping[str, Any]) -> Tree:
        """Return the created object; raises a refusal with ``CONFLICT`` if it already exists."""
        return self._ask("POST", path, body=body)

    def merge(self, path: str, patch: Mapping[str, Any]) -> Tree:
        """Return the object after a merge patch."""
        return self._ask("PATCH", path, body=patch, content_type=_MERGE)

    def replace(self, path: str, body: Mapping[str, Any]) -> Tree:
        """Return the replaced object; raises a refusal with ``CONFLICT`` if it has changed."""
        return self._ask("PUT", path, body=body)

    def apply(self, path: str, body: Mapping[str, Any], *, manager: str = "quorate") -> Tree:
        """Return the object after a server-side apply by ``manager``."""
        params = {"fieldManager": manager, "force": "true"}
        return self._ask("PATCH", path, body=body, content_type=APPLY, params=params)

    def delete(self, path: str, *, grace_s: int | None = None, uid: str = "") -> Tree | None:
        """Delete an object; return the API server's answer, or None if the object was gone.

        The answer is the object as it is now, or a Status. If ``uid`` is given, no other object of
        the same name is deleted. If the answer is an object without a resource version, another
        caller deleted the object at the same time; the result is then None.
        """
        options: Tree = {"apiVersion": "v1", "kind": "DeleteOptions"}
        if grace_s is not None:
            options["gracePeriodSeconds"] = grace_s
        if uid:
            options["preconditions"] = {"uid": uid}
        try:
            found = self._ask("DELETE", path, body=options)
        except ClusterRefusedError as error:
            if error.status == NOT_FOUND or (uid and error.status == CONFLICT):
                return None
            raise
        # The answer is the object, or a Status without a resource version.
        is_object = found.get("kind") != "Status"
        is_left = "resourceVersion" in (found.get("metadata") or {})
        return None if is_object and not is_left else found

    def list_all(self, path: str, selector: str = "") -> tuple[list[Tree], str]:
        """Return all objects at ``path`` and the resource version from which to watch."""
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
        """Yield changes from ``version`` on, until the server ends the watch.

        ``opened`` is called when the server has begun to answer. Raises ``ClusterRefusedError``
        with ``GONE`` if ``version`` is too old; the caller must then list the objects again.
        """
        params = {
            "watch": "1",
            "resourceVersion": version,
            "timeoutSeconds": str(for_s),
            "allowWatchBookmarks": "true",
        }
        if selector:
            params["labelSelector"] = selector
        headers = self._access.headers() | _SAID
        with self._connections.lent(self._timeout_s, is_watch=True) as connection:
            own = connection.sock
            connection.request("GET", self._url(path, params), headers=headers)
            with connection.getresponse() as response:
                if response.status >= _FAULT:
                    raise _refusal("GET", path, response.status, response.read())
                own.settimeout(for_s + SILENCE_S)
                opened()
                for line in _lines(response):
                    yield _watched(line)

    def _url(self, path: str, params: Mapping[str, str]) -> str:
        """Return the path of a request, below the path of the server's URL, with the parameters."""
        question = f"?{urlencode(params)}" if params else ""
        return f"{self._connections.prefix}{quote(path)}{question}"

    def _ask(
        self,
        method: str,
        path: str,
        *,
        body: Mapping[str, Any] | None = None,
        content_type: str = _JSON,
        params: Mapping[str, str] | None = None,
    ) -> Tree:
        headers = self._access.headers() | _SAID
        if body is not None:
            headers["Content-Type"] = content_type
        with self._connections.lent(self._timeout_s) as connection:
            connection.request(
                method,
                self._url(path, params or {}),
                body=None if body is None else msgspec.json.encode(body),
                headers=headers,
            )
            response = connection.getresponse()
            content = response.read()
        if response.status >= _FAULT:
            raise _refusal(method, path, response.status, content)
        return _object(content)


def _lines(response: HTTPResponse) -> Iterator[bytes]:
    """Yield the lines of an answer as they arrive.

    The code does not use ``readline``, which would accept a truncated chunked answer as complete.
    """
    rest = b""
    while part := response.read1(_READ_BYTES):
        *whole, rest = (rest + part).split(b"\n")
        yield from filter(None, whole)
    if rest:
        yield rest


def _refusal(
    method: str, path: str, status: int, content: bytes
) -> ClusterDownError | ClusterRefusedError:
    """Return the error for an answer that refuses a request."""
    try:
        message = str(_object(content).get("message", ""))
    except ClusterDownError:
        message = content[:200].decode("utf-8", "replace")
    text = f"{method} {path}: {status} {message}".strip()
    if status >= _SERVER_FAULT or status == _TOO_MANY:
        return ClusterDownError(text)
    return ClusterRefusedError(text, status=status)


def _object(content: bytes) -> Tree:
    try:
        found = msgspec.json.decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError):
        found = None
    if not isinstance(found, dict):
        raise ClusterDownError("the API server sent an answer that is not a Kubernetes object")
    return found


def _watched(line: bytes) -> Watched:
    """Return the event in ``line``; raise an error for an ERROR event or an invalid line."""
    event = _object(line)
    body = event.get("object")
    if event.get("type") == "ERROR" and isinstance(body, dict):
        status, message = int(body.get("code", _SERVER_FAULT)), str(body.get("message", ""))
        if status == GONE:
            raise ClusterRefusedError(f"the watch cannot continue: {message}", status=GONE)
        raise ClusterDownError(f"the watch has failed: {status} {message}")
    if event.get("type") not in set(Change) or not isinstance(body, dict):
        # A server may send a line without an object just after a CRD was installed.
        raise ClusterDownError("the watch sent a line that is not an event")
    return Watched(Change(event["type"]), body)
