"""Events of a run: which changes of its status cause one, and how it is counted."""

from __future__ import annotations

from typing import Any

import pytest

from quorate.adapters.kubernetes.resource_objects import RUN, Resource, resource_of
from quorate.service.custom_resources.event_posts import (
    MESSAGE_CHARS_MAX,
    SELDOM_S,
    Post,
    RecentPosts,
)
from quorate.service.custom_resources.run_transitions import Transition, transitions

AT = "2026-01-01T00:00:00Z"


def status(phase: str, *said: str, **more: Any) -> dict[str, Any]:
    """Return a status; each of ``said`` is ``Type=Status:Reason:message``."""
    conditions = []
    for each in said:
        name, _, rest = each.partition("=")
        holds, reason, message = rest.split(":", 2)
        conditions.append({"type": name, "status": holds, "reason": reason, "message": message})
    return {"phase": phase, "conditions": conditions, **more}


NEW: dict[str, Any] = {}
WAITS = status("Pending", "Accepted=True:Accepted:", "Admitted=False:WaitingForQuota:8 short")
WAITS_MORE = status("Pending", "Accepted=True:Accepted:", "Admitted=False:WaitingForQuota:9 short")
ELSE = status("Pending", "Accepted=True:Accepted:", "Admitted=False:TopologyPlacementFailed:nodes")
HELD = status(
    "Pending",
    "Admitted=False:StartRefused:quota",
    "Evicted=True:PodsReadyTimeout:quota",
    refusal={"code": "start-refused"},
)
RUNS = status("Running", "Admitted=True:Admitted:", gpus=8, leases=["r-0"])
STARTS = status("Running", "Admitted=True:Admitted:", "PodsReady=False:Starting:soon")
WORKS = status("Running", "Admitted=True:Admitted:", "PodsReady=True:Started:")
STUCK = status("Running", "Admitted=True:Admitted:", "PodsReady=False:ImagePullBackOff:no image")
CUT = {**WORKS, "stopping": {"reason": "RandomPreempt", "note": ""}}
DRAINED = {**WORKS, "stopping": {"reason": "Drained", "note": "n1"}}
GIVES_BACK = {**STUCK, "stopping": {"reason": "StartRefused", "note": "no image"}}
CANCELS = {**WORKS, "stopping": {"reason": "Cancelled", "outcome": "Cancelled"}}
DONE = status("Completed", "Admitted=False:Completed:", "Finished=True:Completed:")
FAILED = status("Failed", "Finished=True:Failed:exit code 4")
UNTRIED = status("", "Accepted=False:Pending:Quorate has not tried this resource yet")
BAD = status("", "Accepted=False:Invalid:RANK is set by Quorate")


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        (NEW, WAITS, [("WaitingForQuota", False)]),
        (WAITS, WAITS_MORE, []),
        (WAITS, ELSE, [("TopologyPlacementFailed", False)]),
        (WAITS, RUNS, [("Admitted", False)]),
        (RUNS, STARTS, []),
        (STARTS, WORKS, [("Started", False)]),
        (WAITS, WORKS, [("Admitted", False), ("Started", False)]),
        (STARTS, STUCK, [("ImagePullBackOff", True)]),
        (STUCK, GIVES_BACK, []),
        (GIVES_BACK, HELD, [("Evicted", True)]),
        (STUCK, HELD, [("Evicted", True)]),
        (HELD, WAITS, [("WaitingForQuota", False)]),
        (WORKS, CUT, [("Preempted", True)]),
        (CUT, WAITS, [("WaitingForQuota", False)]),
        (WORKS, DRAINED, [("Stopping", True)]),
        (WORKS, WAITS, [("Requeued", True)]),
        (WORKS, CANCELS, []),
        (WORKS, DONE, [("Completed", False)]),
        (DONE, DONE, []),
        (WORKS, FAILED, [("Failed", True)]),
        (NEW, UNTRIED, []),
        (UNTRIED, WAITS, [("WaitingForQuota", False)]),
        (UNTRIED, BAD, [("Invalid", True)]),
        (NEW, BAD, [("Invalid", True)]),
        (BAD, BAD, []),
    ],
)
def test_each_turn_of_a_run_is_told_once(
    before: dict[str, Any], after: dict[str, Any], told: list[tuple[str, bool]]
) -> None:
    assert [(each.reason, each.is_warning) for each in transitions(before, after)] == told
    assert transitions(after, after) == []


def test_messages_name_the_gpus_the_reason_and_the_end() -> None:
    assert transitions(WAITS, RUNS) == [Transition("Admitted", "the run has 8 GPUs: r-0")]
    (cut,) = transitions(WORKS, DRAINED)
    assert cut.message == "the run releases its GPUs and waits again: Drained: n1"
    (done,) = transitions(WORKS, DONE)
    assert done.message == "the run is completed"
    (failed,) = transitions(WORKS, FAILED)
    assert failed.message == "exit code 4"
    (evicted,) = transitions(STUCK, HELD)
    assert evicted.message == "PodsReadyTimeout: quota"


def resource(uid: str = "u") -> Resource:
    head = {"name": "train", "namespace": "q-rai", "uid": uid, "resourceVersion": "1"}
    return resource_of(RUN, {"metadata": head | {"generation": 1}, "spec": {}})


def test_one_reason_of_one_run_is_one_object_whatever_its_message() -> None:
    first, second = (Post(resource(), Transition("Started", text), AT) for text in "ab")
    assert first.name == second.name
    assert first.name.startswith("train.")
    assert Post(resource("other"), first.told, AT).name != first.name
    assert Post(resource(), Transition("Admitted", "a"), AT).name != first.name


def test_a_long_message_is_cut_and_a_warning_is_one() -> None:
    body = Post(resource(), Transition("Failed", "x" * 5_000, is_warning=True), AT).body
    assert (len(body["message"]), body["type"], body["count"]) == (MESSAGE_CHARS_MAX, "Warning", 1)
    assert body["involvedObject"]["uid"] == "u"


def test_the_same_reason_is_told_once_in_a_while() -> None:
    now_s = [0.0]
    recent = RecentPosts(clock=lambda: now_s[0])
    post, other = (Post(resource(), Transition(word, ""), AT) for word in ("Started", "Admitted"))
    assert [recent.may_tell(post), recent.may_tell(post), recent.may_tell(other)] == [
        True,
        False,
        True,
    ]
    now_s[0] = SELDOM_S
    assert recent.may_tell(post)
