"""Commands and a real service on a ledger in etcd, from its creation to its verification."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from quorate.adapters.stores import store_urls
from tests.service.program import CLI, program
from tests.tidy.tree import ROOT

EXAMPLES = ROOT / "examples"
SUBMIT = ("submit", "--gpus", "2", "--team", "rai", "--flavor", "H100", "--", "true")


def quorate(folder: Path, url: str, *words: str) -> str:
    """Return the output of a command, which must succeed."""
    done = subprocess.run(
        [sys.executable, "-c", CLI, "--ledger", url, *words],
        cwd=folder,
        env={"PATH": os.environ["PATH"], "HOME": str(folder), "LC_ALL": "C.UTF-8"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
def test_a_ledger_in_etcd_is_made_used_served_and_verified(etcd_url: str, tmp_path: Path) -> None:
    quorate(tmp_path, etcd_url, "init")
    files = [str(EXAMPLES / name) for name in ("fleet.yaml", "teams.yaml")]
    quorate(tmp_path, etcd_url, "apply", "-f", files[0], "-f", files[1])
    assert "started on 2 H100 GPUs" in quorate(tmp_path, etcd_url, *SUBMIT)
    with program(tmp_path, "--ledger", etcd_url) as served:
        address = served.wait_ready()
        with httpx.Client(
            base_url=f"{address}/api/v1",
            headers={"Authorization": f"Bearer {served.token}"},
            timeout=60.0,
        ) as client:
            # A reader process answers this.
            runs = client.get("/runs").json()
            assert len(runs["items"]) == 1
            name = runs["items"][0]["metadata"]["name"]
            answer = client.post(f"/runs/{name}/cancel", json={})
            assert answer.is_success, answer.text
            phase = client.get(f"/runs/{name}").json()["status"]["phase"]
            assert phase == "Cancelled"
        assert served.end() == 0
    verified = quorate(tmp_path, etcd_url, "ledger", "verify", "--deep")
    assert "the ledger verifies" in verified


@pytest.mark.soak
def test_a_ledger_moves_from_a_file_to_etcd_and_back_as_an_export(
    etcd_url: str, tmp_path: Path
) -> None:
    quorate(tmp_path, "one.db", "init")
    quorate(tmp_path, "one.db", "apply", "-f", str(EXAMPLES / "fleet.yaml"))
    exported = tmp_path / "one.jsonl"
    exported.write_text(quorate(tmp_path, "one.db", "ledger", "export"), "utf-8")
    quorate(tmp_path, "one.db", "ledger", "import", str(exported), "--out", etcd_url)
    assert quorate(tmp_path, etcd_url, "ledger", "export") == exported.read_text("utf-8")
    again = str(tmp_path / "two.db")
    quorate(tmp_path, etcd_url, "ledger", "import", str(exported), "--out", again)
    with store_urls.read_store(etcd_url) as there, store_urls.read_store(again) as here:
        assert there.head() == here.head()
        assert list(there.blocks()) == list(here.blocks())


@pytest.mark.soak
@pytest.mark.slow
def test_a_backup_of_a_ledger_in_etcd_is_a_file_and_is_restored_to_a_new_cluster(
    etcd_url: str, tmp_path: Path
) -> None:
    quorate(tmp_path, etcd_url, "init")
    quorate(tmp_path, etcd_url, "apply", "-f", str(EXAMPLES / "fleet.yaml"))
    backup = str(tmp_path / "backup.db")
    made = quorate(tmp_path, etcd_url, "ledger", "backup", "--out", backup, "--with-keys")
    assert f"of {etcd_url} to {backup}" in made
    place, _, _ = etcd_url.partition("?")
    restored = f"{place}-restored?local={tmp_path / 'restored'}"
    quorate(tmp_path, restored, "ledger", "restore", backup)
    with (
        store_urls.read_store(etcd_url) as one,
        store_urls.read_store(backup) as two,
        store_urls.read_store(restored) as three,
    ):
        assert list(one.blocks()) == list(two.blocks()) == list(three.blocks())
        assert two.kept_end() is not None
    for name in ("key", "lottery"):
        secret = (tmp_path / f"ledger.{name}").read_bytes()
        assert (tmp_path / f"restored.{name}").read_bytes() == secret
    quorate(tmp_path, restored, "ledger", "verify", "--deep")
