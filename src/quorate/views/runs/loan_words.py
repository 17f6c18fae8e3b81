"""What a run borrows and on which terms, as lines and as trees. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from quorate.core.lifecycle.loan_terms import LoanTerms
from quorate.documents.times import duration_text, time_text
from quorate.views.word_forms import gpus, until


def loan_lines(loans: Iterable[LoanTerms], now_ms: int) -> list[str]:
    """Return one line for each loan: from which envelope, how much, and on which terms."""
    return [
        f"borrowed from {loan.payer}: {gpus(loan.gpus)}, {_terms(loan, now_ms)}" for loan in loans
    ]


def _terms(loan: LoanTerms, now_ms: int) -> str:
    if loan.due_ms is not None:
        return f"recalled for {until(loan.due_ms, now_ms)}; after that only others pay for it"
    if loan.notice_ms is None:
        return "not to be recalled"
    return f"can be recalled with {duration_text(loan.notice_ms)} notice"


def loan_trees(loans: Iterable[LoanTerms]) -> list[dict[str, Any]]:
    """Return loans for programs; without a recall ``recallNotice`` or ``due`` is null."""
    return [
        {
            "envelope": loan.payer,
            "gpus": loan.gpus,
            "recallNotice": None if loan.notice_ms is None else duration_text(loan.notice_ms),
            "due": None if loan.due_ms is None else time_text(loan.due_ms),
        }
        for loan in loans
    ]
