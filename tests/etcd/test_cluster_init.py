"""``quorate cluster init`` with a real etcd: it creates a ledger, or lists all faults."""

from __future__ import annotations

from pathlib import Path

import pytest

from quorate.adapters.key_file import key_path
from quorate.adapters.stores import store_urls
from tests.cli.shell import Shell
from tests.etcd_server import free_port

pytestmark = pytest.mark.slow


@pytest.fixture
def shell(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Shell:
    return Shell(tmp_path, capsys)


def test_a_cluster_is_checked_and_its_ledger_made(
    shell: Shell, etcd_url: str, tmp_path: Path
) -> None:
    url = f"{etcd_url}&archive={tmp_path / 'shared'}"
    made = shell("--ledger", url, "cluster", "init")
    assert made.code == 0, made
    assert "created ledger" in made.out
    assert f"--ledger '{url}' apply -f FILE" in made.out
    assert f"copy {key_path(store_urls.ledger_path(url))} to the same path" in made.out
    assert "warning: the URL names one member of etcd" in made.err
    assert store_urls.store_exists(url)
    assert list((tmp_path / "shared" / "check").iterdir()) == []
    again = shell("--ledger", url, "cluster", "init")
    assert again.code != 0
    assert "exists" in again.err


def test_every_fault_is_listed_and_nothing_made(
    shell: Shell, etcd_url: str, tmp_path: Path
) -> None:
    blocked = tmp_path / "blocked"
    blocked.write_text("a file where a folder should be", "utf-8")
    gone = f"127.0.0.1:{free_port()}"
    url = f"{etcd_url.replace('/test', f',{gone}/test')}&archive={blocked}"
    failed = shell("--ledger", url, "cluster", "init")
    assert failed.code != 0
    assert f"{gone}: " in failed.err
    assert "start this member, or correct the URL" in failed.err
    assert str(blocked) in failed.err
    assert "nothing was created" in failed.err
    assert not store_urls.store_exists(etcd_url)
    assert not key_path(store_urls.ledger_path(url)).exists()


def test_a_file_is_no_ledger_for_several_services(shell: Shell) -> None:
    failed = shell("--ledger", "quorate.db", "cluster", "init")
    assert failed.code != 0
    assert "only a ledger in etcd" in failed.err
