"""A mail server on a free port of loopback: speaks SMTP, keeps mail, and refuses on request."""

from __future__ import annotations

import base64
import ssl
from collections.abc import Callable
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass, field
from email import message_from_bytes
from email.message import EmailMessage
from email.policy import SMTP
from pathlib import Path
from socketserver import StreamRequestHandler, ThreadingTCPServer
from threading import Condition, Thread

from tests.bounds import WAIT_S
from tests.service.receiver import secret_file

USER, PASSWORD = "quorate", "correct horse"


@dataclass(frozen=True, slots=True)
class Mail:
    """One accepted mail: its envelope, its bytes, and how it arrived."""

    sender: str
    to: tuple[str, ...]
    data: bytes
    is_encrypted: bool
    user: str

    @property
    def message(self) -> EmailMessage:
        """The mail, parsed like by mail programs."""
        return message_from_bytes(self.data, policy=SMTP)

    @property
    def text(self) -> str:
        """Its text."""
        found: str = self.message.get_content()
        return found.replace("\r\n", "\n")


@dataclass
class MailServer:
    """``refuse`` gets each command and returns the answer to give instead, or None.

    The end of a mail is the command ``.``; the greeting answers the command ``CONNECT``.
    """

    tls: ssl.SSLContext | None = None
    is_tls_first: bool = False
    takes_login: bool = False
    mails: list[Mail] = field(default_factory=list)
    commands: list[str] = field(default_factory=list)
    refuse: Callable[[str], str | None] = lambda _: None

    def __post_init__(self) -> None:
        self._came = Condition()
        self._server = _Server(self)
        self._thread = Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()

    @property
    def port(self) -> int:
        """Its port."""
        return int(self._server.server_address[1])

    def wait(self, count: int, timeout_s: float = WAIT_S) -> list[Mail]:
        """Return the mail as soon as there are at least ``count``."""
        with self._came:
            assert self._came.wait_for(lambda: len(self.mails) >= count, timeout_s), self.commands
            return list(self.mails)

    def take(self, mail: Mail) -> None:
        """Keep a mail."""
        with self._came:
            self.mails.append(mail)
            self._came.notify_all()

    def close(self) -> None:
        """Stop listening."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(WAIT_S)
        assert not self._thread.is_alive()


class _Server(ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True

    def __init__(self, mail: MailServer) -> None:
        self.mail = mail
        super().__init__(("127.0.0.1", 0), _Conversation)


class _Conversation(StreamRequestHandler):
    timeout = WAIT_S

    def handle(self) -> None:
        assert isinstance(self.server, _Server)
        self.mail = self.server.mail
        self.is_encrypted = False
        self.user, self.sender, self.to = "", "", list[str]()
        try:
            if self.mail.is_tls_first:
                self.encrypt()
            if self.answer("CONNECT", "220 mail.test ESMTP"):
                self.talk()
        except (OSError, ValueError):
            return  # The other side closed the connection.
        finally:
            self.connection.close()

    def encrypt(self) -> None:
        assert self.mail.tls is not None
        self.request = self.connection = self.mail.tls.wrap_socket(
            self.connection, server_side=True
        )
        self.rfile = self.connection.makefile("rb")
        self.wfile = self.connection.makefile("wb", 0)
        self.is_encrypted = True

    def answer(self, command: str, words: str) -> bool:
        """Answer a command with ``words`` or as the test says; return whether with ``words``."""
        self.mail.commands.append(command)
        refusal = self.mail.refuse(command)
        self.wfile.write(f"{words if refusal is None else refusal}\r\n".encode())
        return refusal is None

    def talk(self) -> None:
        verbs = {
            "EHLO": self.hello,
            "STARTTLS": self.start_tls,
            "AUTH": self.log_in,
            "MAIL": self.take_sender,
            "RCPT": self.take_address,
            "DATA": self.take_mail,
        }
        while line := self.rfile.readline(2_000):
            command = line.decode("ascii").rstrip("\r\n")
            verb, _, rest = command.partition(" ")
            if verb.upper() == "QUIT":
                self.answer(command, "221 bye")
                return
            if verb.upper() in verbs:
                verbs[verb.upper()](command, rest)
            else:
                self.answer(command, "502 not known")

    def hello(self, command: str, _: str) -> None:
        offers = ["mail.test", "SIZE 1000000"]
        if self.mail.tls is not None and not self.is_encrypted:
            offers.append("STARTTLS")
        if self.mail.takes_login:
            offers.append("AUTH PLAIN")
        *before, last = offers
        lines = [*(f"250-{each}" for each in before), f"250 {last}"]
        self.answer(command, "\r\n".join(lines))

    def start_tls(self, command: str, _: str) -> None:
        if self.answer(command, "220 go ahead"):
            self.encrypt()

    def log_in(self, _: str, rest: str) -> None:
        user, password = base64.b64decode(rest.split()[1]).decode().split("\0")[1:]
        if (user, password) == (USER, PASSWORD):
            self.user = user
            self.answer("AUTH", "235 welcome")
        else:
            self.answer("AUTH", "535 5.7.8 wrong user or password")

    def take_sender(self, command: str, rest: str) -> None:
        if self.answer(command, "250 ok"):
            self.sender = _bracketed(rest)

    def take_address(self, command: str, rest: str) -> None:
        if self.answer(command, "250 ok"):
            self.to.append(_bracketed(rest))

    def take_mail(self, command: str, _: str) -> None:
        if not self.answer(command, "354 end with a dot"):
            return
        lines: list[bytes] = []
        while (line := self.rfile.readline(2_000)) not in (b".\r\n", b""):
            lines.append(line[1:] if line.startswith(b".") else line)
        data = b"".join(lines)
        mail = Mail(self.sender, tuple(self.to), data, self.is_encrypted, self.user)
        refusal = self.mail.refuse(".")
        if refusal is None:
            self.mail.take(mail)
        self.wfile.write(f"{'250 taken' if refusal is None else refusal}\r\n".encode())


def _bracketed(text: str) -> str:
    return text.partition("<")[2].partition(">")[0]


def mail_server(
    tls: ssl.SSLContext | None = None, *, is_tls_first: bool = False, takes_login: bool = False
) -> AbstractContextManager[MailServer]:
    """Listen until the end of the block."""
    return closing(MailServer(tls, is_tls_first=is_tls_first, takes_login=takes_login))


def password_file(folder: Path, text: str = PASSWORD) -> Path:
    """Return the path of a new file with a password, readable only by its owner."""
    return secret_file(folder, text, "mail.password")
