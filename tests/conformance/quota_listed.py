"""Cases of the quota system that are not checked here: each id with its reason.

A reason begins with ``out of scope`` or ``decided`` if docs/design/choices.md or
docs/design/tenancy.md say so, and with ``later`` if Quorate does not have the feature yet.
"""

from __future__ import annotations

from typing import Final

_CLASSES: Final = "out of scope: preemption classes; cuts and lottery decide"
_ROLES: Final = "later: roles come with the service; nobody logs in yet"

LISTED: Final = {
    "BL-27": "decided: GPU-hours come from leases, and a lease is on slots of nodes that exist",
    "HQ-21": "out of scope: autoscaling",
    "HQ-23": "out of scope: autoscaling",
    "HQ-32": "out of scope: isolation levels (its limit: HQ-13)",
    "HQ-33": "out of scope: isolation levels and image signing",
    "PR-03": _CLASSES,
    "PR-04": _CLASSES,
    "PR-05": _CLASSES,
    "PR-07": _CLASSES,
    "PR-09": _CLASSES,
    "PR-11": _CLASSES,
    "RB-01": _ROLES,
    "RB-02": _ROLES,
    "SE-09": "out of scope: image signing",
    "SE-10": "out of scope: isolation levels, encrypted storage with them",
    "SE-16": "out of scope: fingerprints of nodes; a flavor is what makes nodes alike",
}
"""Cases whose contract is ``both`` or ``doc``."""

CONFLICTS_LISTED: Final = {
    "BL-08": "later: external accounting",
    "RB-03": _ROLES,
    "SC-10": "later: external accounting, which has a durable outbox and drops nothing",
}
"""Cases whose contract is ``conflict`` and that no check covers; the others are checked."""

TEXTS_LISTED: Final = {
    "cli-design page": "decided: texts of hard quotas are kept; this page has others",
    "pending reason (troubleshooting)": "decided: soft quotas block nothing, so no run waits so",
}
"""Documented texts that Quorate does not use, by when they are shown."""

PENALTY_LISTED_FROM: Final = 0.8
PENALTY_LISTED_TO: Final = 1.2
"""Between these uses, Quorate's penalty differs (docs/design/tenancy.md): it ends at a use of 1."""
