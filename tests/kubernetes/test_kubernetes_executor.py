"""The contract of executors, on a real API server with a simulated kubelet."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from itertools import count
from threading import Event

import pytest

from quorate.adapters.kubernetes.exec_kubernetes import KubernetesExecutor
from quorate.adapters.kubernetes.kube_api import KubeApi
from quorate.adapters.kubernetes.object_names import Namespaces
from quorate.model.specs import Run
from quorate.ports.executor_port import ServedExecutor
from quorate.testing import builders
from quorate.testing.executor_contract import CODE_FAILED, ExecutorContract, Work
from tests.bounds import WAIT_S
from tests.kubernetes.engines import Server
from tests.kubernetes.kubelet import Kubelet

COMMANDS = {
    Work.ENDS: ("ends", "{ms}"),
    Work.FAILS: ("fails", "{ms}", str(CODE_FAILED)),
    Work.STAYS: ("stays",),
    Work.DEFIES: ("defies",),
    Work.COUNTS: ("counts",),
}
_NUMBER = count()


def make_namespace(api: KubeApi, name: str) -> None:
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    api.create("/api/v1/namespaces", body)


@pytest.mark.slow
class TestKubernetesExecutor(ExecutorContract):
    wipes_nodes = False

    @pytest.fixture(autouse=True)
    def _cluster(self, cluster: Server) -> Iterator[None]:
        self.cluster = cluster
        self.woken = Event()
        self.admin = cluster.api()
        own = f"t{os.getpid()}-{next(_NUMBER)}"
        self.ledger = f"contract-{own}"
        self.namespaces = Namespaces(template=f"{own}-{{owner}}", home=f"{own}-home")
        space = self.namespaces.of(builders.run("r", 1))
        make_namespace(self.admin, self.namespaces.home)
        make_namespace(self.admin, space)
        self.kubelet = Kubelet(cluster.api(), space)
        self.kubelet.start()
        yield
        for pod in self.admin.list_all(f"/api/v1/namespaces/{space}/pods")[0]:
            path = f"/api/v1/namespaces/{space}/pods/{pod['metadata']['name']}"
            self.admin.delete(path, grace_s=0)
        self.kubelet.close()
        self.admin.close()

    def make_executor(self) -> ServedExecutor:
        executor = KubernetesExecutor(self.cluster.api(), self.namespaces)
        executor.listen(self.woken.set)
        return executor

    def reopen(self, executor: ServedExecutor) -> ServedExecutor:
        executor.close()
        return self.make_executor()

    def run_of(self, name: str, work: Work, *, lasts_ms: int) -> Run:
        command = tuple(word.format(ms=lasts_ms) for word in COMMANDS[work])
        return builders.run(name, 1, command=command, image="played")

    def now_ms(self) -> int:
        return int(time.time() * 1_000)

    def let_time_pass(self, until_ms: int | None) -> None:
        wait_s = WAIT_S if until_ms is None else max(0, until_ms - self.now_ms()) / 1_000
        is_woken = self.woken.wait(wait_s)
        assert is_woken or until_ms is not None, "the executor wakes no loop"
        self.woken.clear()

    def is_at_work(self, run: str) -> bool:
        return bool(self.kubelet.at_work(run))

    def starts_of(self, run: str) -> int:
        return self.kubelet.started.count(run)
