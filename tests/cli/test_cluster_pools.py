"""Pools of a cluster on the command line: leases count GPUs, because the cluster chooses them."""

from __future__ import annotations

import pytest

from tests.cli.shell import Shell

POOL = """\
apiVersion: quorate.dev/v1
kind: Pool
metadata: {name: default}
spec: {executor: kubernetes, cluster: west}
"""
RUN = """\
apiVersion: quorate.dev/v1
kind: Run
metadata: {name: r}
spec: {owner: rai, flavor: A100, totalGPUs: 4, image: "registry.example/train:1"}
"""


@pytest.mark.heavy
def test_a_lease_says_how_many_gpus_of_a_node_it_has_and_not_which(shell: Shell) -> None:
    shell.file("pool.yaml", POOL)
    shell.file("run.yaml", RUN)
    shell.ok("apply", "-f", "pool.yaml")
    shell.ok("submit", "-f", "run.yaml")
    (lease,) = shell("get", "leases", "-o", "json").json["items"]
    ((node, gpus),) = ((each["node"], each["gpus"]) for each in lease["status"]["slots"])
    assert gpus == 4
    assert f" {node}*4 " in shell.ok("get", "leases")
    assert f"Slots:\n  {node}*4\n" in shell.ok("describe", "lease", "r/0")


@pytest.mark.heavy
def test_an_image_is_refused_where_the_pool_runs_none(shell: Shell) -> None:
    shell.file("run.yaml", RUN)
    assert "does not run images" in shell("submit", "-f", "run.yaml").err
