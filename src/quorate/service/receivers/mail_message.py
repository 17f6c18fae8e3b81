"""A notice as a mail: headers that the notice's content cannot change, and plain text (pure)."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from email.headerregistry import Address
from email.message import EmailMessage
from email.policy import SMTP
from typing import Any, Final

from quorate.documents.times import time_text
from quorate.model.mail_address import domain_of

SUBJECT_CHARS_MAX: Final = 200
_NAME: Final = "Quorate"
_POLICY: Final = SMTP.clone(cte_type="7bit")
_MS: Final = 1_000


def mail_of(sender: str, to: str, message: str, at_ms: int, data: Mapping[str, Any]) -> bytes:
    """Return the mail of a notice, in the form that is sent.

    ``message`` is the permanent id of the notice, so the Message-ID is the same however often the
    mail is sent. The date of the mail is the date of the event. ``data`` is the notice as JSON,
    with its ledger. A line break in ``data`` never starts a header: control characters in a subject
    become spaces.
    """
    found = EmailMessage(policy=_POLICY)
    user, _, domain = sender.rpartition("@")
    found["From"] = Address(_NAME, user, domain)
    found["To"] = to
    found["Subject"] = subject_of(data)
    found["Date"] = datetime.fromtimestamp(at_ms / _MS, UTC)
    found["Message-ID"] = f"<{message}@{domain_of(sender)}>"
    # Auto-responders do not answer such a mail (RFC 3834).
    found["Auto-Submitted"] = "auto-generated"
    found.set_content(_text(at_ms, data))
    return found.as_bytes()


def subject_of(data: Mapping[str, Any]) -> str:
    """Return one line: the kind, and the run or owner of the notice."""
    about = f"run/{data['run']}" if data["run"] else data["owner"]
    line = f"{data['kind']}: {about}"
    plain = "".join(letter if letter.isprintable() else " " for letter in line)
    return plain[:SUBJECT_CHARS_MAX]


def _text(at_ms: int, data: Mapping[str, Any]) -> str:
    lines = [data["text"], "", f"owner: {data['owner']}"]
    lines += [f"run:   {data['run']}"] if data["run"] else []
    lines += [f"at:    {time_text(at_ms)}", f"id:    {data['id']} of ledger {data['ledger']}"]
    return "\n".join(lines) + "\n"
