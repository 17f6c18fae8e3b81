"""Pods of workloads on a real API server are found and killed."""

from __future__ import annotations

from typing import Any

import pytest

from quorate.adapters.kubernetes.job_kinds import KINDS, Workload
from quorate.adapters.kubernetes.job_watch import has_pods, kill_pods, without_pods
from tests.kubernetes.engines import Server

pytestmark = pytest.mark.slow

SPACE = "job-pods"
PATH = f"/api/v1/namespaces/{SPACE}/pods"


def pod(name: str, uid: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"controller-uid": uid}},
        "spec": {
            "nodeName": "no-kubelet",
            "terminationGracePeriodSeconds": 31_536_000,
            "containers": [{"name": "w", "image": "i"}],
        },
    }


def test_pods_with_a_long_grace_are_killed_and_those_of_others_are_not(cluster: Server) -> None:
    api = cluster.api()
    space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SPACE}}
    api.create("/api/v1/namespaces", space)
    own, other = (Workload(KINDS[0], SPACE, name, uid) for name, uid in (("a", "1"), ("b", "2")))
    for name, uid in (("a-x", "1"), ("a-y", "1"), ("b-x", "2")):
        api.create(PATH, pod(name, uid))
    api.delete(f"{PATH}/a-x")  # As its controller does when the workload is suspended.
    assert api.get(f"{PATH}/a-x")["metadata"]["deletionGracePeriodSeconds"] == 31_536_000
    kill_pods(api, own)
    for name in ("a-x", "a-y"):
        assert api.get(f"{PATH}/{name}")["metadata"]["deletionGracePeriodSeconds"] == 1
    assert "deletionTimestamp" not in api.get(f"{PATH}/b-x")["metadata"]
    assert has_pods(api, own, ())
    assert not has_pods(api, own, ("no-kubelet",))
    assert has_pods(api, other, ())
    # This name is too long for a label, so the API server refuses to search for it.
    long, none = Workload(KINDS[1], SPACE, "a" * 64, "3"), Workload(KINDS[0], SPACE, "c", "4")
    gone, unknown = without_pods(api, (long, own, none), ())
    assert gone == {str(none)}
    assert len(unknown) == 1
    assert unknown[0].startswith(str(long))
    kill_pods(api, own)
    for name in ("a-x", "a-y", "b-x"):
        api.delete(f"{PATH}/{name}", grace_s=0)
    api.close()
