"""The service works with the permissions of deploy/kubernetes/rbac.yaml, and has no others."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from quorate.adapters.kubernetes.exec_kubernetes import KubernetesExecutor
from quorate.ports.errors import ClusterRefusedError
from quorate.ports.executor_port import ServedExecutor
from quorate.testing import builders
from tests.bounds import until
from tests.kubernetes.engines import Server
from tests.kubernetes.granted import grant, grant_user
from tests.kubernetes.resources import installed
from tests.kubernetes.test_kubernetes_executor import TestKubernetesExecutor as AdminsExecutor
from tests.kubernetes.test_kubernetes_executor import make_namespace
from tests.kubernetes.test_serving_resources import (
    SPACES,
    Site,
    declare_nodes,
    only_lease,
    work,
)
from tests.service.program import client, program


@pytest.mark.slow
class TestWithItsRole(AdminsExecutor):
    """The contract of executors, with the service account that deploy/ creates."""

    @pytest.fixture(autouse=True)
    def _rights(self, _cluster: None, cluster: Server, tmp_path: Path) -> None:
        space = self.namespaces.of(builders.run("r", 1))
        self.service = grant(cluster, self.namespaces.home, [space], tmp_path)

    def make_executor(self) -> ServedExecutor:
        executor = KubernetesExecutor(self.service.api(), self.namespaces)
        executor.listen(self.woken.set)
        return executor

    @pytest.mark.parametrize(
        ("what", "path"),
        [
            ("list", "/api/v1/secrets"),
            ("list", "/api/v1/namespaces/{home}/secrets"),
            ("list", "/api/v1/namespaces/{space}/configmaps"),
            ("create", "/api/v1/namespaces"),
            ("create", "/api/v1/namespaces/default/pods"),
            ("create", "/api/v1/namespaces/{home}/pods"),
            ("create", "/api/v1/namespaces/{space}/serviceaccounts"),
            ("delete", "/api/v1/namespaces/default/pods/any"),
            ("delete", "/api/v1/nodes/any"),
            ("delete", "/api/v1/namespaces/{home}/configmaps/quorate"),
            ("merge", "/api/v1/nodes/any"),
            ("merge", "/apis/batch/v1/namespaces/default/jobs/any"),
            ("create", "/apis/rbac.authorization.k8s.io/v1/clusterroles"),
        ],
    )
    def test_what_it_does_not_need_is_forbidden(self, what: str, path: str) -> None:
        space = self.namespaces.of(builders.run("r", 1))
        place = path.format(home=self.namespaces.home, space=space)
        api = self.service.api()
        asked: dict[str, Callable[[], object]] = {
            "list": lambda: api.list_all(place),
            "create": lambda: api.create(place, {"metadata": {"name": "any"}}),
            "merge": lambda: api.merge(place, {"metadata": {"labels": {"a": "b"}}}),
            "delete": lambda: api.delete(place),
        }
        with pytest.raises(ClusterRefusedError) as caught:
            asked[what]()
        api.close()
        assert caught.value.status == 403


@pytest.mark.slow
@pytest.mark.usefixtures("only_resources")
def test_custom_resources_are_followed_with_its_role(cluster: Server, tmp_path: Path) -> None:
    site = Site(cluster)
    try:
        made = site.resources
        service = grant(cluster, SPACES[1], SPACES[:1], tmp_path)
        site.declare()
        with program(tmp_path, *site.words(service.kubeconfig)) as served:
            with client(served.wait_ready(), served.token) as http:
                declare_nodes(http)
            made.create("Run", "short", work(8, "ends", "200"))
            made.until_phase("short", "Completed")
            made.create("Run", "long", work(16, "stays"))
            made.create("Run", "waits", work(16, "stays"))
            made.until_phase("long", "Running")
            until(lambda: only_lease(made), "its lease is an object")
            until(lambda: made.all("Reservation"), "the start of the other one is planned")
            made.delete("Run", "long")
            made.until_gone("Run", "long")
            made.until_phase("waits", "Running")
            for kind, name in (("Run", "waits"), ("Budget", "rai"), ("Pool", "west")):
                made.delete(kind, name)
            made.until_gone("Budget", "rai")
            until(lambda: not made.all("GPULease"), "no lease is left")
            assert "forbidden" not in served.err
            served.end()
    finally:
        site.close()


@pytest.mark.slow
@pytest.mark.usefixtures("only_resources")
def test_a_member_of_a_team_writes_runs_of_that_team_and_nothing_else(
    cluster: Server, tmp_path: Path
) -> None:
    api = installed(cluster)
    spaces = ("team-own", "team-other")
    for name in spaces:
        make_namespace(api, name)
    own = grant_user(cluster, spaces[0], tmp_path).api()
    group = "/apis/quorate.dev/v1"
    body = {
        "apiVersion": "quorate.dev/v1",
        "kind": "Run",
        "metadata": {"name": "mine"},
        "spec": {"owner": "own", "resources": {"gpuType": "H100", "totalGPUs": 1}},
    }
    mine = f"{group}/namespaces/{spaces[0]}/runs"
    own.create(mine, body)
    assert [each["metadata"]["name"] for each in own.list_all(mine)[0]] == ["mine"]
    refused: list[Callable[[], object]] = [
        lambda: own.create(f"{group}/namespaces/{spaces[1]}/runs", body),
        lambda: own.list_all(f"{group}/namespaces/{spaces[1]}/runs"),
        lambda: own.merge(f"{mine}/mine/status", {"status": {"phase": "Completed"}}),
        lambda: own.merge(f"{mine}/mine", {"spec": {"owner": "other"}}),
        lambda: own.create(f"{group}/namespaces/{spaces[0]}/gpuleases", body),
        lambda: own.create(f"{group}/namespaces/{spaces[0]}/reservations", body),
        lambda: own.create(f"{group}/budgets", body),
        lambda: own.create(f"{group}/resolveroutcomes", body),
    ]
    for each in refused:
        with pytest.raises(ClusterRefusedError) as caught:
            each()
        assert caught.value.status == 403
    assert own.delete(f"{mine}/mine") is not None
    own.close()
    api.close()
