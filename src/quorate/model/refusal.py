"""Refusals: values that say why a request or a start was refused, with the numbers.

Codes are public and never change, because they appear in ledgers, scripts and alerts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, assert_never

from msgspec import Struct

from quorate.model.closed_words import Word, counted


class RefusalCode(Word):
    """The stable code of a refusal."""

    NO_ENVELOPE = "no-envelope"
    INSUFFICIENT_FUNDS = "insufficient-funds"
    BORROW_LIMIT = "borrow-limit"
    NO_NODES = "no-nodes"
    INSUFFICIENT_CAPACITY = "insufficient-capacity"
    NO_SINGLE_DOMAIN = "no-single-domain"
    FUNDS_ELSEWHERE = "funds-elsewhere"
    SEARCH_LIMIT = "search-limit"
    MAX_NODES = "max-nodes"
    MAX_CONCURRENT_RUNS = "max-concurrent-runs"
    SENSITIVE_POOL_SIZE = "sensitive-pool-size"
    WAITING_FOR_QUOTA = "waiting-for-quota"
    RESERVED = "reserved"
    JUST_CUT = "just-cut"
    START_REFUSED = "start-refused"
    NOT_RESOLVABLE = "not-resolvable"
    WAITING_FOR_UPSTREAM = "waiting-for-upstream"
    UPSTREAM_FAILED = "upstream-failed"
    INVALID = "invalid"
    UNKNOWN_NAME = "unknown-name"
    ALREADY_EXISTS = "already-exists"
    CONFLICT = "conflict"
    STALE_VERSION = "stale-version"
    KEY_REUSED = "key-reused"
    NOT_RUNNING = "not-running"
    UNSUPPORTED = "unsupported"
    NEXT_ROUND = "next-round"
    SLO_INFEASIBLE = "slo-infeasible"


class Shortage(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A domain or a payer that has too few GPUs: ``available`` of the ``wanted`` GPUs.

    ``limit`` names the limit that determines ``available``.
    """

    where: str
    wanted: int = 0
    available: int = 0
    limit: str = ""

    @property
    def short(self) -> int:
        """The number of missing GPUs; never negative."""
        return max(0, self.wanted - self.available)


