"""The kinds of notices, named as in documents, settings and requests."""

from __future__ import annotations

from typing import Final

from quorate.model.closed_words import Word


class NoticeKind(Word):
    """The subject of a notice. docs/notices.md lists the same kinds."""

    RUN_STARTED = "run-started"
    START_MOVED = "start-moved"
    RUN_CUT = "run-cut"
    LOAN_RECALLED = "loan-recalled"
    LOAN_RETURNING = "loan-returning"
    RECALL_WITHDRAWN = "recall-withdrawn"
    CONFLICT_ANNOUNCED = "conflict-announced"
    CONFLICT_WITHDRAWN = "conflict-withdrawn"
    LOTTERY_DECLARED = "lottery-declared"
    LOTTERY_WON = "lottery-won"
    LOTTERY_LOST = "lottery-lost"
    THRESHOLD_CROSSED = "threshold-crossed"
    RUN_COMPLETED = "run-completed"
    RUN_FAILED = "run-failed"
    NODE_LOST = "node-lost"
    MONEY_ENDED = "money-ended"
    QUOTA_PARKED = "quota-parked"


RUN_KINDS: Final = (
    NoticeKind.RUN_STARTED,
    NoticeKind.START_MOVED,
    NoticeKind.RUN_CUT,
    NoticeKind.LOAN_RECALLED,
    NoticeKind.RECALL_WITHDRAWN,
    NoticeKind.LOTTERY_LOST,
    NoticeKind.RUN_COMPLETED,
    NoticeKind.RUN_FAILED,
    NoticeKind.NODE_LOST,
    NoticeKind.MONEY_ENDED,
    NoticeKind.QUOTA_PARKED,
)
"""The kinds of notices about one run, which the submitter of that run can receive by mail.

The other kinds are about several runs, or about no run. ``loan-returning`` names a run of the
borrower, but is sent to the lender.
"""
