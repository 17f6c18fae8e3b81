"""Whether the pods of a run are ready, from the reports of kubelets."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from quorate.adapters.kubernetes.pod_gangs import Crew, Pod, pod_of
from quorate.adapters.kubernetes.pod_readiness import (
    STARTED,
    STARTING,
    WAITING,
    HeldUp,
    readiness_of,
)
from quorate.ports.executor_port import Readiness
from tests.unit.adapters.test_pod_gangs import manifests, pods

RUNNING = {"phase": "Running", "containerStatuses": [{"state": {"running": {}}}]}
CREATING = {
    "phase": "Pending",
    "containerStatuses": [{"state": {"waiting": {"reason": "ContainerCreating"}}}],
}


def seen(*statuses: dict[str, Any]) -> Crew:
    """Return the pods of a start with these statuses."""
    found: list[Pod] = []
    for each, manifest, status in zip(pods(), manifests(), statuses, strict=False):
        made = {"uid": each.uid, "resourceVersion": "1"}
        spec = manifest["spec"] | {"nodeName": each.node}
        tree = {"metadata": manifest["metadata"] | made, "spec": spec, "status": status}
        pod = pod_of(tree)
        assert pod is not None
        found.append(pod)
    return Crew(tuple(found))


def test_a_run_works_when_all_its_pods_have_begun() -> None:
    assert readiness_of(seen(RUNNING, RUNNING), "") == STARTED
    ended = {"phase": "Succeeded", "containerStatuses": [{"state": {"terminated": {}}}]}
    assert readiness_of(seen(RUNNING, ended), "") == STARTED
    assert readiness_of(seen(RUNNING, CREATING), "") == STARTING
    assert readiness_of(seen(RUNNING, {}), "") == STARTING
    assert readiness_of(seen(RUNNING), "") == STARTING, "a pod is missing"
    assert readiness_of(Crew(()), "") == STARTING


def test_pods_that_have_to_stop_are_not_at_work() -> None:
    first, second = seen(RUNNING, RUNNING).pods
    assert readiness_of(Crew((first, replace(second, stop_by_ms=1))), "") == STARTING


@pytest.mark.parametrize(
    ("waiting", "reason", "said"),
    [
        (
            {"reason": "ImagePullBackOff", "message": "Back-off pulling image"},
            "ImagePullBackOff",
            "rank 1 on n2: ImagePullBackOff: Back-off pulling image",
        ),
        ({"reason": "what\never"}, WAITING, "rank 1 on n2: what ever"),
    ],
)
def test_what_a_kubelet_says_of_a_container_that_does_not_start_is_the_reason(
    waiting: dict[str, str], reason: str, said: str
) -> None:
    status = {"phase": "Pending", "containerStatuses": [{"state": {"waiting": waiting}}]}
    wanted = Readiness(is_ready=False, reason=reason, message=said)
    assert readiness_of(seen(RUNNING, status), "") == wanted


def test_a_refused_start_says_why() -> None:
    wanted = Readiness(is_ready=False, reason="StartRefused", message="exceeded quota")
    assert readiness_of(Crew(()), "exceeded quota") == wanted


def test_a_run_is_held_up_from_the_first_named_reason_until_it_starts_or_begins_another_life() -> (
    None
):
    held_up = HeldUp()
    pulls = Readiness(is_ready=False, reason="ErrImagePull")
    waits = Readiness(is_ready=False, reason="ImagePullBackOff")
    assert held_up.since_s("r", "one", STARTING, 1.0) is None
    assert held_up.since_s("r", "one", pulls, 2.0) == 2.0
    assert held_up.since_s("r", "one", waits, 3.0) == 2.0
    assert held_up.since_s("r", "two", waits, 4.0) == 4.0
    assert held_up.since_s("r", "two", STARTED, 5.0) is None
    assert held_up.since_s("r", "two", waits, 6.0) == 6.0
    held_up.forget("r")
    assert held_up.since_s("r", "two", waits, 7.0) == 7.0
