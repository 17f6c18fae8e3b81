"""The state that follows from pods: unfinished starts, failures, exits, and deleted pods."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from quorate.adapters.kubernetes.kubelet_notes import NOTE_CHARS_MAX, note_of
from quorate.adapters.kubernetes.pod_gangs import Crew, Pod, pod_of
from quorate.adapters.kubernetes.pod_manifest import (
    GPU,
    Placement,
    pod_manifests,
    service_manifest,
)
from quorate.keeper.wanted import Exited, Part, Wanted, Work
from quorate.model.pod_template import (
    PodTemplate,
    TaintEffect,
    Toleration,
    Volume,
    VolumeSource,
)
from quorate.model.specs import Processes, Run
from quorate.testing.builders import run

SLOTS = (("n1", 0), ("n1", 1), ("n2", 5))
PLACE = Placement(ledger="l", namespace="quorate-team", run="r")


def spec(processes: Processes = Processes.NODE) -> Run:
    template = PodTemplate(
        volumes=(
            Volume(mount_path="/data", source=VolumeSource.CLAIM, name="d", read_only=True),
            Volume(mount_path="/cache", source=VolumeSource.EMPTY_DIR, name="Memory"),
        ),
        tolerations=(Toleration(key="gpu", value="x", effect=TaintEffect.NO_SCHEDULE),),
        cpu="8",
    )
    return run(
        "r",
        3,
        image="i",
        command=("train",),
        env=(("SEED", "7"),),
        processes=processes,
        pod_template=template,
    )


def manifests(processes: Processes = Processes.NODE) -> list[dict[str, Any]]:
    work = Work(
        run="r", command=(), env={}, working_dir="", processes=processes.value, grace_ms=1_500
    )
    wanted = Wanted(life="L", work=work, parts=(Part(lease="r/0", bundle=0, slots=SLOTS),))
    return pod_manifests(PLACE, spec(processes), wanted, 2)


def pods(processes: Processes = Processes.NODE) -> list[Pod]:
    """Return the pods of one start as the API server has them: all created and bound."""
    found: list[Pod] = []
    for number, manifest in enumerate(manifests(processes)):
        made = {"uid": f"u{number}", "resourceVersion": str(number + 1)}
        node = manifest["spec"]["affinity"]["nodeAffinity"]
        (term,) = node["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
        (name,) = term["matchFields"][0]["values"]
        pod = pod_of(
            manifest
            | {"metadata": manifest["metadata"] | made}
            | {"spec": manifest["spec"] | {"nodeName": name}}
        )
        assert pod is not None
        found.append(pod)
    return found


def crew(*members: Pod) -> Crew:
    return Crew(members)


def test_a_pod_for_each_node_asks_for_its_gpus_and_finds_the_others() -> None:
    first, second = manifests()
    assert [each["metadata"]["name"] for each in (first, second)] == ["run-r-2-0", "run-r-2-1"]
    container = second["spec"]["containers"][0]
    assert container["resources"] == {"requests": {"cpu": "8"}, "limits": {GPU: "1"}}
    env = {each["name"]: each["value"] for each in container["env"]}
    assert env["MASTER_ADDR"] == "run-r-2-0.run-r.quorate-team.svc"
    assert (env["RANK"], env["WORLD_SIZE"], env["NODE_RANK"], env["NNODES"]) == ("1", "2", "1", "2")
    assert (env["LOCAL_RANK"], env["SEED"], env["QUORATE_RUN"]) == ("0", "7", "r")
    assert "CUDA_VISIBLE_DEVICES" not in env
    assert second["spec"]["subdomain"] == service_manifest(PLACE, 2)["metadata"]["name"]
    assert second["spec"]["terminationGracePeriodSeconds"] == 2
    assert second["spec"]["volumes"] == [
        {"name": "volume-0", "persistentVolumeClaim": {"claimName": "d"}},
        {"name": "volume-1", "emptyDir": {"medium": "Memory"}},
    ]
    assert second["spec"]["tolerations"] == [
        {"key": "gpu", "operator": "Equal", "value": "x", "effect": "NoSchedule"}
    ]


@pytest.mark.parametrize(
    ("processes", "gpus"), [(Processes.GPU, ["1", "1", "1"]), (Processes.RUN, ["2"])]
)
def test_a_pod_asks_for_the_gpus_of_its_own_node(processes: Processes, gpus: list[str]) -> None:
    found = [each["spec"]["containers"][0]["resources"]["limits"] for each in manifests(processes)]
    assert found == [{GPU: count} for count in gpus]


def test_an_object_that_quorate_did_not_make_is_no_pod_of_a_run() -> None:
    tree: dict[str, Any] = {"metadata": {"name": "x", "namespace": "y"}}
    assert pod_of(tree) is None
    assert pod_of({"metadata": {"annotations": {"quorate.dev/pod": "{"}}}) is None


def test_pods_that_work_are_a_gang_on_all_their_slots() -> None:
    gang = crew(*pods()).gang
    assert gang is not None
    assert (gang.life, gang.slots, gang.stop_by_ms) == ("L", frozenset(SLOTS), None)


def test_a_start_goes_on_until_all_pods_are_there_and_bound() -> None:
    first, second = (replace(each, node="") for each in pods())
    assert crew(first).is_starting
    assert crew(first, second).is_starting
    bound = pods()
    assert crew(bound[0], second).is_starting
    assert not crew(*bound).is_starting
    # Bound and alone, so the other pod existed and was deleted.
    assert not crew(bound[0]).is_starting
    assert not crew(replace(first, stop_by_ms=1), second).is_starting


def test_a_run_has_exited_well_when_all_its_pods_have() -> None:
    first, second = (replace(each, code=0) for each in pods())
    assert crew(first, second).exited == Exited(life="L", code=0, note="")
    assert crew(first, second).gang is None
    assert crew(first).exited is None
    assert crew(first, replace(second, code=None)).exited is None


def test_the_first_failure_is_the_exit_once_no_pod_works() -> None:
    first, second = pods()
    late = replace(first, code=1, finished_ms=9)
    early = replace(second, code=3, finished_ms=5, note="Error")
    found = crew(late, early).exited
    assert found == Exited(life="L", code=3, note="rank 1 on n2 exited with 3: Error")
    assert crew(first, early).exited is None
    assert crew(first, early).failed == early
    assert crew(early).exited == found


def test_a_pod_that_was_told_to_stop_does_not_fail() -> None:
    first, second = (replace(each, stop_by_ms=99, grace_s=30) for each in pods())
    gang = crew(first, second).gang
    assert gang is not None
    assert (gang.stop_by_ms, gang.is_killed) == (99, False)
    ended = replace(first, code=137)
    assert crew(ended, second).failed is None
    assert crew(ended).exited is None
    killed = crew(replace(first, grace_s=1), replace(second, grace_s=0)).gang
    assert killed is not None
    assert killed.is_killed


def test_a_gang_is_told_to_stop_only_when_all_its_pods_are() -> None:
    first, second = pods()
    gang = crew(replace(first, stop_by_ms=99), second).gang
    assert gang is not None
    assert gang.stop_by_ms is None


def test_a_pod_for_the_whole_run_is_hit_by_the_loss_of_its_own_node_alone() -> None:
    (pod,) = pods(Processes.RUN)
    assert pod.is_on([("n1", 1)])
    assert not pod.is_on([("n2", 5)])


def test_a_pod_of_a_round_is_told_for_how_many_steps_and_how_long() -> None:
    work = Work(
        run="r",
        command=(),
        env={},
        working_dir="",
        processes="node",
        grace_ms=1_500,
        round_steps=900,
        round_ms=360_000,
        round_until_ms=1_700_000_360_000,
    )
    wanted = Wanted(life="L", work=work, parts=(Part(lease="r/0", bundle=0, slots=SLOTS),))
    for pod in pod_manifests(PLACE, spec(), wanted, 2):
        (container,) = pod["spec"]["containers"]
        env = {each["name"]: each.get("value") for each in container["env"]}
        assert env["QUORATE_LEASE_STEPS"] == "900"
        assert env["QUORATE_LEASE_SECONDS"] == "360"
        assert env["QUORATE_LEASE_UNTIL_MS"] == "1700000360000"


def test_the_last_message_of_a_container_is_one_short_line() -> None:
    message = "\x1b]0;owned\x07\x1b[2J" + "line\nrm -rf\r\u202e" * 100
    ended = {"reason": "Error", "message": message, "exitCode": 1}
    status = {"phase": "Failed", "containerStatuses": [{"state": {"terminated": ended}}]}
    manifest = manifests()[0]
    made = {"uid": "u", "resourceVersion": "1"}
    pod = pod_of({**manifest, "metadata": manifest["metadata"] | made, "status": status})
    assert pod is not None
    assert pod.note.startswith("Error: ]0;owned [2Jline rm -rf")
    assert pod.note.isprintable()
    assert len(pod.note) <= NOTE_CHARS_MAX
    assert note_of(None, 5, " \n ") == ""
    assert note_of("OOMKilled", None) == "OOMKilled"
