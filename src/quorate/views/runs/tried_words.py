"""Verbs of an outcome: as they are said of what happened, and of what a dry run would do."""

from __future__ import annotations

from typing import Final

WOULD: Final = {
    "started": "would start",
    "grows": "would grow",
    "waits": "would wait",
    "waits again": "would wait again",
    "starts over": "would start over",
    "stopping": "would be stopped",
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
"""What is said of what happened -> what is said of a dry run."""


def said(verb: str, *, dry_run: bool) -> str:
    """Return ``verb``, or for a dry run what would happen: ``started`` is ``would start``."""
    return WOULD[verb] if dry_run else verb
