"""Cases of the quota system that are not checked here: by id, with the row that decides it.

A reason begins with ``section 14`` or ``section 9`` where the design puts the case out of scope or
decides otherwise, and with ``later`` where what it asks is not built yet.
"""

from __future__ import annotations

from typing import Final

_CLASSES: Final = "section 14: preemption classes are out of scope; cuts and lottery decide"
_ROLES: Final = "later: roles come with the service; nobody logs in yet"

LISTED: Final = {
    "BL-27": "section 9: GPU-hours come from leases, and a lease is on slots of nodes that exist",
    "HQ-21": "section 14: autoscaling is out of scope",
    "HQ-23": "section 14: autoscaling is out of scope",
    "HQ-32": "section 14: isolation levels are out of scope (its limit: HQ-13)",
    "HQ-33": "section 14: isolation levels and image signing are out of scope",
    "PR-03": _CLASSES,
    "PR-04": _CLASSES,
    "PR-05": _CLASSES,
    "PR-07": _CLASSES,
    "PR-09": _CLASSES,
    "PR-11": _CLASSES,
    "RB-01": _ROLES,
    "RB-02": _ROLES,
    "SE-09": "section 14: image signing is out of scope",
    "SE-10": "section 14: isolation levels are out of scope, encrypted storage with them",
    "SE-16": "section 14: nodes have no fingerprints: a flavor is what makes nodes alike",
}
"""Cases whose contract is ``both`` or ``doc``."""

CONFLICTS_LISTED: Final = {
    "BL-08": "later: external accounting",
    "RB-03": _ROLES,
    "SC-10": "later: external accounting, which has a durable outbox and drops nothing",
}
"""Cases whose contract is ``conflict`` and that no check decides yet; the others are checked."""

TEXTS_LISTED: Final = {
    "cli-design page": "section 9: texts as 001, word for word; this page has others",
    "pending reason (troubleshooting)": "section 9: soft quotas block nothing, so nobody waits so",
}
"""Documented texts, by when they are shown, that are not ours."""

PENALTY_LISTED_FROM: Final = 0.8
PENALTY_LISTED_TO: Final = 1.2
"""Between these the curve is decided otherwise: section 9 has its floor at 1, as documents say."""
