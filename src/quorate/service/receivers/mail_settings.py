"""Mail in the configuration: the SMTP server, and which address gets which notices."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from quorate.adapters.key_file import read_private
from quorate.model.mail_address import ADDRESS_CHARS_MAX, DOMAIN, is_address
from quorate.model.notice_kinds import NoticeKind
from quorate.ports.errors import KeyFileError
from quorate.service import config_values as values
from quorate.service.config_values import Address, WrongSettingError
from quorate.service.metrics.metric_table import MAIL_RECEIVERS_MAX
from quorate.service.receivers.receiver_tables import (
    Readers,
    identity,
    kinds,
    receiver_name,
    tables_of,
)

RUNS: Final = "runs"
"""The name of the receiver for the addresses that runs name."""
_PASSWORD_CHARS_MAX: Final = 1_024


class MailTls(StrEnum):
    """How the connection is encrypted: from the first byte, by STARTTLS, or not."""

    TLS = "tls"
    STARTTLS = "starttls"
    NONE = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class MailServer:
    """The SMTP server and its login.

    An empty ``user`` means no login. An empty ``ca`` means the system's authorities. Runs may name
    only addresses in ``domains``.
    """

    address: Address
    sender: str
    tls: MailTls = MailTls.STARTTLS
    ca: str = ""
    user: str = ""
    password_file: str = ""
    timeout_s: float = 30.0
    domains: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Password:
    """The password of the user; never shown."""

    text: str = field(repr=False)

    @classmethod
    def of_file(cls, path: str) -> Password:
        """Return the password in a file of one line; raises ``KeyFileError``."""
        found = read_private(
            Path(path), "mail password file", ("the service cannot send mail without it")
        )
        try:
            text = found.decode("utf-8").removesuffix("\n").removesuffix("\r")
        except UnicodeDecodeError:
            text = ""
        if not text or not text.isprintable() or len(text) > _PASSWORD_CHARS_MAX:
            raise KeyFileError(
                f"{path} is not a password: one line of up to {_PASSWORD_CHARS_MAX} characters; "
                "write the password of mail.user into it"
            )
        return cls(text)


@dataclass(frozen=True, slots=True, kw_only=True)
class MailReceiver:
    """A mail receiver; ``tenant`` includes the tenants below it.

    An empty ``tenant`` means all tenants, and empty ``kinds`` mean all kinds.
    """

    name: str
    to: str
    tenant: str = ""
    kinds: tuple[NoticeKind, ...] = ()

    @property
    def digest(self) -> str:
        """A digest of address, tenant and kinds; with the name, it identifies the receiver."""
        return identity(self.tenant, *sorted(self.kinds), self.to)


def mail_receivers_of(given: object, where: str) -> tuple[tuple[MailReceiver, ...], list[str]]:
    """Return the mail receivers of a configuration, and all faults.

    ``where`` names the configuration's file in the faults.
    """
    found, wrong = tables_of(given, f"{where}: mail.receivers", MAIL_RECEIVERS_MAX, _readers)
    return tuple(MailReceiver(**each) for each in found), wrong


def _readers(tree: Mapping[str, Any]) -> Readers:
    del tree
    return {
        "name": (_name, None),
        "to": (mail_address, None),
        "tenant": (values.text, ""),
        "kinds": (kinds, ()),
    }


def _name(value: object) -> str:
    found = receiver_name(value)
    if found == RUNS:
        raise WrongSettingError(
            f"must not be {RUNS}: the name is reserved for addresses that runs give"
        )
    return found


def mail_faults(server: MailServer | None, given: Mapping[str, object]) -> list[str]:
    """Return the faults of mail settings that contradict each other.

    ``given`` has, by key, the settings that need a mail server.
    """
    if server is None:
        return [
            f"{key}: has no effect without a mail server; give mail.server too, or leave this out"
            for key, value in given.items()
            if value
        ]
    wrong = []
    if not server.sender:
        wrong.append("mail.from: mail.server needs a sender; give its address")
    if bool(server.user) != bool(server.password_file):
        wrong.append("mail.user and mail.password_file belong together; give both, or neither")
    if server.tls is MailTls.NONE and server.ca:
        wrong.append("mail.ca: without TLS Quorate checks no certificate; leave it out")
    if server.tls is MailTls.NONE and server.user and not server.address.is_loopback:
        wrong.append(
            "mail.tls: none: the password could be read on the way; set starttls or tls, or leave "
            "out mail.user and mail.password_file"
        )
    if not server.domains and not given["mail.receivers"]:
        wrong.append(
            "mail.server: has no effect without receivers; give mail.domains, the domains whose "
            "addresses runs may name, or [[mail.receivers]]"
        )
    return wrong


def mail_address(value: object) -> str:
    """Return a mail address without a display name."""
    if isinstance(value, str) and is_address(value):
        return value
    raise WrongSettingError(
        f"must be a mail address of up to {ADDRESS_CHARS_MAX} characters, such as ops@lab.example"
    )


def mail_domains(value: object) -> str:
    """Return domains separated by commas; ``value`` is a list of domains, or a text with commas."""
    found = value.split(",") if isinstance(value, str) else value
    words = found if isinstance(found, list) else []
    cleaned = [each.strip().lower() if isinstance(each, str) else "" for each in words]
    if cleaned and all(map(DOMAIN.fullmatch, cleaned)):
        return ",".join(dict.fromkeys(cleaned))
    raise WrongSettingError("must be domains separated by commas, such as lab.example")


FIELDS: Final = tuple(_readers({}))
"""The names of all fields of a mail receiver's table."""
