"""A run that asks for mail is accepted, with a warning if the service will not send it."""

from __future__ import annotations

import pytest

from quorate.operations.answering import answer
from quorate.operations.request_context import RequestContext
from quorate.operations.resources.run_operations import SubmitRun
from quorate.operations.table import OPERATIONS
from tests.unit.operations.ledger_thread import ADA, LedgerThread

NO_MAIL = (
    "warning: mail: this service sends no mail of runs; see the notices with: quorate notices, "
    "or have its operator set mail.server and mail.domains"
)
ELSEWHERE = (
    "warning: mail: this service sends no mail to addresses of lab.example, only to addresses of: "
    "a.example, b.example"
)


@pytest.mark.parametrize(
    ("domains", "to", "notes"),
    [
        (None, "ada@lab.example", ()),
        ((), "ada@lab.example", (NO_MAIL,)),
        ((), None, ()),
        (("a.example", "b.example"), "ada@lab.example", (ELSEWHERE,)),
        (("a.example", "lab.example"), "ada@LAB.example", ()),
    ],
)
@pytest.mark.parametrize("dry_run", [False, True])
def test_mail_that_is_not_sent_is_warned_of(
    *, domains: tuple[str, ...] | None, to: str | None, notes: tuple[str, ...], dry_run: bool
) -> None:
    spec = {"resources": {"gpuType": "H100", "totalGPUs": 1}}
    document = {
        "apiVersion": "quorate.dev/v1",
        "kind": "Run",
        "metadata": {"name": "train"},
        "spec": spec | ({} if to is None else {"mail": {"to": to}}),
    }
    context = RequestContext(LedgerThread().engine, ADA, mail_domains=domains)
    asked = SubmitRun(document=document, dry_run=dry_run)
    found = answer(context, OPERATIONS["submit-run"], asked)
    assert found.notes == notes
