"""The loans of a run and their terms, as lines and as trees. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from quorate.core.lifecycle.loan_terms import LoanTerms
from quorate.documents.times import duration_text, time_text
from quorate.views.word_forms import gpus, until


def loan_lines(loans: Iterable[LoanTerms], now_ms: int) -> list[str]:
    """Return one line for each loan: its envelope, its GPUs, and its terms."""
    return [
        f"borrowed from {loan.payer}: {gpus(loan.gpus)}, {_terms(loan, now_ms)}" for loan in loans
    ]


def _terms(loan: LoanTerms, now_ms: int) -> str:
    if loan.due_ms is not None:
        return f"recalled; the lender pays until {until(loan.due_ms, now_ms)}"
    if loan.notice_ms is None:
        return "cannot be recalled"
    return f"can be recalled with {duration_text(loan.notice_ms)} notice"


def loan_trees(loans: Iterable[LoanTerms]) -> list[dict[str, Any]]:
    """Return loans for programs; ``recallNotice`` and ``due`` are null if they do not apply."""
    return [
        {
            "envelope": loan.payer,
            "gpus": loan.gpus,
            "recallNotice": None if loan.notice_ms is None else duration_text(loan.notice_ms),
            "due": None if loan.due_ms is None else time_text(loan.due_ms),
        }
        for loan in loans
    ]
