"""Mail in the configuration: each wrong setting is named, with a remedy; passwords stay secret."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from quorate.model.notice_kinds import NoticeKind
from quorate.ports.errors import KeyFileError
from quorate.service.config import configured
from quorate.service.config_values import Address
from quorate.service.metrics.metric_table import MAIL_RECEIVERS_MAX
from quorate.service.receivers.mail_settings import (
    MailReceiver,
    MailServer,
    MailTls,
    Password,
    mail_receivers_of,
)
from quorate.views.exits import CommandError
from tests.service.mail_server import password_file

GOOD = {"name": "ops", "to": "ops@lab.example"}
SERVER = {"mail.server": "mail.lab.example:587", "mail.from": "quorate@lab.example"}


def wrong(**changes: Any) -> list[str]:
    """Return the errors of a receiver with ``changes`` to a valid one."""
    tree = {key: value for key, value in (GOOD | changes).items() if value is not None}
    return mail_receivers_of([tree], "q.toml")[1]


def faults(**flags: str) -> str:
    """Return the errors of settings."""
    with pytest.raises(CommandError) as error:
        configured({key.replace("__", "."): value for key, value in flags.items()}, {}, None)
    return str(error.value)


def test_a_file_says_where_mail_is_handed_in_and_who_gets_it(tmp_path: Path) -> None:
    file = tmp_path / "q.toml"
    file.write_text(
        """
[mail]
server = "mail.lab.example:465"
tls = "tls"
ca = "/etc/ca.pem"
user = "quorate"
password_file = "mail.password"
from = "quorate@lab.example"
timeout_s = 5
domains = ["Lab.example", "x.example"]

[[mail.receivers]]
name = "ops"
to = "ops@lab.example"
tenant = "lab"
kinds = ["run-failed"]
""",
        "utf-8",
    )
    found = configured({}, {}, str(file))
    assert found.mail_server == MailServer(
        address=Address(host="mail.lab.example", port=465),
        sender="quorate@lab.example",
        tls=MailTls.TLS,
        ca="/etc/ca.pem",
        user="quorate",
        password_file="mail.password",  # noqa: S106 - the name of a file
        timeout_s=5.0,
        domains=("lab.example", "x.example"),
    )
    assert found.mail_receivers == (
        MailReceiver(
            name="ops", to="ops@lab.example", tenant="lab", kinds=(NoticeKind.RUN_FAILED,)
        ),
    )
    assert configured({}, {}, None).mail_server is None


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"name": "Ops!"}, "mail.receivers[1].name: must be up to 63 lower-case letters"),
        ({"name": "runs"}, "mail.receivers[1].name: must not be runs"),
        ({"to": None}, "mail.receivers[1].to: must be a mail address of up to 254 characters"),
        ({"to": "Ops <ops@lab.example>"}, "mail.receivers[1].to: must be a mail address"),
        ({"to": "ops@x\nBcc: e@x"}, "mail.receivers[1].to: must be a mail address"),
        ({"kinds": ["run-paused"]}, "mail.receivers[1].kinds: must be a list of kinds: run-start"),
        ({"url": "x"}, "mail.receivers[1].url: is not a field; the fields are: name, to, ten"),
    ],
)
def test_a_wrong_field_is_named_with_its_place(changes: dict[str, Any], words: str) -> None:
    (line,) = wrong(**changes)
    assert line.startswith(f"q.toml: {words}")


def test_names_are_there_once_and_there_are_not_too_many() -> None:
    twice = mail_receivers_of([GOOD, GOOD], "q.toml")[1]
    assert twice == ["q.toml: mail.receivers: 'ops' is given twice; each needs its own name"]
    many = [GOOD | {"name": f"n{number}"} for number in range(MAIL_RECEIVERS_MAX + 1)]
    assert mail_receivers_of(many, "q.toml")[1] == [
        (
            f"q.toml: mail.receivers: at most {MAIL_RECEIVERS_MAX} are allowed, "
            f"got {MAIL_RECEIVERS_MAX + 1}"
        )
    ]
    assert mail_receivers_of("ops", "q.toml")[1] == [
        "q.toml: mail.receivers: must be tables: [[mail.receivers]]"
    ]


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ({"mail.server": "mail"}, "--mail-server: must be HOST:PORT"),
        ({"mail.tls": "ssl"}, "--mail-tls: must be tls or starttls or none, got 'ssl'"),
        ({"mail.from": "Quorate"}, "--mail-from: must be a mail address"),
        ({"mail.domains": "lab,,x"}, "--mail-domains: must be domains separated by commas"),
        ({"mail.timeout_s": "0"}, "--mail-timeout-s: must be seconds from 1 to 300"),
        ({"mail.user": "me"}, "mail.user: has no effect without a mail server; give mail.server"),
        ({**SERVER}, "mail.server: has no effect without receivers; give mail.domains"),
        (
            {**SERVER, "mail.domains": "x", "mail.user": "u"},
            "mail.user and mail.password_file belong",
        ),
        (
            {
                **SERVER,
                "mail.domains": "x",
                "mail.user": "u",
                "mail.password_file": "p",
                "mail.tls": "none",
            },
            "mail.tls: none: the password could be read on the way; set starttls or tls",
        ),
        (
            {**SERVER, "mail.domains": "x", "mail.tls": "none", "mail.ca": "c"},
            "mail.ca: without TLS Quorate checks no certificate",
        ),
        (
            {"mail.server": "mail:25", "mail.domains": "x"},
            "mail.from: mail.server needs a sender",
        ),
    ],
)
def test_settings_that_are_wrong_or_do_not_go_together_are_named(
    flags: dict[str, str], words: str
) -> None:
    assert words in faults(**flags)


def test_a_password_is_one_line_that_only_its_owner_may_read(tmp_path: Path) -> None:
    path = password_file(tmp_path)
    assert Password.of_file(str(path)).text == "correct horse"
    path.write_text("two\nlines\n", "utf-8")
    with pytest.raises(KeyFileError, match="one line of up to"):
        Password.of_file(str(path))
    path.chmod(0o644)
    with pytest.raises(KeyFileError):
        Password.of_file(str(path))


def test_another_address_or_kinds_are_another_receiver() -> None:
    one = MailReceiver(name="ops", to="ops@lab.example")
    others = [
        MailReceiver(name="ops", to="ops@x.example"),
        MailReceiver(name="ops", to="ops@lab.example", tenant="lab"),
        MailReceiver(name="ops", to="ops@lab.example", kinds=(NoticeKind.RUN_CUT,)),
    ]
    assert one.digest not in {each.digest for each in others}
    assert MailReceiver(name="else", to="ops@lab.example").digest == one.digest
