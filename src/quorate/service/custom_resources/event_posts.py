"""Kubernetes Events of runs: one object for each reason of a run, with a count.

``kubectl describe run`` shows these Events. Nothing depends on these Events, and an Event that the
cluster refuses is not sent again. A run has at most one Event per reason. An Event is written again
only after some time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import sha256
from time import monotonic
from typing import Any, Final

from quorate.adapters.kubernetes.kube_api import CONFLICT, KubeApi
from quorate.adapters.kubernetes.resource_objects import Resource
from quorate.model.api_version import API_VERSION
from quorate.ports.errors import ClusterRefusedError
from quorate.service.custom_resources.run_transitions import Transition

COMPONENT: Final = "quorate"
MESSAGE_CHARS_MAX: Final = 1_024
"""The longest message of an Event."""
SELDOM_S: Final = 60.0
"""The shortest time between two writes for the same reason of one run."""
RECENT_MAX: Final = 10_000
"""How many written Events are remembered."""
_DIGITS: Final = 16


@dataclass(frozen=True, slots=True)
class Post:
    """An Event to write for a run; its ``name`` depends only on the run and the reason."""

    resource: Resource
    told: Transition
    at: str

    @property
    def name(self) -> str:
        """The name of the Event object."""
        text = f"{self.resource.uid}/{self.told.reason}"
        return f"{self.resource.name[:200]}.{sha256(text.encode()).hexdigest()[:_DIGITS]}"

    @property
    def folder(self) -> str:
        """The API path of Events."""
        return f"/api/v1/namespaces/{self.resource.namespace}/events"

    @property
    def body(self) -> dict[str, Any]:
        """The Event object as it is first written."""
        resource, told = self.resource, self.told
        return {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": self.name, "namespace": resource.namespace},
            "involvedObject": {
                "apiVersion": API_VERSION,
                "kind": resource.kind.name,
                "name": resource.name,
                "namespace": resource.namespace,
                "uid": resource.uid,
            },
            "reason": told.reason,
            "type": "Warning" if told.is_warning else "Normal",
            "source": {"component": COMPONENT},
            "reportingComponent": COMPONENT,
            "firstTimestamp": self.at,
            **self.latest(1),
        }

    def latest(self, count: int) -> dict[str, Any]:
        """Return the fields that change when the Event is written for the ``count``-th time."""
        message = self.told.message
        if len(message) > MESSAGE_CHARS_MAX:
            message = f"{message[: MESSAGE_CHARS_MAX - 3]}..."
        return {"message": message, "lastTimestamp": self.at, "count": count}


def write_post(api: KubeApi, post: Post) -> None:
    """Create an Event, or increase its count; raises ``ClusterError``."""
    try:
        api.create(post.folder, post.body)
    except ClusterRefusedError as error:
        if error.status != CONFLICT:
            raise
        known = api.get(f"{post.folder}/{post.name}")
        api.merge(f"{post.folder}/{post.name}", post.latest(int(known.get("count") or 0) + 1))


@dataclass(slots=True)
class RecentPosts:
    """The Events that were written lately, by name; ``clock`` returns seconds."""

    clock: Callable[[], float] = monotonic
    _told_s: dict[str, float] = field(default_factory=dict)

    def may_tell(self, post: Post) -> bool:
        """Return whether an Event may be written now; if so, record it as written."""
        now_s = self.clock()
        if now_s < self._told_s.get(post.name, -SELDOM_S) + SELDOM_S:
            return False
        self._told_s.pop(post.name, None)
        self._told_s[post.name] = now_s
        if len(self._told_s) > RECENT_MAX:
            del self._told_s[next(iter(self._told_s))]
        return True
