from __future__ import annotations

import json
import signal
import socket
import sqlite3
import ssl
from pathlib import Path

import httpx
import pytest

from tests.bounds import WAIT_S
from tests.oracles.effort import few_of
from tests.service.certificates import certificate
from tests.service.program import client, program
from tests.service.serving import new_ledger
from tests.service.worlds import run_tree


def owners(*names: str) -> dict[str, object]:
    return {
        "documents": [
            {"apiVersion": "quorate.dev/v1", "kind": "Owner", "metadata": {"name": name}}
            for name in names
        ]
    }


def test_the_first_start_makes_the_default_ledger_and_prints_a_token_once(tmp_path: Path) -> None:
    with program(tmp_path) as first:
        url = first.wait_ready()
        assert first.out.startswith("created ledger ")
        with client(url, first.token) as asking:
            assert asking.get("/api/v1/whoami").json()["role"] == "admin"
            assert asking.post("/api/v1/apply", json=owners("a")).status_code == 200
        token = first.token
        assert first.end() == 0
    with program(tmp_path) as second:
        url = second.wait_ready()
        assert "qt_" not in second.out
        with client(url, token) as asking:
            assert asking.get("/api/v1/owners/a").status_code == 200
        assert second.end(signal.SIGINT) == 0


def test_the_first_token_is_kept_in_a_file_for_its_owner_alone(tmp_path: Path) -> None:
    kept = tmp_path / "token"
    with program(tmp_path, "--token-file", "token") as first:
        url = first.wait_ready()
        first.said("(quorate context set here)")
        assert "qt_" not in first.out + first.err
        assert kept.stat().st_mode & 0o777 == 0o600
        with client(url, kept.read_text().strip()) as asking:
            assert asking.get("/api/v1/whoami").json()["role"] == "admin"
        assert first.end() == 0


