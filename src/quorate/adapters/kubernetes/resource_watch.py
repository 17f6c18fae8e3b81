"""The custom resources of one cluster, kept up to date by a watch of each kind."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from threading import Lock
from typing import Any, Final

from quorate.adapters.kubernetes.kube_api import Change, KubeApi
from quorate.adapters.kubernetes.object_watch import ObjectWatch
from quorate.adapters.kubernetes.resource_objects import (
    KINDS,
    Resource,
    ResourceKind,
    resource_of,
)

Seen = Mapping[tuple[str, str, str], Resource]
"""Resources by kind, namespace and name."""
_GONE_MAX: Final = 10_000
"""The number of deleted resources that are remembered, so that no late event restores them."""


class ResourceWatch:
    """The custom resources of ``cluster``; threads of watches call ``tell`` after each change.

    The function ``before`` is called before each list; it raises if the cluster must not be used.
    """

    def __init__(
        self,
        api: KubeApi,
        cluster: str,
        tell: Callable[[], None],
        *,
        before: Callable[[], None] = lambda: None,
    ) -> None:
        self._api = api
        self._followers = [_KindFollower(kind, tell) for kind in KINDS]
        self._watches = [
            ObjectWatch(
                api,
                each.kind.all_path,
                each,
                what=f"the {each.kind.plural} of cluster {cluster}",
                before=before,
            )
            for each in self._followers
        ]

    @property
    def trouble(self) -> str:
        """Why the resources cannot be watched; empty while they can."""
        return next(filter(None, (each.trouble for each in self._watches)), "")

    def start(self) -> None:
        """Start to list and to watch."""
        for each in self._watches:
            each.start()

    def close(self) -> None:
        """Stop watching, and wait until all watches have ended."""
        for each in self._watches:
            each.close()
        self._api.close()
        for each in self._watches:
            each.join()

    def seen(self) -> Seen | None:
        """Return all resources; None until each kind has been listed."""
        found: dict[tuple[str, str, str], Resource] = {}
        for each in self._followers:
            own = each.seen()
            if own is None:
                return None
            found |= own
        return found

    def newest(self, resource: Resource) -> Resource | None:
        """Return the latest known version of ``resource``; None if it is deleted."""
        return self._follower(resource.kind).newest(resource)

    def at(self, kind: ResourceKind, namespace: str, name: str) -> Resource | None:
        """Return the resource called ``name``; None if it is not known."""
        return self._follower(kind).at((kind.name, namespace, name))

    def put(self, kind: ResourceKind, tree: Mapping[str, Any]) -> Resource:
        """Store a resource from an answer of the API server; return its latest known version."""
        return self._follower(kind).put(resource_of(kind, tree))

    def remove(self, resource: Resource) -> None:
        """Forget a resource that the API server no longer has."""
        self._follower(resource.kind).remove(resource)

    def _follower(self, kind: ResourceKind) -> _KindFollower:
        (found,) = (each for each in self._followers if each.kind.name == kind.name)
        return found


class _KindFollower:
    """The resources of one kind."""

    def __init__(self, kind: ResourceKind, tell: Callable[[], None]) -> None:
        self.kind = kind
        self._tell = tell
        self._lock = Lock()
        self._found: dict[tuple[str, str, str], Resource] = {}
        self._gone: dict[str, None] = {}
        self._is_listed = False

    def seen(self) -> Seen | None:
        with self._lock:
            return dict(self._found) if self._is_listed else None

    def at(self, key: tuple[str, str, str]) -> Resource | None:
        with self._lock:
            return self._found.get(key)

    def newest(self, resource: Resource) -> Resource | None:
        with self._lock:
            if resource.uid in self._gone:
                return None
            known = self._found.get(resource.key)
        if known is None:
            return resource
        return known if known.uid == resource.uid else None

    def put(self, resource: Resource) -> Resource:
        with self._lock:
            return self._put(resource)

    def remove(self, resource: Resource) -> None:
        with self._lock:
            self._gone[resource.uid] = None
            if len(self._gone) > _GONE_MAX:
                del self._gone[next(iter(self._gone))]
            known = self._found.get(resource.key)
            if known is not None and known.uid == resource.uid:
                del self._found[resource.key]

    def listed(self, list_now: Callable[[], list[dict[str, Any]]]) -> None:
        """Replace all resources of the kind."""
        # A resource that was written during the list is newer than the list, and is kept.
        with self._lock:
            before = dict(self._found)
        trees = list_now()
        with self._lock:
            written = {
                key: each for key, each in self._found.items() if before.get(key) is not each
            }
            self._found = {}
            for each in (*(resource_of(self.kind, tree) for tree in trees), *written.values()):
                self._put(each)
            self._is_listed = True
        self._tell()

    def took(self, change: Change, tree: dict[str, Any]) -> None:
        """Apply one change of a resource."""
        resource = resource_of(self.kind, tree)
        if change is Change.DELETED:
            self.remove(resource)
        else:
            self.put(resource)
        self._tell()

    def lost(self) -> None:
        """Keep the known resources: after the next list they are compared with the ledger again."""

    def _put(self, resource: Resource) -> Resource:
        known = self._found.get(resource.key)
        if resource.uid in self._gone:
            return resource  # The event is older than the deletion.
        if known is not None and int(known.version) > int(resource.version):
            return known
        self._found[resource.key] = resource
        return resource
