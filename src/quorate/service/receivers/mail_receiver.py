"""Mail as a receiver: one configured address, or the address that each run names."""

from __future__ import annotations

import logging
from typing import Any, Final

import msgspec

from quorate.model.mail_address import domain_of
from quorate.model.notice_kinds import RUN_KINDS
from quorate.service.receivers.delivery_result import Posted
from quorate.service.receivers.mail_message import mail_of
from quorate.service.receivers.mail_send import Mailer
from quorate.service.receivers.mail_settings import RUNS, MailReceiver
from quorate.service.receivers.notice_sink import Addressed
from quorate.service.receivers.receiver_tables import identity
from quorate.service.reply import to_json
from quorate.views.notices.notice import KnownFew, Notice, notice_tree

_LOG = logging.getLogger(__name__)

KIND: Final = "mail"


class _Mail:
    """Sends an addressed notice as a mail.

    The mail is made only when it is sent. So a notice that has waited is sent with the sender that
    is configured at that time.
    """

    kind = KIND

    def __init__(self, mailer: Mailer, sender: str) -> None:
        self._mailer = mailer
        self._sender = sender

    def send(self, message: str, body: bytes, now_ms: int) -> Posted:
        """Send the mail to the server, and return the result."""
        del now_ms
        tree: dict[str, Any] = msgspec.json.decode(body)
        mail = mail_of(self._sender, tree["to"], message, tree["at_ms"], tree["data"])
        return self._mailer.send(tree["to"], mail)

    def abort(self) -> None:
        """Close the connection under way, from another thread, and send nothing more."""
        self._mailer.abort()


class ConfiguredMail(_Mail):
    """Mails one configured address; the notices of each owner keep their order."""

    def __init__(self, receiver: MailReceiver, mailer: Mailer, sender: str) -> None:
        super().__init__(mailer, sender)
        self._receiver = receiver
        self.name = receiver.name
        self.digest = receiver.digest
        self.tenant = receiver.tenant

    def addressed(self, notice: Notice, known: KnownFew, ledger_id: str) -> Addressed | None:
        """Return the notice for this address; None if the address gets no notices of this kind."""
        del known
        if self._receiver.kinds and notice.kind not in self._receiver.kinds:
            return None
        return Addressed(notice.owner, _body(self._receiver.to, notice, ledger_id))


class RunMails(_Mail):
    """Mails the notices of runs, in order, to the addresses that the runs name.

    Only addresses in allowed domains get mail.
    """

    name = RUNS
    digest = identity(RUNS)
    tenant = ""

    def __init__(self, domains: tuple[str, ...], mailer: Mailer, sender: str) -> None:
        super().__init__(mailer, sender)
        self._domains = frozenset(domains)

    def addressed(self, notice: Notice, known: KnownFew, ledger_id: str) -> Addressed | None:
        """Return the notice for the address that its run names; None if no mail is to be sent."""
        mail = known.run(notice.run).mail if notice.kind in RUN_KINDS else None
        if mail is None or notice.kind not in mail.kinds:
            return None
        if domain_of(mail.to) not in self._domains:
            _LOG.warning(
                "mail %s: notice %s of run %s is not sent: %s is not in mail.domains; add the "
                "domain, or inform the submitter",
                *(RUNS, notice.name, notice.run, domain_of(mail.to)),
            )
            return None
        return Addressed(f"{notice.owner} {mail.to}", _body(mail.to, notice, ledger_id))


def _body(to: str, notice: Notice, ledger_id: str) -> bytes:
    data = {"ledger": ledger_id, **notice_tree(notice)}
    return to_json({"to": to, "at_ms": notice.at_ms, "data": data}).rstrip(b"\n")
