"""`make demo-kubernetes`: its output, and its error without a control plane."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.tidy.tree import ROOT

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


def demo(assets: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tools.demo_kubernetes"],
        cwd=ROOT,
        env=os.environ | {"KUBEBUILDER_ASSETS": str(assets)},
        capture_output=True,
        text=True,
        check=False,
        timeout=280,
    )


@pytest.mark.soak
def test_the_demo_tells_its_story_and_ends_everything(programs: Path) -> None:
    done = demo(programs)
    assert done.returncode == 0, done
    for said in (
        "deployment/quorate created",
        "run/first started on 16 H100 GPUs",
        "run-first-1-0        Running   gpu-1",
        "run/second waits: budgets can pay 0 of 8 GPUs",
        "second works; its pods in the namespace quorate-vision",
        "the ledger verifies",
        "All of it has ended",
    ):
        assert said in done.stdout


def test_without_a_control_plane_it_says_what_is_missing(tmp_path: Path) -> None:
    done = demo(tmp_path)
    assert (done.returncode, done.stderr) == (3, "")
    assert done.stdout == f"nothing to show: KUBEBUILDER_ASSETS={tmp_path} has no etcd\n"