class Refusal(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """Why an action was refused: the subject, and the numbers.

    ``also`` is a second reason, which alone would be enough to refuse the action. If a quota
    refuses the action, ``subject`` is the owner of the quota, ``current`` is the amount in use, and
    ``limit`` is the limit of the quota.
    """

    code: RefusalCode
    subject: str = ""
    wanted: int = 0
    short: int = 0
    shortages: tuple[Shortage, ...] = ()
    remedy: str = ""
    also: Refusal | None = None
    current: int = 0
    limit: int = 0


SHORTAGES_MAX = 12
"""The most shortages that a refusal lists; further shortages would add little information."""


def sentence(refusal: Refusal) -> str:  # noqa: C901, PLR0911, PLR0912 - one line per code
    """Return the refusal as one English sentence with its numbers."""
    wanted, short, subject = refusal.wanted, refusal.short, refusal.subject
    gpus = counted(wanted, "GPU")
    match refusal.code:
        case RefusalCode.NO_ENVELOPE:
            return f"no budget line that {subject} may spend matches this work"
        case RefusalCode.INSUFFICIENT_FUNDS:
            return f"budgets can pay {wanted - short} of {gpus}, {short} short"
        case RefusalCode.BORROW_LIMIT:
            unit = "GPU" if subject == "1" else "GPUs"
            return f"borrowing is limited to {subject} {unit}, {short} of {gpus} unpaid"
        case RefusalCode.NO_NODES:
            return f"no node of the pool has flavor {subject} and matches the run's selector"
        case RefusalCode.INSUFFICIENT_CAPACITY:
            return f"nodes are short by {short} of {gpus}"
        case RefusalCode.NO_SINGLE_DOMAIN:
            return f"no single domain has {gpus} free, the best is {short} short"
        case RefusalCode.FUNDS_ELSEWHERE:
            return (
                f"room is free only where no envelope pays for {subject}; elsewhere, nodes "
                f"are short by {short} of {gpus}"
            )
        case RefusalCode.SEARCH_LIMIT:
            return f"no way to pay for {gpus} was found within the search limit"
        case RefusalCode.MAX_NODES:
            return _rejected(refusal, "max_nodes", "nodes")
        case RefusalCode.MAX_CONCURRENT_RUNS:
            return _rejected(refusal, "max_concurrent_allocations", "allocations")
        case RefusalCode.SENSITIVE_POOL_SIZE:
            return (
                "claim rejected: would exceed sensitive_pool_size quota (current: "
                f"{refusal.current}, requested: {wanted}, limit: {refusal.limit})"
            )
        case RefusalCode.WAITING_FOR_QUOTA:
            name = "" if refusal.also is None else _QUOTA_NAMES.get(refusal.also.code, "")
            return (
                f'waiting for quota headroom: tenant "{subject}" has {refusal.current} of '
                f"{refusal.limit} {name}" + (f", {wanted} more wanted" if wanted else "")
            )
        case RefusalCode.RESERVED:
            starts = _first(subject.split(", "))
            return (
                f"it would not end before the planned starts of {starts}: {short} of {gpus} short"
            )
        case RefusalCode.NOT_RESOLVABLE if short == wanted:
            stay = "stays" if short == 1 else "stay"
            return f"no work may be stopped now for {subject}; {gpus} {stay} short"
        case RefusalCode.NOT_RESOLVABLE:
            return f"ending all work that may be ended for {subject} leaves {short} of {gpus} short"
        case RefusalCode.JUST_CUT:
            return f"conflict {subject}, called by hand, cut it; it waits for one notice period"
        case RefusalCode.START_REFUSED:
            times = counted(refusal.current, "time")
            return f"its start was refused {times} in a row, and is tried again later: {subject}"
        case RefusalCode.WAITING_FOR_UPSTREAM:
            return f"waiting for {subject} to complete"
        case RefusalCode.UPSTREAM_FAILED:
            return f"{subject}, which this run follows, did not complete"
        case (
            RefusalCode.INVALID
            | RefusalCode.UNKNOWN_NAME
            | RefusalCode.ALREADY_EXISTS
            | RefusalCode.CONFLICT
            | RefusalCode.STALE_VERSION
            | RefusalCode.KEY_REUSED
            | RefusalCode.NOT_RUNNING
            | RefusalCode.UNSUPPORTED
            | RefusalCode.NEXT_ROUND
            | RefusalCode.SLO_INFEASIBLE
        ):
            return subject
        case _:
            assert_never(refusal.code)


NAMES_MAX: Final = 3
"""The most names that a sentence lists; further names are only counted."""


def _first(names: Sequence[str]) -> str:
    """Return the first ``NAMES_MAX`` names, separated by commas, and a count of the others."""
    more = len(names) - NAMES_MAX
    return ", ".join(names[:NAMES_MAX]) + (f" and {more} more" if more > 0 else "")


_QUOTA_NAMES: Final = {
    RefusalCode.MAX_NODES: "max_nodes",
    RefusalCode.MAX_CONCURRENT_RUNS: "max_concurrent_allocations",
}


def _rejected(refusal: Refusal, quota: str, unit: str) -> str:
    """Return the text for a hard quota, which is longer if the limit is below the amount in use.

    Both texts are fixed, because users' scripts match them word for word.
    """
    tenant = f'allocation rejected: tenant "{refusal.subject}"'
    if refusal.current > refusal.limit:
        return (
            f"{tenant} exceeds {quota} quota\n"
            f"  Current usage: {refusal.current} {unit}\n"
            f"  New limit: {refusal.limit} {unit}\n"
            "  Hint: Wait for running allocations to complete, or contact your tenant admin."
        )
    return (
        f"{tenant} would exceed {quota} quota (current: {refusal.current}, "
        f"requested: {refusal.wanted}, limit: {refusal.limit})"
    )
