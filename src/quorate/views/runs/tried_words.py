"""Verbs of an outcome: for a decision that was recorded, and for a dry run."""

from __future__ import annotations

from typing import Final

WOULD: Final = {
    "started": "would start",
    "grows": "would grow",
    "waits": "would wait",
    "waits again": "would wait again",
    "starts over": "would start over",
    "is stopping": "would be stopped",
    "it was cancelled": "it would be cancelled",
    "ended": "would end",
    "completed": "would be completed",
    "cancelled": "would be cancelled",
    "failed": "would fail",
    "holds": "would hold",
    "has": "would have",
    "is ready": "would be ready",
    "is cordoned": "would be cordoned",
    "has failed": "would count as failed",
}
"""Maps the verb for what happened to the verb for a dry run."""


def said(verb: str, *, dry_run: bool) -> str:
    """Return ``verb``; for a dry run ``would ...``: ``started`` becomes ``would start``."""
    return WOULD[verb] if dry_run else verb
