"""The operator's writes to a cluster: finalizers, statuses, and objects that only Quorate writes.

No code waits for a write. When a request ends, the cluster is compared with the ledger again. That
comparison finds the next writes, including writes that were refused or not answered.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import inf
from time import monotonic
from typing import Any, Final

from quorate.adapters.kubernetes.kube_api import KubeApi
from quorate.adapters.kubernetes.resource_objects import RUN, Resource
from quorate.adapters.kubernetes.resource_watch import Seen
from quorate.adapters.kubernetes.resource_writes import ResourceWriter
from quorate.ports.errors import ClusterError
from quorate.service.custom_resources.event_posts import Post, RecentPosts, write_post
from quorate.service.custom_resources.ledger_picture import LedgerPicture
from quorate.service.custom_resources.resource_conditions import Said
from quorate.service.custom_resources.resource_mirror import Mirror, OwnObject
from quorate.service.custom_resources.resource_standing import ledger_status, of_ledger
from quorate.service.custom_resources.resource_status import is_urgent, status_news
from quorate.service.custom_resources.run_transitions import transitions
from quorate.service.custom_resources.write_queue import Key, Rank, Write, WriteQueue

_LOG = logging.getLogger(__name__)

SELDOM_S: Final = 3.0
"""The shortest time between two writes of a status, unless a user waits for the change."""


@dataclass(frozen=True, slots=True)
class _Looked:
    """The data from which a status was made.

    No status is made from the same data again before ``until_s``.
    """

    resource: Resource
    ledger: object
    fault: Said | None
    until_s: float

    def holds(self, resource: Resource, ledger: object, fault: Said | None, now_s: float) -> bool:
        is_same = self.resource is resource and self.ledger is ledger and self.fault == fault
        return is_same and now_s < self.until_s


class ClusterWrites:
    """The operator's writes: ``writer`` writes objects, and Events of runs are posted with ``api``.

    When a request has ended, ``over`` is called with the name of its object, and with the error if
    the request failed. ``over`` is not called for Events: nothing depends on Events, and the log
    says why an Event is not written.
    """

    def __init__(
        self,
        api: KubeApi,
        writer: ResourceWriter,
        over: Callable[[str, ClusterError | None], None],
        ledger: str,
    ) -> None:
        self._api = api
        self._loop = asyncio.get_running_loop()
        self._writer = writer
        self._recent = RecentPosts()
        self._unposted = ""
        self._tell = over
        self._queue = WriteQueue(self._is_over)
        self._mirror = Mirror(ledger)
        self._written_s: dict[Key, float] = {}
        self._looked: dict[Key, _Looked] = {}

    async def close(self) -> None:
        """Wait until all writes have ended."""
        await self._queue.close()

    def hold(self, resources: Iterable[Resource]) -> None:
        """Add the finalizer to ``resources``."""
        for each in resources:
            self._put(each, Rank.FINALIZER, partial(self._writer.hold, each))

    def let_go(self, resources: Iterable[Resource]) -> None:
        """Remove the finalizers of ``resources``."""
        for each in resources:
            self._put(each, Rank.FINALIZER, partial(self._writer.let_go, each))

    def _put(self, resource: Resource, rank: Rank, call: Callable[[], object]) -> None:
        self._queue.put(resource.key, Write(resource.shown, rank, call))

    def _is_over(self, key: Key, write: Write, error: ClusterError | None) -> None:
        if write.rank is Rank.EVENT:
            self._posted(error)
            return
        self._looked.pop(key, None)
        self._tell(write.shown, error)

    def _posted(self, error: ClusterError | None) -> None:
        """Log why an Event was not written, unless the last Event failed for the same reason."""
        why = "" if error is None else type(error).__name__
        if error is not None and why != self._unposted:
            _LOG.warning(
                ("Events of runs cannot be written to the cluster; everything else continues: %s"),
                error,
            )
        self._unposted = why

    def _happened(self, now: str, before: Resource, status: Mapping[str, Any]) -> None:
        """Post Events for the changes of a run; runs on a thread of the queue."""
        for each in transitions(before.status, status):
            self._loop.call_soon_threadsafe(self._post, Post(before, each, now))

    def _post(self, post: Post) -> None:
        if self._recent.may_tell(post):
            shown = f"Event {post.told.reason} of {post.resource.shown}"
            key = ("Event", post.resource.namespace, post.name)
            self._queue.put(key, Write(shown, Rank.EVENT, partial(write_post, self._api, post)))

    async def statuses(
        self, resources: Sequence[tuple[Resource, Said | None]], picture: LedgerPicture
    ) -> float | None:
        """Write the statuses that have changed; ``resources`` has each resource and its fault.

        If the change of a status is not urgent, the status is written at the earliest ``SELDOM_S``
        seconds after its last write. Returns the seconds until the next delayed status is due; None
        if all statuses are written.
        """
        now_s = monotonic()
        self._written_s = {
            k: at_s for k, at_s in self._written_s.items() if now_s < at_s + SELDOM_S
        }
        self._looked = {
            resource.key: self._looked[resource.key]
            for resource, _ in resources
            if resource.key in self._looked
        }
        writes, looked = await asyncio.to_thread(
            self._writes_of_statuses, resources, picture, now_s, dict(self._looked)
        )
        for key, write in writes.items():
            known = self._queue.known(key)
            if known is not None and known.rank is Rank.FINALIZER:
                del looked[key]  # The status is only known once the finalizer is set.
                continue
            rests_s = self._queue.put(key, write)
            if rests_s is None:
                self._written_s[key] = now_s
            else:
                looked[key] = replace(looked[key], until_s=rests_s)
        self._looked |= looked
        first_s = min((each.until_s for each in self._looked.values()), default=inf)
        return None if first_s == inf else first_s - now_s

    def rested_in_s(self) -> float | None:
        """Return the seconds until a refused write is tried again; None if no write waits."""
        return self._queue.rested_in_s()

    def _writes_of_statuses(
        self,
        resources: Iterable[tuple[Resource, Said | None]],
        picture: LedgerPicture,
        now_s: float,
        before: dict[Key, _Looked],
    ) -> tuple[dict[Key, Write], dict[Key, _Looked]]:
        """Return the writes that are due, and the inputs of each status."""
        writes: dict[Key, Write] = {}
        looked: dict[Key, _Looked] = {}
        for resource, fault in resources:
            key, shown = resource.key, of_ledger(resource, picture)
            known = before.get(key)
            if known is not None and known.holds(resource, shown, fault, now_s):
                continue
            make = partial(
                status_news, resource, ledger_status(resource, picture), fault, picture.now
            )
            new, until_s = make(resource), inf
            if new is not None:
                rank = Rank.STATUS if is_urgent(new, resource.status) else Rank.FIGURES
                last_s = self._written_s.get(key)
                if rank is Rank.FIGURES and last_s is not None:
                    until_s = last_s + SELDOM_S
                else:
                    call = partial(self._writer.write_status, resource, make)
                    if resource.kind == RUN:
                        call = partial(call, wrote=partial(self._happened, picture.now))
                    writes[key] = Write(resource.shown, rank, call)
            looked[key] = _Looked(resource, shown, fault, until_s)
        return writes, looked

    def mirror(self, resources: Iterable[Resource], seen: Seen, picture: LedgerPicture) -> None:
        """Create, change and delete the objects that only Quorate writes."""
        found = self._mirror.changes(resources, seen, picture)
        for own in found.made:
            shown = f"{own.kind.name} {own.name}"
            self._queue.put(own.key, Write(shown, Rank.OWN_OBJECT, partial(self._create, own)))
        for resource, own in found.changed:
            call = partial(self._writer.write_status, resource, own.new_status)
            self._put(resource, Rank.OWN_OBJECT, call)
        for each in found.deleted:
            self._put(each, Rank.OWN_OBJECT, partial(self._writer.delete, each))

    def _create(self, own: OwnObject) -> None:
        self._writer.create(
            own.kind, own.namespace, own.name, spec=own.spec, status=own.status, above=own.above
        )
