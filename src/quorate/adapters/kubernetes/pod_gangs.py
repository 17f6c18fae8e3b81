"""Derives from the pods of a run whether the run works, stops, or has exited. Pure.

The exit code of a pod that Quorate has stopped is ignored. If any other pod ends with a code other
than 0, the pod and its run have failed. If anyone but Quorate deletes a pod, too few pods of the
run are left, so the executor stops the remaining pods and starts all pods again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import msgspec

from quorate.adapters.kubernetes.kubelet_notes import note_of
from quorate.adapters.kubernetes.pod_manifest import RECORD, STEP, PodRecord
from quorate.keeper.next_step import Gang
from quorate.keeper.wanted import Exited, Part, Slot, Wanted, Work
from quorate.model.amounts import SECOND_MS
from quorate.prepared_types import prepared

CODE_LOST: Final = 137
"""The exit code for a pod that ended without an exit code: evicted, or not admitted by its node."""
STEP_DIGITS_MAX: Final = 15
"""The longest text of a reported step; a longer text is ignored."""
KILLED_S: Final = 1
"""The grace period of a killed pod: with 0 the API server would drop a pod that still works."""
_OVER: Final = frozenset({"Succeeded", "Failed"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Pod:
    """One pod as the API server has it.

    ``stop_by_ms`` is None until the pod is ordered to stop; ``grace_s`` is its grace period.
    ``code`` is the exit code of its container; None while the container has not ended. ``node`` is
    empty until the pod is bound. ``waiting`` is the kubelet's reason why the container of the pod
    has not started.
    """

    record: PodRecord
    namespace: str
    name: str
    uid: str
    version: int
    node: str
    code: int | None
    note: str
    finished_ms: int
    stop_by_ms: int | None
    grace_s: int
    step: int | None
    has_begun: bool
    waiting: str
    waiting_note: str

    @property
    def is_over(self) -> bool:
        """Whether all containers of the pod have ended."""
        return self.code is not None

    @property
    def is_killed(self) -> bool:
        """Whether the pod was ordered to stop immediately."""
        return self.stop_by_ms is not None and self.grace_s <= KILLED_S

    @property
    def has_failed(self) -> bool:
        """Whether the pod failed although it was not ordered to stop."""
        return self.code not in (None, 0) and self.stop_by_ms is None

    @property
    def path(self) -> str:
        """The API path of the pod."""
        return f"/api/v1/namespaces/{self.namespace}/pods/{self.name}"

    def is_on(self, slots: Iterable[Slot]) -> bool:
        """Return whether the pod has one of ``slots``; only slots on the pod's first node count."""
        own = self.record.slots[0][0]
        return any(slot in self.record.slots for slot in slots if slot[0] == own)


def pod_of(tree: Mapping[str, Any]) -> Pod | None:
    """Return the pod in a Pod object; None if Quorate did not create the pod."""
    metadata = tree["metadata"]
    annotations = metadata.get("annotations") or {}
    try:
        record = msgspec.json.decode(annotations[RECORD], type=prepared(PodRecord))
    except (KeyError, TypeError, msgspec.MsgspecError):
        return None
    if not record.slots:
        return None
    code, note, finished_ms = _exit_of(tree.get("status") or {})
    has_begun, waiting, waiting_note = _begun_of(tree.get("status") or {})
    deleted = metadata.get("deletionTimestamp")
    step = annotations.get(STEP, "")
    return Pod(
        record=record,
        namespace=metadata["namespace"],
        name=metadata["name"],
        uid=metadata["uid"],
        version=int(metadata["resourceVersion"]),
        node=(tree.get("spec") or {}).get("nodeName") or "",
        code=code,
        note=note,
        finished_ms=finished_ms,
        # The API server gives times in whole seconds. The end of the second is used, because a
        # deadline must not come too early.
        stop_by_ms=None if deleted is None else _ms(deleted) + SECOND_MS - 1,
        grace_s=int(metadata.get("deletionGracePeriodSeconds") or 0),
        step=int(step) if step.isdecimal() and len(step) <= STEP_DIGITS_MAX else None,
        has_begun=has_begun,
        waiting=waiting,
        waiting_note=waiting_note,
    )


