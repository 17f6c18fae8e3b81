"""Sends one mail to a server, within a time limit, and returns the result."""

from __future__ import annotations

import smtplib
import socket
import ssl
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final

from quorate.service.receivers.bounded_link import BoundedLink, Found, addresses
from quorate.service.receivers.delivery_result import Posted, Result
from quorate.service.receivers.mail_settings import MailServer, MailTls, Password

_READY: Final = 220
_OK: Final = range(200, 300)
_CLOSING: Final = 421
_FOR_EVER: Final = range(500, 600)
_WORDS_MAX: Final = 200


class _UnusableServerError(Exception):
    """The server accepts no mail now; the text says why."""


class Mailer:
    """Sends mails to one server, one at a time, each on a separate connection.

    The time limit applies to the whole exchange, however slowly the server answers. A mail counts
    as delivered when the server has accepted it. The server reports later failures to the sender.
    """

    def __init__(
        self,
        server: MailServer,
        password: Password | None,
        resolve: Callable[[str, int], Sequence[Found]] = addresses,
    ) -> None:
        self._server = server
        self._password = password
        self._tls = (
            None
            if server.tls is MailTls.NONE
            else ssl.create_default_context(cafile=server.ca or None)
        )
        at = server.address
        self._link = BoundedLink(at.host, at.port, server.timeout_s, resolve)

    def send(self, to: str, mail: bytes) -> Posted:
        """Send ``mail`` to the one address ``to``, and return the result."""
        link = self._link
        try:
            with link.bounded():
                reached = link.connect()
                smtp = smtplib.SMTP(
                    local_hostname=_own_name(reached), timeout=self._server.timeout_s
                )
                try:
                    self._greet(smtp, reached)
                    return self._handed_in(smtp, to, mail)
                finally:
                    smtp.close()
        except TimeoutError:
            return Posted(Result.UNREACHABLE, link.late_words)
        except _UnusableServerError as error:
            return Posted(Result.UNREACHABLE, str(error))
        except (OSError, smtplib.SMTPException) as error:
            # smtplib hides the time-out behind an error of its own.
            is_late = link.is_late or isinstance(error.__context__, TimeoutError)
            return Posted(Result.UNREACHABLE, link.late_words if is_late else _words(error))

    def abort(self) -> None:
        """Close the connection under way, from another thread, and send nothing more."""
        self._link.abort()

    def _greet(self, smtp: smtplib.SMTP, reached: socket.socket) -> None:
        """Prepare the connection ``reached`` for sending mail: greeting, TLS and login."""
        server = self._server
        if self._tls is not None and server.tls is MailTls.TLS:
            reached = self._link.secured(reached, self._tls)
        smtp.sock = reached
        code, words = smtp.getreply()
        if code != _READY:
            raise _UnusableServerError(f"the server accepts no mail now: {_reply(code, words)}")
        smtp.ehlo_or_helo_if_needed()
        if self._tls is not None and server.tls is MailTls.STARTTLS:
            self._start_tls(smtp, reached, self._tls)
        self._log_in(smtp)

    def _start_tls(
        self, smtp: smtplib.SMTP, reached: socket.socket, context: ssl.SSLContext
    ) -> None:
        if not smtp.has_extn("starttls"):
            raise _UnusableServerError(
                "the server offers no STARTTLS; correct mail.server, or set mail.tls to tls"
            )
        code, words = smtp.docmd("STARTTLS")
        if code != _READY:
            raise _UnusableServerError(f"the server starts no TLS: {_reply(code, words)}")
        # Answers that the server sent before TLS must be discarded (RFC 3207).
        if smtp.file is not None:
            smtp.file.close()
            smtp.file = None
        smtp.sock = self._link.secured(reached, context)
        smtp.helo_resp = smtp.ehlo_resp = None
        smtp.esmtp_features = {}
        smtp.does_esmtp = False
        smtp.ehlo_or_helo_if_needed()

    def _log_in(self, smtp: smtplib.SMTP) -> None:
        if self._password is None:
            return
        try:
            smtp.login(self._server.user, self._password.text)
        except smtplib.SMTPAuthenticationError as error:
            reply = _reply(error.smtp_code, error.smtp_error)
            raise _UnusableServerError(
                f"the server refuses mail.user with the password of mail.password_file: {reply}"
            ) from None
        except smtplib.SMTPNotSupportedError:
            raise _UnusableServerError(
                "the server supports no login; leave out mail.user and mail.password_file"
            ) from None

    def _handed_in(self, smtp: smtplib.SMTP, to: str, mail: bytes) -> Posted:
        code, words = smtp.mail(self._server.sender)
        if code not in _OK:
            raise _UnusableServerError(
                f"the server refuses mail.from as the sender: {_reply(code, words)}"
            )
        code, words = smtp.rcpt(to)
        if code not in _OK:
            return _refused("the address", code, words)
        try:
            code, words = smtp.data(mail)
        except smtplib.SMTPDataError as error:
            return _refused("the mail", error.smtp_code, error.smtp_error)
        if code not in _OK:
            return _refused("the mail", code, words)
        with suppress(
            OSError, smtplib.SMTPException
        ):  # The mail has been accepted, whatever follows.
            smtp.quit()
        return Posted(Result.DELIVERED)


def _refused(what: str, code: int, words: bytes | str) -> Posted:
    why = f"the server refuses {what}: {_reply(code, words)}"
    if code == _CLOSING:
        return Posted(Result.UNREACHABLE, why)
    return Posted(Result.REJECTED if code in _FOR_EVER else Result.REFUSED, why)


def _own_name(reached: socket.socket) -> str:
    """Return the name of this machine for the greeting: its host name, or its address."""
    name = socket.gethostname()
    if "." in name:
        return name
    own = reached.getsockname()[0]
    return f"[IPv6:{own}]" if ":" in own else f"[{own}]"


def _reply(code: int, words: bytes | str) -> str:
    """Return the server's answer on one line."""
    text = words.decode("utf-8", "replace") if isinstance(words, bytes) else words
    plain = "".join(letter if letter.isprintable() else " " for letter in text)
    return f"{code} {plain}".strip()[:_WORDS_MAX]


def _words(error: Exception) -> str:
    """Return an error of the connection on one line."""
    if isinstance(error, smtplib.SMTPResponseException):
        return _reply(error.smtp_code, error.smtp_error)
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the server's certificate is not trusted: {error.verify_message}; set mail.ca"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return _reply(0, str(error)).removeprefix("0 ")
