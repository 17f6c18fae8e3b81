"""The service works with the rights of deploy/kubernetes/rbac.yaml, and has no others."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from quorate.adapters.kubernetes.exec_kubernetes import KubernetesExecutor
from quorate.ports.errors import ClusterRefusedError
from quorate.ports.executor_port import ServedExecutor
from quorate.testing import builders
from tests.kubernetes.engines import Server
from tests.kubernetes.granted import grant
from tests.kubernetes.test_kubernetes_executor import TestKubernetesExecutor as AdminsExecutor


@pytest.mark.slow
class TestWithItsRole(AdminsExecutor):
    """The contract of executors, as the service account that deploy/ makes."""

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
