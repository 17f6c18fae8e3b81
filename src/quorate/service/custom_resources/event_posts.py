"""Events of runs in a cluster: one object for each reason of a run, with how often it was told.

``kubectl describe run`` shows them. They are told as well as it goes: nothing depends on them, and
one that the cluster does not take is not told again. A run has as many as there are reasons, and
the same reason is told once in a while only, whatever happens.
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
"""How long the message of an Event may be."""
SELDOM_S: Final = 60.0
"""How often the same reason of one run is told at most."""
RECENT_MAX: Final = 10_000
"""How many reasons that were told are remembered."""
_DIGITS: Final = 16


@dataclass(frozen=True, slots=True)
class Post:
    """An Event of a run that is to be told; ``name`` is the same for one reason of one run."""

    resource: Resource
    told: Transition
    at: str

    @property
    def name(self) -> str:
        """The name of its object."""
        text = f"{self.resource.uid}/{self.told.reason}"
        return f"{self.resource.name[:200]}.{sha256(text.encode()).hexdigest()[:_DIGITS]}"

    @property
    def folder(self) -> str:
        """Where the API server has such objects."""
        return f"/api/v1/namespaces/{self.resource.namespace}/events"

    @property
    def body(self) -> dict[str, Any]:
        """The object when it is told for the first time."""
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
        """Return what changes when it is told for the ``count``-th time."""
        message = self.told.message
        if len(message) > MESSAGE_CHARS_MAX:
            message = f"{message[: MESSAGE_CHARS_MAX - 3]}..."
        return {"message": message, "lastTimestamp": self.at, "count": count}


def write_post(api: KubeApi, post: Post) -> None:
    """Tell an Event, or that it has happened once more; raises ``ClusterError``."""
    try:
        api.create(post.folder, post.body)
    except ClusterRefusedError as error:
        if error.status != CONFLICT:
            raise
        known = api.get(f"{post.folder}/{post.name}")
        api.merge(f"{post.folder}/{post.name}", post.latest(int(known.get("count") or 0) + 1))


@dataclass(slots=True)
class RecentPosts:
    """Which reasons of which runs were told in the last while; ``clock`` returns seconds."""

    clock: Callable[[], float] = monotonic
    _told_s: dict[str, float] = field(default_factory=dict)

    def may_tell(self, post: Post) -> bool:
        """Return whether a reason was not told a moment ago; then it is taken as told now."""
        now_s = self.clock()
        if now_s < self._told_s.get(post.name, -SELDOM_S) + SELDOM_S:
            return False
        self._told_s.pop(post.name, None)
        self._told_s[post.name] = now_s
        if len(self._told_s) > RECENT_MAX:
            del self._told_s[next(iter(self._told_s))]
        return True
