"""Follows the objects at one path of a cluster by a list and a watch.

A watch that the server ended, or that was lost, continues from the last resource version. If
``lists_after_loss``, a lost watch starts again with a list instead. A watch that cannot continue
(410 Gone) also starts again with a list. While the API server does not answer, the watch retries
with growing pauses.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from threading import Event, Thread
from time import time
from typing import Any, Final, Protocol

from quorate.adapters.kubernetes.kube_api import GONE, NOT_FOUND, Change, KubeApi
from quorate.documents.times import time_text
from quorate.model.amounts import SECOND_MS
from quorate.ports.errors import (
    ClusterError,
    ClusterRefusedError,
    OldTermError,
    WorkFolderError,
)

_LOG = logging.getLogger(__name__)

AGAIN_S: Final = 0.2
"""The time until a lost watch is opened again; each further failure doubles it."""
AGAIN_S_MAX: Final = 15.0
_DENIED: Final = (401, 403)


class Follower(Protocol):
    """Receives the objects and changes of a watch, on the thread of the watch."""

    def listed(self, list_now: Callable[[], list[dict[str, Any]]]) -> None:
        """Replace all objects by the objects that ``list_now`` gets from the API server."""
        ...

    def took(self, change: Change, tree: dict[str, Any]) -> None:
        """Apply the addition, change or deletion of one object."""
        ...

    def lost(self) -> None:
        """Assume that changes of objects were missed, until the objects are listed again."""
        ...


class ObjectWatch:
    """Lists and watches ``path`` in a separate thread, until ``close``.

    The text ``what`` names the objects in the log. The function ``before`` is called before each
    list, and raises ``ClusterError``, ``WorkFolderError`` or ``OldTermError`` if the cluster must
    not be used.
    """

    def __init__(  # noqa: PLR0913 - where, which, and how
        self,
        api: KubeApi,
        path: str,
        follower: Follower,
        *,
        what: str,
        selector: str = "",
        lists_after_loss: bool = False,
        before: Callable[[], None] = lambda: None,
    ) -> None:
        self._api = api
        self._path = path
        self._follower = follower
        self._what = what
        self._selector = selector
        self._lists_after_loss = lists_after_loss
        self._before = before
        self._version = ""
        self._again_s = AGAIN_S
        self._is_closing = Event()
        self._thread = Thread(target=self._follow, name=f"watch {path}", daemon=True)
        self._cause = ""
        self._since_ms = 0
        self._remedy = ""

    @property
    def trouble(self) -> str:
        """Since when and why the objects cannot be watched, and the remedy; empty if they can."""
        if not self._cause:
            return ""
        return f"since {time_text(self._since_ms)}: {self._cause}; {self._remedy}"

    def start(self) -> None:
        """Start to list and to watch."""
        self._thread.start()

    def close(self) -> None:
        """Stop watching; the caller must also close the connection, which ends the last read."""
        self._is_closing.set()

    def join(self) -> None:
        """Wait until the watch has ended."""
        if self._thread.is_alive():
            self._thread.join()

    # --- Its own thread ---

    def _follow(self) -> None:
        while not self._is_closing.is_set():
            try:
                if not self._version:
                    self._begin()
                self._watch()
            except ClusterRefusedError as error:
                self._forget()
                if error.status != GONE:
                    self._complain(error)
            except (ClusterError, WorkFolderError, OldTermError) as error:
                if self._lists_after_loss:
                    self._forget()
                self._complain(error)
            except Exception as error:  # noqa: BLE001 - a watch that ended would see nothing more
                self._forget()
                self._complain(error)
                _LOG.debug("the watch of %s failed", self._what, exc_info=True)
            else:
                continue
            self._is_closing.wait(self._again_s)
            self._again_s = min(2 * self._again_s, AGAIN_S_MAX)

    def _begin(self) -> None:
        version = ""

        def list_now() -> list[dict[str, Any]]:
            nonlocal version
            trees, version = self._api.list_all(self._path, self._selector)
            return trees

        self._before()
        self._follower.listed(list_now)
        self._version = version

    def _watch(self) -> None:
        events = self._api.watch(self._path, self._version, self._selector, opened=self._opened)
        for event in events:
            if event.change is not Change.BOOKMARK:
                self._follower.took(event.change, event.object)
            # The version moves only after the change was applied, so that no change is skipped.
            self._version = event.object["metadata"]["resourceVersion"]

    def _opened(self) -> None:
        self._again_s = AGAIN_S
        if self._cause:
            self._cause = ""
            _LOG.info("%s can be watched again", self._what)

    def _forget(self) -> None:
        self._version = ""
        self._follower.lost()

    def _complain(self, error: Exception) -> None:
        if self._is_closing.is_set() or self._cause == str(error):
            return
        if not self._cause:
            self._since_ms = int(time() * SECOND_MS)
        self._cause, self._remedy = str(error), remedy_of(error)
        _LOG.warning("%s cannot be watched: %s; trying again", self._what, error)


def remedy_of(error: Exception) -> str:
    """Return the remedy for a cluster that refuses a request, or does not answer."""
    status = error.status if isinstance(error, ClusterRefusedError) else None
    if status in _DENIED:
        return "give the service the permissions that docs/kubernetes.md lists, and a valid token"
    if status == NOT_FOUND:
        return "install the missing CRDs in the cluster: they are in deploy/crds"
    return "check that the API server runs and can be reached from here; Quorate keeps trying"