def _exit_of(status: Mapping[str, Any]) -> tuple[int | None, str, int]:
    """Return the exit code, reason and end time of a pod; the code is None while the pod works."""
    phase = status.get("phase")
    if phase not in _OVER:
        return None, "", 0
    for each in status.get("containerStatuses") or []:
        ended = (each.get("state") or {}).get("terminated")
        if ended is not None:
            note = note_of(ended.get("reason"), ended.get("message"))
            code = int(ended.get("exitCode", CODE_LOST))
            finished = ended.get("finishedAt")
            is_well = code == 0 and phase == "Succeeded"
            return (
                0 if is_well else code or CODE_LOST,
                note,
                0 if finished is None else _ms(finished),
            )
    note = note_of(status.get("reason"), status.get("message"))
    return (0 if phase == "Succeeded" else CODE_LOST), note, 0


def _begun_of(status: Mapping[str, Any]) -> tuple[bool, str, str]:
    """Return whether the container of a pod has started; if not, also the reason and a message."""
    for each in status.get("containerStatuses") or []:
        state = each.get("state") or {}
        if "running" in state or "terminated" in state:
            return True, "", ""
        waiting = state.get("waiting") or {}
        return False, str(waiting.get("reason") or ""), str(waiting.get("message") or "")
    # The status of a pod that a kubelet refuses, or evicts early, names no container.
    return status.get("phase") in ("Running", "Succeeded", "Failed"), "", ""


def _ms(text: str) -> int:
    return int(datetime.fromisoformat(text).timestamp() * SECOND_MS)


@dataclass(frozen=True, slots=True)
class Crew:
    """All pods of one run."""

    pods: tuple[Pod, ...]

    @property
    def newest(self) -> list[Pod]:
        """The pods of the last start, in order of rank."""
        newest = [each for each in self.pods if each.record.generation == self.generation]
        return sorted(newest, key=lambda pod: pod.record.rank)

    @property
    def generation(self) -> int:
        """The number of the last start; 0 if there are no pods."""
        return max((each.record.generation for each in self.pods), default=0)

    @property
    def live(self) -> list[Pod]:
        """The pods that may still work."""
        return [each for each in self.pods if not each.is_over]

    @property
    def failed(self) -> Pod | None:
        """The first pod of the last start that has failed."""
        failed = [each for each in self.newest if each.has_failed]
        return min(failed, key=lambda pod: (pod.finished_ms, pod.record.rank), default=None)

    @property
    def is_starting(self) -> bool:
        """Whether pods of the last start must still be created or bound.

        The result is False if one of these pods has ended or was ordered to stop. Pods are bound
        only when all of them exist. So if one pod is bound and another pod is missing, the missing
        pod was deleted; the result is then False, too.
        """
        newest = self.newest
        if not newest or any(each.is_over or each.stop_by_ms is not None for each in newest):
            return False
        if len(newest) == newest[0].record.world:
            return any(not each.node for each in newest)
        return not any(each.node for each in newest)

    @property
    def gang(self) -> Gang | None:
        """The pods as processes of one start; None if no pod works any longer."""
        live = self.live
        if not live:
            return None
        newest = self.newest
        counted = {each.uid: each for each in (*live, *newest)}.values()
        stops = [each.stop_by_ms for each in live if each.stop_by_ms is not None]
        is_told = len(stops) == len(live)
        return Gang(
            life=newest[0].record.life,
            slots=frozenset(slot for each in counted for slot in each.record.slots),
            stop_by_ms=min(stops) if is_told else None,
            is_killed=all(each.is_killed for each in live),
        )

    @property
    def exited(self) -> Exited | None:
        """How the last start ended, if it ended by itself; else None."""
        newest = self.newest
        if self.live or not newest:
            return None
        failed = self.failed
        if failed is not None:
            where = f"rank {failed.record.rank} on {failed.node or 'no node'}"
            note = f"{where} exited with {failed.code}" + (
                f": {failed.note}" if failed.note else ""
            )
            return Exited(life=failed.record.life, code=failed.code or CODE_LOST, note=note)
        is_done = len(newest) == newest[0].record.world and all(each.code == 0 for each in newest)
        return Exited(life=newest[0].record.life, code=0, note="") if is_done else None

    @property
    def finished_ms(self) -> int:
        """The latest time at which a pod of the last start ended; 0 if it is unknown."""
        return max((each.finished_ms for each in self.newest), default=0)

    @property
    def wanted_before(self) -> Wanted | None:
        """The leases and the life of the last start, as its pods record them; None without pods."""
        newest = self.newest
        if not newest:
            return None
        work = Work(
            run=newest[0].record.run,
            command=(),
            env={},
            working_dir="",
            processes="gpu",
            grace_ms=0,
        )
        parts = tuple(Part(lease=each, bundle=0, slots=()) for each in newest[0].record.leases)
        return Wanted(
            life=newest[0].record.life, work=work, parts=parts, nonce=newest[0].record.nonce
        )
