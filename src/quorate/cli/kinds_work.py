"""Runs, leases and the queue, as rows and documents. Pure."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from quorate.cli.kind import Kind, Row, Tree, document, each
from quorate.cli.moment import (
    Moment,
    charges_of,
    domains_of,
    leases_of,
    lenders_of,
    run_gpus,
)
from quorate.cli.table import Column, right, wide
from quorate.cli.words import age, hours, names, slots
from quorate.documents import render
from quorate.documents.times import time_text
from quorate.model.events import LeaseStarted, Tier, lease_gpus
from quorate.model.island import ordinals
from quorate.model.records import Phase, RunRecord
from quorate.model.refusal import sentence


def _run_row(moment: Moment, name: str) -> Row:
    record = moment.view.runs[name]
    spec = record.spec
    leases = leases_of(moment, record.leases)
    charges = charges_of(moment, record)
    return (
        name,
        spec.owner,
        record.phase.value,
        str(sum(lease.gpus for lease in leases) or spec.gpus),
        names(spec.flavors),
        names(domains_of(moment, (lease.fact for lease in leases)), most=2),
        age(moment.now_ms - record.submitted_ms),
        reason_of(record),
        spec.user or "-",
        time_text(record.submitted_ms),
        "-" if record.started_ms is None else time_text(record.started_ms),
        names(dict.fromkeys(charge.payer for charge in charges)),
        hours(sum(charge.gpu_ms for charge in charges)),
    )


def reason_of(record: RunRecord) -> str:
    """Return why the run is where it is, in a few words; ``-`` where there is nothing to say."""
    if record.refusal is not None and record.phase is Phase.PENDING:
        return sentence(record.refusal)
    return record.note or "-"


def _time(at_ms: int | None) -> str | None:
    return None if at_ms is None else time_text(at_ms)


def _run_tree(moment: Moment, name: str) -> Tree:
    record = moment.view.runs[name]
    status: Tree = {
        "phase": record.phase.value,
        "sequence": record.seq,
        "submitted": time_text(record.submitted_ms),
        "started": _time(record.started_ms),
        "ended": _time(record.ended_ms),
        "gpus": run_gpus(moment, record),
        "domains": domains_of(moment, (lease.fact for lease in leases_of(moment, record.leases))),
        "leases": list(record.leases),
        "funding": _funding(moment, record),
        "note": record.note or None,
    }
    if record.refusal is not None and record.phase is Phase.PENDING:
        status["refusal"] = {
            "since": time_text(record.refused_since_ms),
            "message": sentence(record.refusal),
            **msgspec.to_builtins(record.refusal),
        }
    return {
        **render(record.spec),
        "status": {key: value for key, value in status.items() if value is not None},
    }


def _funding(moment: Moment, record: RunRecord) -> Tree:
    charges = charges_of(moment, record)
    found: Tree = {
        tier.value: {
            "gpus": sum(charge.gpus for charge in charges if charge.tier is tier),
            "spentGPUMs": sum(charge.gpu_ms for charge in charges if charge.tier is tier),
        }
        for tier in Tier
    }
    found["lenders"] = lenders_of(moment, charges)
    found["payers"] = [
        {
            "envelope": charge.payer,
            "tier": charge.tier.value,
            "gpus": charge.gpus,
            "spentGPUMs": charge.gpu_ms,
        }
        for charge in charges
    ]
    return found


RUN = Kind(
    name="run",
    plural="runs",
    short=("ru", "job", "jobs"),
    columns=(
        Column("NAME"),
        Column("OWNER"),
        Column("PHASE"),
        right("GPUS"),
        Column("FLAVOR"),
        Column("WHERE"),
        right("AGE"),
        Column("REASON"),
        wide("USER"),
        wide("SUBMITTED"),
        wide("STARTED"),
        wide("PAID-FROM"),
        right("GPU-HOURS", wide=True),
    ),
    names=lambda moment: list(moment.view.runs),
    rows=each(_run_row),
    trees=each(_run_tree),
)


def lease_cells(moment: Moment, fact: LeaseStarted, *, most: int | None) -> Row:
    """Return the cells of ``LEASE_COLUMNS`` for a lease; at most ``most`` nodes are named."""
    return (
        fact.comp_path,
        fact.role.value,
        str(lease_gpus(fact.slots)),
        names(domains_of(moment, [fact])),
        slots(fact.slots, most=most),
        fact.payer,
        fact.tier.value,
    )


LEASE_COLUMNS = (
    Column("PART"),
    Column("ROLE"),
    right("GPUS"),
    Column("DOMAIN"),
    Column("NODES"),
    Column("PAID-FROM"),
    Column("TIER"),
)


def _lease_row(moment: Moment, name: str) -> Row:
    lease = moment.view.leases[name]
    return (
        name,
        *lease_cells(moment, lease.fact, most=2),
        age(moment.now_ms - lease.fact.start_ms),
        slots(lease.fact.slots),
        time_text(lease.fact.start_ms),
        time_text(lease.hold_ends_ms),
        hours(lease.hold_gpu_ms),
    )


def _lease_tree(moment: Moment, name: str) -> Tree:
    lease = moment.view.leases[name]
    fact = lease.fact
    status = {
        "run": fact.run,
        "part": fact.comp_path,
        "bundle": fact.bundle,
        "role": fact.role.value,
        "gpus": lease.gpus,
        "slots": [{"node": node, "slots": list(ordinals(mask))} for node, mask in fact.slots],
        "payer": fact.payer,
        "tier": fact.tier.value,
        "start": time_text(fact.start_ms),
        "startReason": fact.reason.value,
        "holdGPUMs": lease.hold_gpu_ms,
        "holdEnds": time_text(lease.hold_ends_ms),
        "usedGPUMs": lease.gpus * (moment.now_ms - fact.start_ms),
        "ending": lease.ending is not None,
    }
    return document("Lease", name, status=status)


LEASE = Kind(
    name="lease",
    plural="leases",
    short=("le",),
    columns=(
        Column("NAME"),
        *LEASE_COLUMNS,
        right("AGE"),
        wide("SLOTS"),
        wide("START"),
        wide("HOLD-ENDS"),
        right("HOLD", wide=True),
    ),
    names=lambda moment: list(moment.view.leases),
    rows=each(_lease_row),
    trees=each(_lease_tree),
)


def queue_names(moment: Moment) -> list[str]:
    """Return the waiting runs in the order in which they are tried."""
    pending = moment.view.pending
    return sorted(pending, key=lambda name: pending[name])


def _queue_rows(moment: Moment, wanted: Sequence[str]) -> list[Row]:
    position = {name: str(index) for index, name in enumerate(queue_names(moment), start=1)}
    rows: list[Row] = []
    for name in wanted:
        record = moment.view.runs[name]
        rows.append(
            (
                position[name],
                name,
                record.spec.owner,
                str(record.spec.gpus),
                names(record.spec.flavors),
                age(moment.now_ms - record.submitted_ms),
                "-" if record.refusal is None else record.refusal.code.value,
                reason_of(record),
                time_text(record.refused_since_ms),
            )
        )
    return rows


QUEUE = Kind(
    name="queue",
    plural="queue",
    short=("q", "pending"),
    columns=(
        right("POSITION"),
        Column("NAME"),
        Column("OWNER"),
        right("GPUS"),
        Column("FLAVOR"),
        right("WAITING"),
        Column("CODE"),
        Column("REASON"),
        wide("SINCE"),
    ),
    names=queue_names,
    rows=_queue_rows,
    trees=each(_run_tree),
)
