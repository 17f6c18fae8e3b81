"""A mail is sent by real SMTP in time, or the result names the obstacle."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from pathlib import Path
from threading import Event

import pytest

from quorate.service.config_values import Address
from quorate.service.receivers import mail_settings
from quorate.service.receivers.delivery_result import Posted, Result
from quorate.service.receivers.mail_send import Mailer
from quorate.service.receivers.mail_settings import MailTls, Password
from tests.bounds import WAIT_S
from tests.service.certificates import certificate
from tests.service.mail_server import PASSWORD, USER, MailServer, mail_server

BODY = b"Subject: x\r\n\r\nOne.\r\n.\r\n..two\r\n"
TO = "ada@lab.example"


def settings(server: MailServer, **more: object) -> mail_settings.MailServer:
    fields = {
        "address": Address(host="localhost", port=server.port),
        "sender": "quorate@lab.example",
        "tls": MailTls.NONE,
        **more,
    }
    return mail_settings.MailServer(**fields)  # type: ignore[arg-type]


def server_side(folder: Path) -> tuple[ssl.SSLContext, str]:
    """Return the TLS settings of a server, and the file of its authority."""
    chain, key = certificate(folder)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(chain, key)
    return context, str(chain)


def test_a_mail_arrives_byte_by_byte_with_its_dots() -> None:
    with mail_server() as server:
        assert Mailer(settings(server), None).send(TO, BODY) == Posted(Result.DELIVERED)
    (mail,) = server.mails
    assert (mail.sender, mail.to, mail.data) == ("quorate@lab.example", (TO,), BODY)
    assert server.commands[-1].upper() == "QUIT"


@pytest.mark.parametrize("tls", [MailTls.TLS, MailTls.STARTTLS])
def test_the_way_is_encrypted_before_a_password_is_sent(tmp_path: Path, tls: MailTls) -> None:
    context, ca = server_side(tmp_path)
    with mail_server(context, is_tls_first=tls is MailTls.TLS, takes_login=True) as server:
        mailer = Mailer(settings(server, tls=tls, ca=ca, user=USER), Password(PASSWORD))
        assert mailer.send(TO, BODY) == Posted(Result.DELIVERED)
        assert mailer.send(TO, BODY) == Posted(Result.DELIVERED)
    assert [(mail.is_encrypted, mail.user) for mail in server.mails] == [(True, USER)] * 2
    if tls is MailTls.STARTTLS:
        words = [command.partition(" ")[0].upper() for command in server.commands]
        assert words.index("STARTTLS") < words.index("AUTH")


def test_a_certificate_that_no_authority_vouches_for_is_refused(tmp_path: Path) -> None:
    context, _ = server_side(tmp_path)
    with mail_server(context) as server:
        found = Mailer(settings(server, tls=MailTls.STARTTLS), None).send(TO, BODY)
    assert found.result is Result.UNREACHABLE
    assert "certificate is not trusted" in found.why
    assert "mail.ca" in found.why
    assert server.mails == []


def test_a_server_without_starttls_gets_no_mail_in_the_clear() -> None:
    with mail_server(takes_login=True) as server:
        mailer = Mailer(settings(server, tls=MailTls.STARTTLS, user=USER), Password(PASSWORD))
        found = mailer.send(TO, BODY)
    assert found.result is Result.UNREACHABLE
    assert "offers no STARTTLS" in found.why
    assert [each for each in server.commands if each.upper().startswith(("AUTH", "MAIL"))] == []


def test_a_wrong_password_names_the_settings_and_not_itself() -> None:
    with mail_server(takes_login=True) as server:
        found = Mailer(settings(server, user=USER), Password("secret word")).send(TO, BODY)
    assert found.result is Result.UNREACHABLE
    assert "mail.password_file: 535" in found.why
    assert "secret word" not in found.why
    assert "secret word" not in repr(Password("secret word"))


def test_a_server_that_takes_no_login_says_which_settings_to_leave_out() -> None:
    with mail_server() as server:
        found = Mailer(settings(server, user=USER), Password(PASSWORD)).send(TO, BODY)
    assert found == Posted(
        Result.UNREACHABLE,
        "the server supports no login; leave out mail.user and mail.password_file",
    )


@pytest.mark.parametrize(
    ("verb", "answer", "result", "why"),
    [
        ("CONNECT", "421 busy", Result.UNREACHABLE, "accepts no mail now: 421 busy"),
        ("CONNECT", "554 go away", Result.UNREACHABLE, "accepts no mail now: 554 go away"),
        ("MAIL", "550 not you", Result.UNREACHABLE, "refuses mail.from as the sender: 550 not you"),
        ("RCPT", "550 5.1.1 who?", Result.REJECTED, "refuses the address: 550 5.1.1 who?"),
        ("RCPT", "451 greylisted", Result.REFUSED, "refuses the address: 451 greylisted"),
        ("RCPT", "421 too many", Result.UNREACHABLE, "refuses the address: 421 too many"),
        ("DATA", "554 no", Result.REJECTED, "refuses the mail: 554 no"),
        (".", "552 too large", Result.REJECTED, "refuses the mail: 552 too large"),
        (".", "452 disk full", Result.REFUSED, "refuses the mail: 452 disk full"),
        ("QUIT", "500 what?", Result.DELIVERED, ""),
    ],
)
def test_what_is_refused_is_told_apart_from_a_server_that_takes_nothing(
    verb: str, answer: str, result: Result, why: str
) -> None:
    with mail_server() as server:
        server.refuse = lambda command: answer if command.upper().startswith(verb) else None
        found = Mailer(settings(server), None).send(TO, BODY)
    assert (found.result, found.why.removeprefix("the server ")) == (result, why)


def test_a_server_that_hangs_is_left_after_its_time() -> None:
    is_left = Event()

    def hang(_: str) -> None:
        is_left.wait(WAIT_S)

    with mail_server() as server:
        server.refuse = hang
        found = Mailer(settings(server, timeout_s=0.3), None).send(TO, BODY)
        is_left.set()
    assert found == Posted(Result.UNREACHABLE, "no answer within 0.3 s")


def test_a_mailer_that_is_aborted_ends_at_once_and_sends_no_more() -> None:
    is_over, waits = Event(), list[Callable[[], None]]()

    def abort(command: str) -> None:
        if command.upper().startswith("RCPT"):
            waits[0]()
            is_over.wait(WAIT_S)

    with mail_server() as server:
        server.refuse = abort
        mailer = Mailer(settings(server, timeout_s=WAIT_S), None)
        waits.append(mailer.abort)
        found = mailer.send(TO, BODY)
        is_over.set()
        again = mailer.send(TO, BODY)
    assert found.result is Result.UNREACHABLE
    assert again == Posted(Result.UNREACHABLE, "stopping")
    assert server.mails == []


def test_an_address_where_no_server_listens_is_said_in_words() -> None:
    with mail_server() as server:
        gone = settings(server)
    found = Mailer(gone, None).send(TO, BODY)
    assert found == Posted(Result.UNREACHABLE, "Connection refused")
