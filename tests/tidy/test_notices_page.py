"""docs/notices.md lists every kind, and its example receiver accepts only genuine notices."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from dataclasses import fields

import pytest

from quorate.model.notice_kinds import NoticeKind
from quorate.service.receivers import mail_settings
from quorate.service.receivers.delivery_result import Posted, Result
from quorate.service.receivers.mail_settings import MailReceiver
from quorate.service.receivers.webhook import FIELDS, Seal, Webhook
from quorate.service.receivers.webhook_post import Poster
from tests.bounds import WAIT_S, started, until
from tests.service.program import reserved_port
from tests.service.receiver import KEY, SECRET
from tests.tidy.tree import ROOT, code_words, fenced_blocks, table_rows

PAGE = (ROOT / "docs/notices.md").read_text(encoding="utf-8")
SETTINGS = (ROOT / "docs/reference/configuration.md").read_text(encoding="utf-8")
LINES_MAX = 26
BODY = b'{"type":"run-started","data":{"text":"run/train started"}}'


def test_the_page_lists_exactly_the_kinds_of_the_code() -> None:
    rows = table_rows(PAGE, "Kinds")
    assert [code_words(row[0]) for row in rows] == [[kind.value] for kind in NoticeKind]
    assert [row[0] for row in rows if not all(row)] == []


def test_the_reference_lists_exactly_the_fields_of_a_webhook() -> None:
    listed = [code_words(row[0])[0] for row in table_rows(SETTINGS, "Webhooks")]
    assert listed == list(FIELDS)
    known = {each.name for each in fields(Webhook)}
    assert known == {"timeout_s" if each == "timeout" else each for each in listed} - {"insecure"}


def test_the_reference_lists_exactly_the_fields_of_a_receiver_of_mail() -> None:
    listed = [code_words(row[0])[0] for row in table_rows(SETTINGS, "Mail")]
    assert listed == list(mail_settings.FIELDS) == [each.name for each in fields(MailReceiver)]


@pytest.mark.slow
def test_the_receiver_of_the_page_prints_ours_once_and_refuses_others() -> None:
    (code,) = fenced_blocks(PAGE, "python")
    assert len(code.splitlines()) <= LINES_MAX
    with (
        reserved_port() as port,
        started(
            [sys.executable, "-c", code],
            env={**os.environ, "SECRET": SECRET, "PORT": str(port)},
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        ) as receiver,
    ):
        poster = Poster(f"http://127.0.0.1:{port}/", WAIT_S)
        now_s, ours = int(time.time()), Seal(KEY)
        headers = ours.headers("msg_1", now_s, BODY)
        until(
            lambda: poster.post(headers, BODY).result is Result.DELIVERED,
            "the receiver takes ours",
            server=receiver,
        )
        assert poster.post(headers, BODY).result is Result.DELIVERED
        for wrong, body in (
            (headers, BODY.replace(b"train", b"other")),
            (Seal(b"another key").headers("msg_2", now_s, BODY), BODY),
            (ours.headers("msg_3", now_s - 3_600, BODY), BODY),
            (headers | {"webhook-id": "msg_4"}, BODY),
        ):
            assert poster.post(wrong, body) == Posted(Result.REFUSED, "status 401")
        receiver.terminate()
        out, _ = receiver.communicate(timeout=WAIT_S)
    assert out == "run/train started\n"
