"""The kinds of resource that can be listed; their names are in ``kind_names.py``."""

from __future__ import annotations

from typing import Final

from quorate.views.kinds.kind import Kind
from quorate.views.kinds.kinds_claims import CLAIM
from quorate.views.kinds.kinds_fleet import DOMAIN, NODE, POOL, SYSTEM
from quorate.views.kinds.kinds_money import BUDGET, CAP, CHARGE, ENVELOPE
from quorate.views.kinds.kinds_owners import OWNER
from quorate.views.kinds.kinds_plans import OUTCOME, RESERVATION
from quorate.views.kinds.kinds_queue import QUEUE
from quorate.views.kinds.kinds_tenants import TENANT
from quorate.views.kinds.kinds_work import LEASE, RUN

KINDS: Final = (
    NODE,
    DOMAIN,
    POOL,
    OWNER,
    BUDGET,
    ENVELOPE,
    CAP,
    RUN,
    QUEUE,
    RESERVATION,
    OUTCOME,
    LEASE,
    CLAIM,
    CHARGE,
    SYSTEM,
)

KIND_OF: Final[dict[str, Kind]] = {kind.name: kind for kind in (*KINDS, TENANT)}
"""Every kind by its own name; a tenant is the administrators' view of an owner."""
