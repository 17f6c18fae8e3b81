"""Derives whether the pods of a run work, and if not, why. Pure.

The kubelet reports why a container does not start: its image cannot be pulled, or a volume is
missing. The API server reports why it refused to create a pod: a quota of the namespace, or a
webhook.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final

from quorate.adapters.kubernetes.kubelet_notes import note_of
from quorate.adapters.kubernetes.pod_gangs import Crew
from quorate.ports.executor_port import Readiness

STARTED: Final = Readiness(is_ready=True, reason="Started")
STARTING: Final = Readiness(is_ready=False, reason="Starting", message="its pods are being started")
START_REFUSED: Final = "StartRefused"
WAITING: Final = "Waiting"
_USUAL: Final = frozenset({"", "ContainerCreating", "PodInitializing"})
"""The kubelet's reasons for a container that is about to start."""
_REASON: Final = re.compile(r"[A-Za-z][A-Za-z0-9]{0,62}")


@dataclass(frozen=True, slots=True)
class HeldUp:
    """Since when the pods of each run's present life have been blocked (see ``lease_book.py``).

    A pod that is still starting does not count as blocked: pulling a large image takes long.
    """

    _since: dict[str, tuple[str, float]] = field(default_factory=dict)

    def since_s(self, run: str, life: str, ready: Readiness, now_s: float) -> float | None:
        """Return since when ``life`` of a run has been blocked; None if it is not blocked."""
        if ready.is_ready or ready.reason == STARTING.reason:
            self._since.pop(run, None)
            return None
        known = self._since.get(run)
        if known is None or known[0] != life:
            known = self._since[run] = (life, now_s)
        return known[1]

    def forget(self, run: str) -> None:
        """Forget a run that stops or has ended."""
        self._since.pop(run, None)


def readiness_of(crew: Crew, refused: str) -> Readiness:
    """Return whether all pods of a run's newest start are working, and if not, why.

    ``refused`` is why the API server refused to create the pods; empty if it did not refuse.
    """
    if refused:
        return Readiness(is_ready=False, reason=START_REFUSED, message=refused)
    pods = crew.newest
    is_whole = bool(pods) and len(pods) == pods[0].record.world
    is_going = all(each.stop_by_ms is None for each in pods)
    if is_whole and is_going and all(each.has_begun for each in pods):
        return STARTED
    for each in pods:
        if each.waiting and each.waiting not in _USUAL:
            word = each.waiting if _REASON.fullmatch(each.waiting) else WAITING
            where = f"rank {each.record.rank} on {each.node or 'no node'}"
            return Readiness(
                is_ready=False, reason=word, message=note_of(where, each.waiting, each.waiting_note)
            )
    return STARTING