@pytest.mark.soak
def test_a_token_that_cannot_be_kept_is_shown_instead(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("mine")
    with program(tmp_path, "--token-file", "token") as first:
        url = first.wait_ready()
        first.said("(try it: curl)")
        assert "warning: --token-file: token: File exists" in first.err
        with client(url, first.token) as asking:
            assert asking.get("/api/v1/whoami").json()["role"] == "admin"
        assert first.end() == 0
    assert (tmp_path / "token").read_text() == "mine"


@pytest.mark.soak
def test_nothing_that_was_acknowledged_is_lost_by_a_kill(tmp_path: Path) -> None:
    with program(tmp_path) as first:
        url, token = first.wait_ready(), first.token
        with client(url, token) as asking:
            asking.post("/api/v1/apply", json=owners("a"))
            for number in range(20):
                done = asking.post("/api/v1/runs", json={"document": run_tree(f"r{number}", "a")})
                assert done.status_code == 200, done.text
        first.end(signal.SIGKILL)
    with program(tmp_path) as second:
        url = second.wait_ready()
        with client(url, token) as asking:
            items = asking.get("/api/v1/runs").json()["items"]
            assert sorted(each["metadata"]["name"] for each in items) == sorted(
                f"r{number}" for number in range(20)
            )
            assert asking.get("/api/v1/ledger/verification?deep=true").json()["verifies"] is True


def test_a_second_daemon_on_one_ledger_is_refused(tmp_path: Path) -> None:
    with program(tmp_path) as first:
        first.wait_ready()
        folder = tmp_path / "second"
        folder.mkdir()
        with program(folder, "--ledger", str(tmp_path / "quorate.db")) as second:
            assert second.wait() == 4
            assert "is open for writing in" in second.err


@pytest.mark.soak
def test_a_ledger_that_is_not_the_default_is_made_only_when_asked_for(tmp_path: Path) -> None:
    with program(tmp_path, "--ledger", "mine.db") as refused:
        assert refused.wait() == 4
        assert "to create it, add: --init" in refused.err
        assert not (tmp_path / "mine.db").exists()
    with program(tmp_path, "--ledger", "mine.db", "--init") as served:
        served.wait_ready()
        assert served.end() == 0


def test_a_ledger_that_does_not_verify_is_not_served(tmp_path: Path) -> None:
    path = new_ledger(tmp_path)
    with sqlite3.connect(path) as db:
        (table,) = [
            name
            for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
            if "block" in name
        ]
        (body,) = db.execute(f"SELECT body FROM {table} LIMIT 1").fetchone()  # noqa: S608
        changed = body[:-1] + bytes([body[-1] ^ 1])
        db.execute(f"UPDATE {table} SET body = ?", (changed,))  # noqa: S608
    db.close()
    with program(tmp_path, "--ledger", str(path)) as refused:
        assert refused.wait() == 5
        assert "does not verify" in refused.err
        assert "quorate ledger import" in refused.err
        assert "serving" not in refused.out


@pytest.mark.soak
def test_python_without_assertions_is_refused(tmp_path: Path) -> None:
    with program(tmp_path, python=["-O"]) as found:
        assert found.wait() == 2
        assert "python -O" in found.err
    assert not (tmp_path / "quorate.db").exists()


@pytest.mark.soak
def test_an_address_that_is_taken_is_refused_and_nothing_is_issued(tmp_path: Path) -> None:
    with program(tmp_path) as first:
        url = first.wait_ready()
        folder = tmp_path / "second"
        folder.mkdir()
        port = url.rpartition(":")[2]
        with program(folder, listen=f"127.0.0.1:{port}") as second:
            assert second.wait() == 4
            assert (
                f"error: listen: 127.0.0.1:{port} cannot be used: address already in use (tried "
                "for 5 s); stop the program that uses it, or choose another with --listen "
                "HOST:PORT\n"
            ) in second.err
            assert "qt_" not in second.out
        assert not (folder / "quorate.db").exists()


@pytest.mark.soak
def test_the_log_is_json_where_asked_for_and_holds_no_secret(tmp_path: Path) -> None:
    with program(tmp_path, "--log-format", "json") as served:
        url, token = served.wait_ready(), served.token
        with client(url, token) as asking:
            asking.get("/api/v1/whoami", headers={"X-Request-Id": "mine"})
            body = {"role": "auditor", "user": "eve"}
            issued = asking.post("/api/v1/tokens", json=body).json()["token"]["secret"]
            asking.get("/api/v1/runs/a%0Ab")
            asking.delete(f"/api/v1/tokens/{issued.split('_')[1]}")
        assert served.end() == 0
        records = [json.loads(line) for line in served.err.splitlines()]
    asked = {record["request"]: record for record in records if "request" in record}
    assert asked["mine"]["operation"] == "whoami"
    assert asked["mine"]["caller"] == "admin"
    assert asked["mine"]["status"] == 200
    for secret in (token, issued):
        assert secret.split("_")[2] not in served.err


def test_a_stop_answers_what_is_under_way(tmp_path: Path) -> None:
    with program(tmp_path) as served:
        url, token = served.wait_ready(), served.token
        host, _, port = url.removeprefix("http://").partition(":")
        with socket.create_connection((host, int(port)), timeout=WAIT_S) as connection:
            body = json.dumps(owners("late")).encode()
            connection.sendall(
                b"POST /api/v1/apply HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
                b"Authorization: Bearer %s\r\nContent-Length: %d\r\nExpect: 100-continue\r\n\r\n"
                % (token.encode(), len(body))
            )
            assert connection.recv(65_536) == b"HTTP/1.1 100 Continue\r\n\r\n"
            served.process.send_signal(signal.SIGTERM)
            served.logged("stopping: accepting no more requests")
            connection.sendall(body)
            assert connection.recv(65_536).startswith(b"HTTP/1.1 200 OK")
        assert served.wait() == 0


def test_tls_is_served_and_a_key_that_others_may_read_is_refused(tmp_path: Path) -> None:
    cert, key = certificate(tmp_path)
    words = ("--tls-cert", str(cert), "--tls-key", str(key))
    with program(tmp_path, *words) as served:
        url = served.wait_ready().replace("127.0.0.1", "localhost")
        assert url.startswith("https://")
        context = ssl.create_default_context(cafile=str(cert))
        with httpx.Client(verify=context, trust_env=False, timeout=WAIT_S) as asking:
            assert asking.get(f"{url}/healthz").status_code == 200
        assert served.end() == 0
    key.chmod(0o644)
    with program(tmp_path, *words) as refused:
        assert refused.wait() == 4
        assert "chmod 600" in refused.err


@pytest.mark.parametrize("word", few_of(["--config", "--listen"], 1))
def test_what_is_wrong_with_the_settings_is_told(tmp_path: Path, word: str) -> None:
    with program(tmp_path, word, "absent") as found:
        assert found.wait() in (3, 4)
        assert "absent" in found.err
