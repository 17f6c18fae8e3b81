"""Webhooks in the configuration: faults are named with their place; secrets stay secret."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from quorate.model.notice_kinds import NoticeKind
from quorate.ports.errors import KeyFileError
from quorate.service.config import configured
from quorate.service.metrics.metric_table import WEBHOOKS_MAX
from quorate.service.receivers.webhook import Seal, Webhook, webhooks_of
from quorate.views.exits import CommandError
from tests.service.receiver import secret_file

GOOD = {"name": "ops", "url": "https://hooks.example/in", "secret_file": "s"}
PUBLISHED = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
"""The secret in the example of Standard Webhooks."""


def wrong(**changes: Any) -> list[str]:
    """Return the errors of a webhook with ``changes`` to a valid one."""
    tree = {key: value for key, value in (GOOD | changes).items() if value is not None}
    return webhooks_of([tree], "q.toml")[1]


def test_a_file_says_where_what_is_posted(tmp_path: Path) -> None:
    file = tmp_path / "q.toml"
    file.write_text(
        """
[[webhooks]]
name = "ops"
url = "https://hooks.example/in?team=1"
secret_file = "ops.secret"

[[webhooks]]
name = "lab-chat"
url = "http://127.0.0.1:9/x"
tenant = "lab"
kinds = ["run-cut", "lottery-lost"]
secret_file = "lab.secret"
timeout = 2.5
""",
        "utf-8",
    )
    assert configured({}, {}, str(file)).webhooks == (
        Webhook(name="ops", url="https://hooks.example/in?team=1", secret_file="ops.secret"),  # noqa: S106
        Webhook(
            name="lab-chat",
            url="http://127.0.0.1:9/x",
            tenant="lab",
            kinds=(NoticeKind.RUN_CUT, NoticeKind.LOTTERY_LOST),
            secret_file="lab.secret",  # noqa: S106 - the name of a file
            timeout_s=2.5,
        ),
    )
    assert configured({}, {}, None).webhooks == ()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"name": "Ops!"}, "webhooks[1].name: must be up to 63 lower-case letters"),
        (
            {"name": None},
            "webhooks[1].name: must be up to 63 lower-case letters, digits and dashes, and",
        ),
        ({"url": "ftp://x/y"}, "webhooks[1].url: must be an address such as https://"),
        ({"url": "https://"}, "webhooks[1].url: must be an address"),
        ({"url": "https://x:port/"}, "webhooks[1].url: must be an address"),
        ({"url": "https://me:word@x/"}, "webhooks[1].url: must contain no user, password"),
        ({"url": "https://x/#here"}, "webhooks[1].url: must contain no user, password or fragment"),
        ({"url": "http://hooks.example/"}, "set insecure = true if the network is safe"),
        ({"kinds": ["run-paused"]}, "webhooks[1].kinds: must be a list of kinds: run-started"),
        ({"kinds": "run-cut"}, "webhooks[1].kinds: must be a list of kinds"),
        ({"timeout": 0}, "webhooks[1].timeout: must be seconds from 0.1 to 60"),
        (
            {"secret_file": None},
            "webhooks[1].secret_file: must be text on one line, and is missing",
        ),
        ({"secret": "x"}, "webhooks[1].secret: is not a field; the fields are: name, url"),
        ({"insecure": 3}, "webhooks[1].insecure: must be true or false"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(changes: dict[str, Any], words: str) -> None:
    (line,) = wrong(**changes)
    assert line.startswith("q.toml: ")
    assert words in line


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]"])
def test_this_machine_may_be_told_without_tls(host: str) -> None:
    assert wrong(url=f"http://{host}:8000/in") == []


def test_another_machine_may_be_told_without_tls_where_that_was_allowed() -> None:
    assert wrong(url="http://hooks.example/", insecure=True) == []


def test_names_are_there_once_and_there_is_an_end_of_them() -> None:
    many = [GOOD | {"name": f"hook-{n}"} for n in range(WEBHOOKS_MAX)]
    assert webhooks_of(many, "q.toml")[1] == []
    assert webhooks_of([*many, GOOD], "q.toml")[1] == [
        f"q.toml: webhooks: at most {WEBHOOKS_MAX} are allowed, got {WEBHOOKS_MAX + 1}"
    ]
    assert webhooks_of([GOOD, GOOD], "q.toml")[1] == [
        "q.toml: webhooks: 'ops' is given twice; each needs its own name"
    ]


@pytest.mark.parametrize("text", ['webhooks = "x"', "[webhooks]\nname = 'x'", "webhooks = [1]"])
def test_what_is_no_list_of_tables_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "q.toml"
    file.write_text(text, "utf-8")
    with pytest.raises(CommandError) as caught:
        configured({}, {}, str(file))
    assert "webhooks" in "\n".join(caught.value.lines)


def test_a_signature_is_that_of_the_published_example(tmp_path: Path) -> None:
    seal = Seal.of_file(str(secret_file(tmp_path, PUBLISHED)))
    headers = seal.headers("msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, b'{"test": 2432232314}')
    assert headers == {
        "content-type": "application/json",
        "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
        "webhook-timestamp": "1614265330",
        "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
    }


def test_a_seal_does_not_show_its_key(tmp_path: Path) -> None:
    seal = Seal.of_file(str(secret_file(tmp_path)))
    assert repr(seal) == "Seal()"


@pytest.mark.parametrize(
    "text", ["", "word", "whsec_", "whsec_abc", "whsec_AAAA", "whsec_" + "AAAA" * 30]
)
def test_what_is_no_secret_is_refused_and_not_repeated(tmp_path: Path, text: str) -> None:
    path = secret_file(tmp_path, text)
    with pytest.raises(KeyFileError, match="is not a webhook's secret") as caught:
        Seal.of_file(str(path))
    assert not text or text not in str(caught.value).replace("whsec_$(", "") or text == "whsec_"


def test_a_secret_that_others_may_read_or_that_is_missing_is_refused(tmp_path: Path) -> None:
    path = secret_file(tmp_path)
    path.chmod(0o640)
    with pytest.raises(KeyFileError, match="chmod 600"):
        Seal.of_file(str(path))
    with pytest.raises(KeyFileError, match="there is no webhook's secret file"):
        Seal.of_file(str(tmp_path / "nothing"))
