"""A mail has only the headers from Quorate, whatever text is in its notice."""

from __future__ import annotations

from email import message_from_bytes
from email.message import EmailMessage
from email.policy import SMTP
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from quorate.model.mail_address import is_address
from quorate.service.receivers.mail_message import SUBJECT_CHARS_MAX, mail_of

SENDER, TO, MESSAGE = "quorate@lab.example", "ada@lab.example", "msg_L_12-0"
HEADERS = {
    "From",
    "To",
    "Subject",
    "Date",
    "Message-ID",
    "Auto-Submitted",
    "Content-Type",
    "Content-Transfer-Encoding",
    "MIME-Version",
}
AT_MS = 1_700_000_000_000
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=400)


def notice(**more: str) -> dict[str, Any]:
    return {
        "ledger": "L",
        "id": "12-0",
        "kind": "run-failed",
        "owner": "rai",
        "run": "train",
        "text": "run/train failed: exit code 1.",
        **more,
    }


def read(mail: bytes) -> EmailMessage:
    return message_from_bytes(mail, policy=SMTP)


def test_a_mail_says_what_happened_to_which_run() -> None:
    found = read(mail_of(SENDER, TO, MESSAGE, AT_MS, notice()))
    assert found["Subject"] == "run-failed: run/train"
    assert (found["From"], found["To"]) == ("Quorate <quorate@lab.example>", TO)
    assert found["Message-ID"] == "<msg_L_12-0@lab.example>"
    assert found["Auto-Submitted"] == "auto-generated"
    assert found["Date"].datetime.timestamp() * 1_000 == AT_MS
    text = found.get_content().replace("\r\n", "\n")
    assert text.startswith("run/train failed: exit code 1.\n\nowner: rai\nrun:   train\n")
    assert text.endswith("id:    12-0 of ledger L\n")


def test_a_mail_is_the_same_bytes_whenever_it_is_made() -> None:
    assert mail_of(SENDER, TO, MESSAGE, AT_MS, notice()) == mail_of(
        SENDER, TO, MESSAGE, AT_MS, notice()
    )


def test_a_notice_of_no_run_names_its_owner() -> None:
    found = read(mail_of(SENDER, TO, MESSAGE, AT_MS, notice(run="", kind="threshold-crossed")))
    assert found["Subject"] == "threshold-crossed: rai"


@pytest.mark.heavy
@given(run=texts, owner=texts, text=texts)
@example(run="x\r\nBcc: eve@evil.example", owner="a", text="t")
@example(run="x\u2028y\x0bz", owner="a", text="\r\n.\r\nMAIL FROM:<>\r\n")
@example(run="ü" * 300, owner="a", text="ü" * 1_200)
def test_content_never_becomes_a_header_and_every_line_fits_smtp(
    run: str, owner: str, text: str
) -> None:
    mail = mail_of(SENDER, TO, MESSAGE, AT_MS, notice(run=run, owner=owner, text=text))
    found = read(mail)
    assert set(found.keys()) == HEADERS
    assert len(found.keys()) == len(HEADERS)
    assert found["To"] == TO
    assert len(found["Subject"]) <= SUBJECT_CHARS_MAX
    assert mail.isascii()
    assert all(len(line) <= 998 for line in mail.split(b"\r\n"))


@given(texts)
@example("ada@lab.example\r\nRCPT TO:<eve@evil.example>")
@example("ada@lab.example\n")
@example("Ada <ada@lab.example>")
@example("ada@lab.example,eve@evil.example")
@example("ada@-lab.example")
@example("ada..b@lab.example")
@example("@lab.example")
@example("ada@")
@example("a" * 65 + "@lab.example")
def test_text_that_is_no_plain_address_is_not_taken(text: str) -> None:
    if is_address(text):
        local, at, domain = text.rpartition("@")
        assert at
        assert text.isascii()
        assert text.isprintable()
        assert not set(text) & set(' <>(),;:"\\[]')
        assert not local.startswith(".")
        assert all(domain.split("."))
    assert not any(each in text for each in "\r\n <,") or not is_address(text)


def test_usual_addresses_are_taken() -> None:
    for each in ("ada@lab.example", "ada.b+gpu@x", "o'neil_1@sub.lab-2.example"):
        assert is_address(each)
    for each in ("ada@-lab.example", "ada..b@lab.example", "@lab.example", "ada@", "ada"):
        assert not is_address(each)
