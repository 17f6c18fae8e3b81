"""Behaviour of a cluster beyond the port: quotas, refusals, lost connections, lost nodes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import count
from threading import Event
from time import monotonic
from typing import Any
from urllib.parse import urlsplit

import msgspec
import pytest

from quorate.adapters.kubernetes.cluster_owner import CLUSTER, OWNER_CONFIG, TERM
from quorate.adapters.kubernetes.exec_kubernetes import KubernetesExecutor
from quorate.adapters.kubernetes.kube_api import GONE, KubeApi
from quorate.adapters.kubernetes.object_names import Namespaces
from quorate.adapters.kubernetes.pod_manifest import (
    GPU,
    SERVICE_RECORD,
    STEP,
    Placement,
    ServiceRecord,
)
from quorate.adapters.kubernetes.pod_orders import PodOrders
from quorate.adapters.kubernetes.pod_watch import PODS
from quorate.adapters.kubernetes.run_steps import CODE_INVALID
from quorate.adapters.kubernetes.start_refusals import PAUSE_S
from quorate.model.events import EndReason, StartReason
from quorate.model.specs import Processes, Run
from quorate.ports.errors import ClusterRefusedError, OldTermError, WorkFolderError
from quorate.ports.executor_port import (
    EndLease,
    FenceNode,
    LeaseGone,
    RunExited,
    StartLease,
    StopLease,
)
from quorate.testing import builders
from quorate.testing.lease_orders import lease_started, start_lease
from tests.bounds import until
from tests.kubernetes.cut_line import CutLine
from tests.kubernetes.engines import Server
from tests.kubernetes.kubelet import Kubelet

pytestmark = pytest.mark.slow

_NUMBER = count()
LATE_MS = 4_102_444_800_000


class Place:
    """An executor on a cluster with separate namespaces, and a kubelet."""

    def __init__(self, cluster: Server, own: str) -> None:
        self.cluster = cluster
        self.admin = cluster.api()
        self.names = Namespaces(template=f"{own}-{{owner}}", home=f"{own}-home")
        self.space = self.names.of(builders.run("r", 1))
        self.kubelet = Kubelet(cluster.api(), self.space)
        self.ledger = own
        for name in (self.names.home, self.space):
            body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
            self.admin.create("/api/v1/namespaces", body)
        self.line = CutLine(urlsplit(cluster.access.server).port or 0)
        self.kubelet.start()
        self.executor = self.opened()
        self.term = 0

    def opened(self) -> KubernetesExecutor:
        access = replace(self.cluster.access, server=f"https://127.0.0.1:{self.line.port}")
        executor = KubernetesExecutor(KubeApi(access), self.names)
        executor.belong_to(self.ledger)
        return executor

    def close(self) -> None:
        self.line.mend()
        self.executor.resume([], term=self.term)
        until(lambda: not self.pods(), "no pod is left")
        self.executor.close()
        self.kubelet.close()
        self.line.close()
        self.admin.close()

    def pods(self) -> list[dict[str, Any]]:
        found = self.admin.list_all(f"/api/v1/namespaces/{self.space}/pods")[0]
        return sorted(found, key=lambda pod: str(pod["metadata"]["name"]))

    def exit_of(self, run: str) -> RunExited | None:
        for report in self.executor.reports():
            if isinstance(report, RunExited) and report.run == run:
                return report
        return None


@pytest.fixture
def place(cluster: Server) -> Iterator[Place]:
    found = Place(cluster, f"p{os.getpid()}-{next(_NUMBER)}")
    yield found
    found.close()


def wide(name: str = "r", number: int = 0, *command: str, image: str = "played") -> StartLease:
    """Return the start of a run with a pod on each of two nodes."""
    spec = builders.run(
        name, 3, command=command or ("stays",), image=image, processes=Processes.NODE
    )
    fact = lease_started(f"{name}/{number}", {"n1": [0, 1], "n2": [4]})
    return start_lease(spec, fact)


def test_pods_are_bound_to_the_nodes_that_were_decided_and_share_a_headless_service(
    place: Place,
) -> None:
    place.executor.resume([wide()])
    until(lambda: len(place.kubelet.at_work("r")) == 2, "both pods work")
    first, second = place.pods()
    assert [each["spec"]["nodeName"] for each in (first, second)] == ["n1", "n2"]
    limits = [each["spec"]["containers"][0]["resources"]["limits"] for each in (first, second)]
    assert limits == [{"nvidia.com/gpu": "2"}, {"nvidia.com/gpu": "1"}]
    (service,) = place.admin.list_all(f"/api/v1/namespaces/{place.space}/services")[0]
    assert service["spec"]["clusterIP"] == "None"
    assert service["metadata"]["name"] == first["spec"]["subdomain"]
    place.executor.carry_out([EndLease("r/0", EndReason.END)])
    until(
        lambda: not place.admin.list_all(f"/api/v1/namespaces/{place.space}/services")[0],
        "the Service goes with the run",
    )


def test_service_of_an_older_term_does_nothing_in_the_cluster_any_more(place: Place) -> None:
    old = place.executor
    old.resume([wide()], term=1)
    until(lambda: len(place.kubelet.at_work("r")) == 2, "both pods work")
    before = place.pods()
    place.executor, place.term = place.opened(), 2
    place.executor.resume([wide()], term=2, is_whole=False)
    place.executor.resume([wide()], term=2)
    path = f"/api/v1/namespaces/{place.names.home}/configmaps/{OWNER_CONFIG}"
    until(lambda: place.admin.get(path)["data"].get(TERM) == "2", "the new term is recorded")
    # The old service has not read this pod yet, and finds it before it does anything.
    old.carry_out([EndLease("r/0", EndReason.END), wide("s")], term=1)
    until(lambda: "a leader of term 2 has taken over" in old.trouble, "it is deposed")
    with pytest.raises(OldTermError):
        old.carry_out([wide("t")], term=1)
    old.close()
    assert [each["metadata"]["uid"] for each in place.pods()] == [
        each["metadata"]["uid"] for each in before
    ]
    assert len(place.kubelet.at_work("r")) == 2


def test_a_run_that_a_quota_of_its_namespace_halves_does_not_start_until_all_of_it_may(
    place: Place,
) -> None:
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "pods"},
        "spec": {"hard": {"pods": "1"}},
    }
    path = f"/api/v1/namespaces/{place.space}/resourcequotas"
    place.admin.create(path, quota)
    # No quota controller runs here, so the test sets the first count.
    status = {"hard": {"pods": "1"}, "used": {"pods": "0"}}
    place.admin.merge(f"{path}/pods/status", {"status": status})
    place.executor.resume([wide()])
    until(lambda: place.executor._steps.refusals.why("r"), "the quota is noticed")
    assert "exceeded quota" in place.executor._steps.refusals.why("r")
    until(lambda: not place.pods(), "the pod that was made is gone again")
    assert place.kubelet.started == []
    place.admin.delete(f"{path}/pods")
    until(lambda: len(place.kubelet.at_work("r")) == 2, "both pods work")
    assert place.kubelet.started == ["r", "r"]


def test_a_start_that_is_refused_halfway_is_tried_again_after_a_pause_and_not_before(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    most = {"type": "Container", "max": {GPU: "1"}}
    limits = {
        "apiVersion": "v1",
        "kind": "LimitRange",
        "metadata": {"name": "gpus"},
        "spec": {"limits": [most]},
    }
    path = f"/api/v1/namespaces/{place.space}/limitranges"
    place.admin.create(path, limits)
    # The pod of rank 0 is created and deleted at each attempt: the executor sees both.
    spec = builders.run("r", 3, command=("stays",), image="played", processes=Processes.NODE)
    order = start_lease(spec, lease_started("r/0", {"n1": [0], "n2": [4, 5]}))
    began_s = monotonic()
    place.executor.resume([order])
    until(lambda: _starts(place) >= 2, "it was started twice")
    assert monotonic() - began_s >= PAUSE_S
    assert "maximum nvidia.com/gpu usage per Container is 1" in place.executor._steps.refusals.why(
        "r"
    )
    place.admin.delete(f"{path}/gpus")
    until(lambda: len(place.kubelet.at_work("r")) == 2, "both pods work")
    # The kubelet may see the last pod before the executor that created it.
    until(lambda: place.executor._steps.refusals.why("r") == "", "nothing is refused any more")
    said = [each for each in caplog.messages if "could not be started" in each]
    assert len(said) == 1, said


def _starts(place: Place) -> int:
    """Return how often the run ``r`` was started, from its Service."""
    for each in place.admin.list_all(f"/api/v1/namespaces/{place.space}/services")[0]:
        text = each["metadata"]["annotations"][SERVICE_RECORD]
        return msgspec.json.decode(text, type=ServiceRecord).generation
    return 0


def test_a_pod_that_others_delete_at_the_same_time_is_gone(place: Place) -> None:
    """An API server answers some of these requests with the pod, which has no version any more."""
    path = f"/api/v1/namespaces/{place.space}/pods"
    body = {
        "apiVersion": "v1",
        "kind": "Pod",
        "spec": {"schedulerName": "none", "containers": [{"name": "c", "image": "i"}]},
    }
    apis = [place.cluster.api() for _ in range(4)]
    with ThreadPoolExecutor(len(apis)) as threads:
        for number in range(20):
            name = f"raced-{number}"
            apis[0].create(path, body | {"metadata": {"name": name}})
            calls = [threads.submit(each.delete, f"{path}/{name}", grace_s=1) for each in apis]
            answers = [answer for call in calls if (answer := call.result()) is not None]
            pods = [each for each in answers if each["kind"] == "Pod"]
            assert all("resourceVersion" in each["metadata"] for each in pods), pods
    for each in apis:
        each.close()


def test_a_bug_that_one_run_brings_about_keeps_no_other_from_its_orders(
    place: Place, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    start = PodOrders.start

    def break_down(own: PodOrders, at: Placement, run: Run, *more: Any) -> None:
        if run.name == "broken":
            raise KeyError("a bug")
        start(own, at, run, *more)

    monkeypatch.setattr(PodOrders, "start", break_down)
    place.executor.resume([wide("broken"), wide()])
    until(lambda: len(place.kubelet.at_work("r")) == 2, "both pods of the other one work")
    until(lambda: "a bug keeps run broken" in place.executor.trouble, "it says so")
    place.executor.carry_out([EndLease("broken/0", EndReason.CANCELLED)])
    until(lambda: place.executor.trouble == "", "it is over")
    assert sum("a bug keeps run broken" in each for each in caplog.messages) == 1


def test_a_run_whose_pods_are_not_accepted_fails_and_says_why(place: Place) -> None:
    order = wide()
    spec = builders.run("r", 3, command=("stays",), image="played", env=(("A=B", "1"),))
    place.executor.resume([replace(order, run=spec)])
    found = until(lambda: place.exit_of("r"), "the run exits")
    assert found.code == CODE_INVALID
    assert "does not accept its pods" in found.note
    assert place.pods() == []


def test_a_pod_that_fails_ends_the_others_and_its_code_is_the_runs(place: Place) -> None:
    place.executor.resume([wide("r", 0, "fails", "50", "9")])
    found = until(lambda: place.exit_of("r"), "the run exits")
    assert found.code == 9
    assert "exited with 9: Error" in found.note


def test_pods_that_someone_deletes_start_anew_together(place: Place) -> None:
    place.executor.resume([wide()])
    until(lambda: len(place.kubelet.at_work("r")) == 2, "both pods work")
    name = place.pods()[1]["metadata"]["name"]
    place.admin.delete(f"/api/v1/namespaces/{place.space}/pods/{name}", grace_s=0)
    until(lambda: place.kubelet.started.count("r") == 4, "both pods start anew")
    until(lambda: len(place.kubelet.at_work("r")) == 2, "both pods work")
    assert [each["metadata"]["name"] for each in place.pods()] == ["run-r-2-0", "run-r-2-1"]
    assert list(place.executor.reports()) == []


def test_pods_on_a_node_that_is_dead_are_given_up_and_the_run_starts_elsewhere(
    place: Place,
) -> None:
    place.executor.resume([wide()])
    until(lambda: len(place.kubelet.at_work("r")) == 2, "both pods work")
    place.kubelet.failed_nodes.add("n2")
    place.executor.carry_out([FenceNode("n2"), EndLease("r/0", EndReason.FAIL)])
    again = wide("r", 1)
    fact = lease_started("r/1", {"n1": [0, 1], "n3": [0]})
    place.executor.carry_out([replace(again, lease=fact)])

    def nodes() -> bool:
        return [each["spec"].get("nodeName") for each in place.pods()] == ["n1", "n3"]

    until(nodes, "the run is on the nodes that it has now")


def test_pods_on_a_dead_node_are_given_up_by_the_next_service_as_well(place: Place) -> None:
    place.executor.resume([wide()])
    until(lambda: len(place.kubelet.at_work("r")) == 2, "both pods work")
    place.kubelet.failed_nodes |= {"n1", "n2"}
    place.executor.close()
    place.executor = place.opened()
    # Its leases ended with its nodes, and by then the previous service was killed.
    place.executor.resume([FenceNode("n1"), FenceNode("n2")])
    until(lambda: place.pods() == [], "no pod of the run is left", tell=place.pods)


def test_orders_and_ends_while_the_api_server_is_away_are_made_up_for(place: Place) -> None:
    woken = Event()
    place.executor.listen(woken.set)
    place.executor.resume([wide("a", 0, "ends", "300"), wide("b"), wide("c")])
    until(lambda: len(place.kubelet.at_work("b")) == 2, "b works")
    until(lambda: len(place.kubelet.started) == 6, "all pods were started")
    place.line.cut()
    place.executor.carry_out([StopLease("b/0", LATE_MS), wide("d")])
    until(lambda: place.executor.trouble, "the executor says that the cluster does not answer")
    assert place.kubelet.at_work("b")
    place.line.mend()
    until(lambda: LeaseGone("b/0") in place.executor.reports(), "b has gone")
    until(lambda: len(place.kubelet.at_work("d")) == 2, "d works")
    found = until(lambda: place.exit_of("a"), "the exit of a is reported")
    assert found.code == 0
    until(lambda: not place.executor.trouble, "the trouble is over")
    assert len(place.kubelet.at_work("c")) == 2
    assert sorted(place.kubelet.started) == ["a", "a", "b", "b", "c", "c", "d", "d"]
    assert woken.is_set()


def test_a_watch_from_too_far_back_is_gone_and_the_pods_are_listed_anew(place: Place) -> None:
    old = place.admin.list_all(PODS)[1]
    place.executor.resume([wide()])
    until(lambda: len(place.kubelet.at_work("r")) == 2, "both pods work")
    place.cluster.compact(place.admin.list_all(PODS)[1])
    with pytest.raises(ClusterRefusedError) as told:
        list(place.admin.watch(PODS, old, for_s=1))
    assert told.value.status == GONE
    watch = place.executor._watch
    assert watch is not None
    watch._watch._version = old
    place.line.cut()
    place.line.mend()
    place.executor.carry_out([StopLease("r/0", LATE_MS)])
    until(lambda: LeaseGone("r/0") in place.executor.reports(), "r has gone")


def test_pods_that_an_earlier_service_has_left_are_adopted(place: Place) -> None:
    order = wide()
    place.executor.resume([order])
    until(lambda: len(place.kubelet.at_work("r")) == 2, "both pods work")
    before = [each["metadata"]["uid"] for each in place.pods()]
    place.executor.close()
    place.executor = place.opened()
    # Meanwhile the lease was handed over: its work continues under another lease.
    slots = {"n1": [0, 1], "n2": [4]}
    fact = lease_started("r/1", slots, reason=StartReason.HANDOVER)
    place.executor.resume([replace(order, lease=fact), wide("s")])
    until(lambda: len(place.kubelet.at_work("s")) == 2, "a run that was not started is now")
    own = [each["metadata"] for each in place.pods()]
    assert [each["uid"] for each in own if each["name"].startswith("run-r-")] == before
    assert place.kubelet.started == ["r", "r", "s", "s"]
    place.executor.carry_out([StopLease("r/1", LATE_MS)])
    until(lambda: LeaseGone("r/1") in place.executor.reports(), "r has gone")


def test_a_cluster_with_the_work_of_another_ledger_is_refused_with_the_remedy(
    place: Place,
) -> None:
    other = KubernetesExecutor(place.cluster.api(), place.names)
    with pytest.raises(WorkFolderError, match=f"another ledger, {place.ledger}; .* delete the"):
        other.belong_to("other")
    other.close()
    nowhere = KubernetesExecutor(place.cluster.api(), Namespaces(home="nowhere"))
    with pytest.raises(WorkFolderError, match="needs the namespace nowhere"):
        nowhere.belong_to("other")
    nowhere.close()


def test_a_cluster_has_one_name_and_one_without_a_name_gets_it(place: Place) -> None:
    """Two executors of one cluster would delete each other's pods."""
    other = KubernetesExecutor(place.cluster.api(), place.names, cluster="there")
    why = "there is a cluster that is already configured as here; .* delete the ConfigMap"
    with pytest.raises(WorkFolderError, match=why):
        other.belong_to(place.ledger)
    # As earlier versions have recorded it.
    path = f"/api/v1/namespaces/{place.names.home}/configmaps/{OWNER_CONFIG}"
    place.admin.merge(path, {"data": {CLUSTER: None}})
    other.belong_to(place.ledger)
    other.close()
    assert place.admin.get(path)["data"] == {"ledger": place.ledger, CLUSTER: "there"}


