"""Mail of a real service: to addresses of runs and of the configuration, at least once."""

from __future__ import annotations

import logging
import signal
import ssl
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx
import pytest

from quorate.cli.signing import file_signer
from quorate.service.config import configured
from quorate.service.daemon import Daemon, Extras
from tests.bounds import until
from tests.service.certificates import certificate
from tests.service.conftest import documents_of
from tests.service.lives import prepared
from tests.service.mail_server import PASSWORD, USER, MailServer, mail_server, password_file
from tests.service.program import Program, program
from tests.service.program import client as client_of
from tests.service.serving import Served, new_ledger
from tests.service.worlds import run_tree

ADA = {"mail": {"to": "ada@lab.example", "kinds": ["run-started", "run-failed"]}}


def settings_file(folder: Path, server: MailServer, more: str) -> Path:
    """Return a settings file with ``server`` as the SMTP server."""
    file = folder / "q.toml"
    file.write_text(
        f'[mail]\nserver = "localhost:{server.port}"\nfrom = "quorate@lab.example"\n{more}', "utf-8"
    )
    return file


@contextmanager
def served(folder: Path, server: MailServer, more: str) -> Iterator[httpx.Client]:
    """Serve a ledger that has a fleet, with mail."""
    ledger = new_ledger(folder)
    found = Served(ledger, {}, Extras(signer=file_signer(ledger)))
    given = {"listen": "127.0.0.1:0", "ledger": str(ledger)}
    made = configured(given, {}, str(settings_file(folder, server, more)))
    found.daemon = Daemon(made, Extras(signer=file_signer(ledger)))
    found.start()
    try:
        with found.client(found.token) as client:
            body = {"documents": documents_of("fleet.yaml", "teams.yaml")}
            assert client.post("/api/v1/apply", json=body).status_code == 200
            yield client
    finally:
        found.stop()


def submit(client: httpx.Client, name: str, **spec: object) -> str:
    """Submit a run of one GPU, and return the notes in the answer."""
    done = client.post("/api/v1/runs", json={"document": run_tree(name, "rai", 1, **spec)})
    assert done.status_code == 200, done.text
    return str(done.headers.get("quorate-notes", ""))


def test_a_run_has_its_notices_mailed_with_tls_and_a_login_and_they_are_counted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    chain, key = certificate(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(chain, key)
    secret = password_file(tmp_path)
    more = (
        f'ca = "{chain}"\nuser = "{USER}"\npassword_file = "{secret}"\ndomains = ["lab.example"]\n'
        '[[mail.receivers]]\nname = "ops"\nto = "ops@x.example"\nkinds = ["run-failed"]\n'
    )
    with mail_server(context, takes_login=True) as server, served(tmp_path, server, more) as client:
        submit(client, "quiet")
        elsewhere = {"mail": {"to": "eve@evil.example", "kinds": ["run-started"]}}
        assert "no mail to addresses of evil.example" in submit(client, "elsewhere", **elsewhere)
        assert submit(client, "train", **ADA) == ""
        server.wait(1)
        failed = client.post("/api/v1/runs/train/fail", json={"note": "loss is NaN"})
        assert failed.status_code == 200, failed.text
        mails = server.wait(3)
        wanted = 'quorate_mail_deliveries_total{mail="runs",result="delivered"} 2.0'
        until(lambda: wanted in client.get("/metrics").text, "both are counted")
        assert 'quorate_mail_up{mail="ops"} 1.0' in client.get("/metrics").text
    found = sorted((mail.to[0], str(mail.message["Subject"])) for mail in mails)
    assert found == [
        ("ada@lab.example", "run-failed: run/train"),
        ("ada@lab.example", "run-started: run/train"),
        ("ops@x.example", "run-failed: run/train"),
    ]
    assert all(mail.is_encrypted and mail.user == USER for mail in mails)
    assert "loss is NaN" in next(each.text for each in mails if each.to == ("ops@x.example",))
    assert "evil.example is not in mail.domains" in caplog.text
    assert PASSWORD not in caplog.text


@pytest.mark.soak
def test_killed_after_the_server_took_it_a_mail_comes_again_with_its_message_id(
    tmp_path: Path,
) -> None:
    ledger, token = prepared(tmp_path)
    lives: list[Program] = []
    killed: list[str] = []

    def kill_first(command: str) -> None:
        if command == "." and not killed:
            killed.append(command)
            lives[-1].end(signal.SIGKILL)

    with mail_server() as server:
        server.refuse = kill_first
        more = 'tls = "none"\ndomains = ["lab.example"]\n'
        config = settings_file(tmp_path, server, more)
        words = ("--ledger", str(ledger), "--config", str(config))
        with program(tmp_path, *words) as life:
            lives.append(life)
            # The service may be killed before it answers; the run is in the ledger nevertheless.
            with suppress(httpx.TransportError), client_of(life.wait_ready(), token) as client:
                submit(client, "run-0", **ADA)
            server.wait(1)
            assert life.wait() == -signal.SIGKILL
        with program(tmp_path, *words) as last:
            lives.append(last)
            first, second = server.wait(2)
    assert first.message["Message-ID"] == second.message["Message-ID"]
    assert first.data == second.data
