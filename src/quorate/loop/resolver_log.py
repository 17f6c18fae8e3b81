"""The resolver's decisions in the program's log: which GPUs were missing, and which runs made room.

Each log record has its values as ``fields``, so that a log in JSON can be searched by these values.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any

from quorate.model.events import ConflictDeclared, ConflictResolved, Event
from quorate.model.state.state_view import StateView

_LOG = logging.getLogger(__name__)


def log_conflicts(view: StateView, events: Iterable[Event]) -> None:
    """Log every conflict that the recorded ``events`` declare or settle."""
    for event in events:
        match event:
            case ConflictDeclared():
                entrants = sorted({token.owner for token in event.tokens})
                _LOG.info(
                    "resolver: conflict declared",
                    extra={
                        "fields": _about(event)
                        | {"due_ms": event.due_ms, "short": event.short, "entrants": entrants}
                    },
                )
            case ConflictResolved():
                declared = view.conflicts[event.conflict].declared
                _LOG.info(
                    "resolver: conflict settled",
                    extra={"fields": _about(declared) | _outcome(event)},
                )
            case _:
                pass


def _about(declared: ConflictDeclared) -> dict[str, Any]:
    scope = declared.scope
    return {
        "conflict": declared.conflict,
        "cause": declared.cause.value,
        "reservation": declared.reservation,
        "scope": {
            "pool": scope.pool,
            "flavor": scope.flavor,
            "domains": list(scope.domains),
            "limit": scope.limit,
        },
        "deficit": declared.deficit,
    }


def _outcome(resolved: ConflictResolved) -> dict[str, Any]:
    return {
        "outcome": resolved.outcome.value,
        "seed": resolved.seed,
        "cut": [
            {"step": cut.step.value, "run": cut.run, "gpus": cut.gpus, "leases": list(cut.leases)}
            for cut in resolved.cuts
        ],
        "drawn": [
            {"owner": draw.owner, "run": draw.run, "spared": draw.spared} for draw in resolved.draws
        ],
        "lost_gpu_ms": resolved.lost_gpu_ms,
    }