def test_objects_of_other_namespaces_and_wild_annotations_change_nothing(place: Place) -> None:
    """An owner may write anything in its own namespace, and on its own pods."""
    place.executor.resume([wide()])
    until(lambda: len(place.kubelet.at_work("r")) == 2, "both pods work")
    before = [each["metadata"]["uid"] for each in place.pods()]
    space = f"{place.ledger}-decoys"
    place.admin.create(
        "/api/v1/namespaces",
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": space}},
    )
    real = place.pods()[0]
    spec = {"containers": [{"name": "work", "image": "i"}], "schedulerName": "none"}
    metadata = {key: real["metadata"][key] for key in ("name", "labels", "annotations")}
    path = f"/api/v1/namespaces/{space}"
    decoy = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
    place.admin.create(f"{path}/pods", decoy)
    place.admin.merge(f"{path}/pods/{metadata['name']}/status", {"status": {"phase": "Failed"}})
    for number, generation in enumerate(("1e999", "1" + "0" * 60, "999999999")):
        told = {SERVICE_RECORD: f'{{"run":"r","generation":{generation}}}'}
        service = {"name": f"s{number}", "labels": metadata["labels"], "annotations": told}
        ports = {"clusterIP": "None", "ports": [{"port": 1}]}
        place.admin.create(
            f"{path}/services",
            {"apiVersion": "v1", "kind": "Service", "metadata": service, "spec": ports},
        )
    own = f"/api/v1/namespaces/{place.space}/pods/{metadata['name']}"
    place.admin.merge(own, {"metadata": {"annotations": {STEP: "9" * 5_000}}})
    place.executor.close()
    place.executor = place.opened()
    place.executor.resume([wide(), wide("later")])
    until(lambda: len(place.kubelet.at_work("later")) == 2, "what starts later is seen to")
    uids = [each["metadata"]["uid"] for each in place.pods()]
    assert (set(before) < set(uids), place.executor.trouble) == (True, "")
    assert (list(place.executor.reports()), place.executor.steps(["r"])) == ([], {})
    place.executor.carry_out([EndLease("later/0", EndReason.END)])
    until(lambda: len(place.pods()) == 2, "the end of the later one is seen to")
    assert place.admin.get(f"{path}/pods/{metadata['name']}")["status"]["phase"] == "Failed"
