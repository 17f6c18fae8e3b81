"""Stops a service from deciding after a broken invariant, or a jump of its clock.

The evidence of a violation is kept in ``LEDGER.violation.json``: the violations, the events that
break the invariant, and the head of the ledger before these events. A block of this service that
breaks an invariant is not recorded. While the evidence file exists, the service decides nothing,
even after a restart. An operator moves the file away after an inspection.
"""

from __future__ import annotations

import json
import logging
from pathlib import Path

from quorate.adapters.clock_guard import ClockGuard
from quorate.documents.times import time_text
from quorate.ledger.codec import event_to_json
from quorate.loop.commit_types import Breach
from quorate.loop.engine import Engine

_LOG = logging.getLogger(__name__)


def guarded(engine: Engine, path: Path, guard: ClockGuard | None) -> Engine:
    """Return ``engine``, which stops deciding at a violation or when its clock is not trusted."""
    engine.on_violation = lambda breach: _keep(path, breach)
    if evidence_path(path).exists():
        engine.violated = _words(path, "did not hold before this start")
        _LOG.error("deciding is stopped: %s", engine.violated)
    if guard is not None:
        guard.opened(engine.recorded_ms)
        engine.clock_trouble = guard.trouble
    return engine


def evidence_path(ledger: Path) -> Path:
    """Return the path of the evidence of a violation beside ``ledger``."""
    return ledger.with_name(ledger.name + ".violation.json")


def _keep(path: Path, breach: Breach) -> str:
    """Store the evidence, log it, and return why the service stops deciding."""
    head, events = breach.head, breach.events
    evidence = {
        "head": {"height": head.height, "sequence": head.seq, "hash": head.hash.hex()},
        "time": time_text(events[-1].at_ms),
        "violations": [str(each) for each in breach.violations],
        "recorded": breach.is_recorded,
        "events": [event_to_json(seq, event) for seq, event in enumerate(events, head.seq + 1)],
    }
    found = breach.violations[0]
    why = _words(
        path,
        f"does not hold after sequence {head.seq + len(events)}: {found}"
        if breach.is_recorded
        else f"would not hold after sequence {head.seq}, and nothing was recorded: {found}",
    )
    _LOG.error("deciding is stopped: %s", why, extra={"fields": {"violation": evidence}})
    try:
        with evidence_path(path).open("x", encoding="utf-8") as file:
            json.dump(evidence, file, indent=2)
    except OSError as error:
        _LOG.error("%s could not be written: %s", evidence_path(path), error.strerror)
    return why


def _words(path: Path, what: str) -> str:
    place = evidence_path(path)
    return (
        f"an invariant {what}; the evidence is in {place}. This is a bug in Quorate: report it "
        "with that file, and check the ledger with: quorate ledger verify --deep; to let the "
        f"service decide again, move {place.name} away and restart it"
    )
