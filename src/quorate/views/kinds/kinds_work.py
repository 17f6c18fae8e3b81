"""Runs and leases, as rows and documents. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from quorate.core.lifecycle.loan_terms import terms_of_lease
from quorate.documents import render
from quorate.documents.times import time_or_none, time_text
from quorate.model.events import LeaseStarted, Tier, lease_gpus
from quorate.model.refusal import sentence
from quorate.model.state.free_slots import ordinals
from quorate.model.state.records import Lease, Phase, RunRecord
from quorate.views import kind_names
from quorate.views.kinds.kind import Kind, Row, Tree, document, each
from quorate.views.kinds.kinds_plans import reservation_status, start_text
from quorate.views.refusal_answer import refusal_tree
from quorate.views.runs.array_view import array_row, array_tree
from quorate.views.runs.funding_tree import funding_tree
from quorate.views.runs.instant import (
    Moment,
    charges_of,
    domains_of,
    leases_of,
    run_gpus,
    run_width,
)
from quorate.views.runs.loan_words import loan_trees
from quorate.views.runs.plan_words import PLAN_WORDS, plan_of, plan_tree
from quorate.views.runs.reason_words import ended, stopping
from quorate.views.runs.round_forms import lease_bounds, turns
from quorate.views.runs.wait_reasons import Reason, reasons_now
from quorate.views.table import Column, right, wide
from quorate.views.word_forms import age, gpus_on_nodes, hours, names, slots


def _run_rows(moment: Moment, wanted: Sequence[str]) -> list[Row]:
    arrays = moment.view.arrays
    reasons = reasons_now(moment, [name for name in wanted if name not in arrays])
    return [
        array_row(moment, name) if name in arrays else _run_row(moment, name, reasons.get(name))
        for name in wanted
    ]


def _run_row(moment: Moment, name: str, reason: Reason | None) -> Row:
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
        reason_text(record, reason),
        plan_texts(moment, record, reason)[2],
        width_text(moment, record),
        spec.user or "-",
        time_text(record.submitted_ms),
        "-" if record.started_ms is None else time_text(record.started_ms),
        names(dict.fromkeys(charge.payer for charge in charges)),
        hours(sum(charge.gpu_ms for charge in charges)),
    )


def plan_texts(moment: Moment, record: RunRecord, reason: Reason | None) -> tuple[str, str, str]:
    """Return a run's planned start as texts: the time until then, the confidence, and the instant.

    A text is ``-`` if it is unknown. If ``reason`` is a recorded refusal and the run has no planned
    start, the confidence is ``not planned``.
    """
    if not _is_planned(moment, record, reason):
        is_behind = reason is not None and reason.as_of_ms is not None
        return "-", "not planned" if is_behind else "-", "-"
    state, start_ms = plan_of(moment, record)
    return start_text(start_ms, moment.now_ms), PLAN_WORDS[state], time_or_none(start_ms) or "-"


def _is_planned(moment: Moment, record: RunRecord, reason: Reason | None) -> bool:
    """Return whether there is a planned start of a run to show."""
    if record.phase is not Phase.PENDING or record.spec.name in moment.view.in_rounds:
        return False
    if reason is None or reason.refusal is None:
        return record.reservation is not None
    is_live = reason.as_of_ms is None or record.reservation is not None
    return is_live or moment.plan.planned_start_of(record) is not None


def width_text(moment: Moment, record: RunRecord) -> str:
    """Return a run's width, and its bounds if it is malleable: ``16 (8..24)``."""
    width = run_width(moment, record) if record.leases else None
    shown, elastic = "-" if width is None else str(width), record.spec.malleable
    return shown if elastic is None else f"{shown} ({elastic.gpus_min}..{elastic.gpus_max})"


def reason_text(record: RunRecord, reason: Reason | None) -> str:
    """Return why the run is in its phase, in a few words; ``-`` if there is no reason.

    ``reason`` is why the run waits; None if the run does not wait.
    """
    if record.stopping is not None:
        return stopping(record.stopping)
    return (record.note or "-") if reason is None else reason.text()


def run_trees(moment: Moment, wanted: Sequence[str]) -> list[Tree]:
    """Return the runs and arrays named ``wanted`` with their whole status."""
    arrays = moment.view.arrays
    reasons = reasons_now(moment, [name for name in wanted if name not in arrays])
    return [
        array_tree(moment, name) if name in arrays else _run_tree(moment, name, reasons.get(name))
        for name in wanted
    ]


def _run_tree(moment: Moment, name: str, reason: Reason | None) -> Tree:
    record = moment.view.runs[name]
    status: Tree = {
        "phase": record.phase.value,
        "sequence": record.seq,
        "submitted": time_text(record.submitted_ms),
        "started": time_or_none(record.started_ms),
        "ended": time_or_none(record.ended_ms),
        "gpus": run_gpus(moment, record),
        "width": run_width(moment, record),
        "domains": domains_of(moment, (lease.fact for lease in leases_of(moment, record.leases))),
        "leases": list(record.leases),
        "funding": funding_tree(moment, charges_of(moment, record)),
        "note": record.note or None,
    }
    if record.stopping is not None:
        outcome = record.stopping.outcome
        status["stopping"] = {
            "since": time_text(record.stopping.at_ms),
            "reason": record.stopping.reason.value,
            "outcome": None if outcome is None else outcome.value,
            "note": record.stopping.note,
        }
    if record.reservation is not None:
        promise = moment.view.reservations[record.reservation]
        status["reservation"] = reservation_status(moment, promise)
    if _is_planned(moment, record, reason):
        status["plan"] = plan_tree(*plan_of(moment, record), moment.now_ms)
    if record.cut_by:
        status["cutBy"] = record.cut_by
    status["turns"] = turns(moment.view, name) or None
    if reason is not None:
        status |= _reason_status(reason)
    return {
        **render(record.spec),
        "status": {key: value for key, value in status.items() if value is not None},
    }


def _reason_status(reason: Reason) -> Tree:
    """Return why a run waits; ``since`` is null if the ledger has not recorded this reason yet."""
    if reason.refusal is None:
        return {"startable": True}
    asked = {} if reason.as_of_ms is None else {"asOf": time_text(reason.as_of_ms)}
    return {
        "refusal": {
            "since": time_or_none(reason.since_ms),
            **asked,
            "message": sentence(reason.refusal),
            **refusal_tree(reason.refusal),
        }
    }


RUN = Kind(
    called=kind_names.RUN,
    columns=(
        Column("NAME"),
        Column("OWNER"),
        Column("PHASE"),
        right("GPUS"),
        Column("FLAVOR"),
        Column("WHERE"),
        right("AGE"),
        Column("REASON"),
        wide("PLANNED"),
        wide("WIDTH"),
        wide("USER"),
        wide("SUBMITTED"),
        wide("STARTED"),
        wide("PAID-FROM"),
        right("GPU-HOURS", wide=True),
    ),
    names=lambda moment: list(moment.view.runs),
    called_by=lambda moment, name: (
        [name] if name in moment.view.runs or name in moment.view.arrays else []
    ),
    rows=_run_rows,
    trees=run_trees,
)


def lease_places(moment: Moment, fact: LeaseStarted, *, most: int | None = None) -> str:
    """Return the nodes of a lease with their slots, or with numbers of GPUs.

    The numbers are for pools in which the cluster chooses the slots.
    """
    is_counted = moment.view.pools[moment.view.runs[fact.run].spec.pool].counts_gpus
    return (gpus_on_nodes if is_counted else slots)(fact.slots, most=most)


def _slot_trees(moment: Moment, fact: LeaseStarted) -> list[Tree]:
    if moment.view.pools[moment.view.runs[fact.run].spec.pool].counts_gpus:
        return [{"node": node, "gpus": mask.bit_count()} for node, mask in fact.slots]
    return [{"node": node, "slots": list(ordinals(mask))} for node, mask in fact.slots]


def lease_cells(moment: Moment, fact: LeaseStarted, *, most: int | None) -> Row:
    """Return the cells of ``LEASE_COLUMNS`` for a lease; at most ``most`` nodes are named."""
    return (
        fact.comp_path,
        fact.role.value,
        str(lease_gpus(fact.slots)),
        names(domains_of(moment, [fact])),
        lease_places(moment, fact, most=most),
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
        lease_places(moment, lease.fact),
        time_text(lease.fact.start_ms),
        time_text(lease.hold_ends_ms),
        hours(lease.hold_gpu_ms),
        ending_text(lease),
        *_round_cells(moment, lease),
    )


def _round_cells(moment: Moment, lease: Lease) -> Row:
    """Return how many steps fit into a lease, and the run's priority for the lease's flavor."""
    bounds = lease_bounds(moment.view, lease)
    if bounds is None:
        return "-", "-"
    flavor = moment.view.envelopes[lease.fact.payer].spec.flavor
    own = [each["priority"] for each in bounds["turns"] if each["flavor"] == flavor]
    return str(bounds["maxSteps"]), names(f"{each}" for each in own)


def ending_text(lease: Lease) -> str:
    """Return why and by when a lease must end; ``-`` if it is not stopping."""
    if lease.ending is None:
        return "-"
    return f"{ended(lease.ending.reason)}; until {time_text(lease.ending.deadline_ms)}"


def _lease_tree(moment: Moment, name: str) -> Tree:
    lease = moment.view.leases[name]
    fact = lease.fact
    status: Tree = {
        "run": fact.run,
        "part": fact.comp_path,
        "bundle": fact.bundle,
        "role": fact.role.value,
        "gpus": lease.gpus,
        "slots": _slot_trees(moment, fact),
        "payer": fact.payer,
        "tier": fact.tier.value,
        "start": time_text(fact.start_ms),
        "startReason": fact.reason.value,
        "holdGPUMs": lease.hold_gpu_ms,
        "holdEnds": time_text(lease.hold_ends_ms),
        "usedGPUMs": lease.gpus * (moment.now_ms - fact.start_ms),
        "ending": lease.ending is not None,
    }
    if lease.ending is not None:
        status["endReason"] = lease.ending.reason.value
        status["deadline"] = time_text(lease.ending.deadline_ms)
    if fact.tier is Tier.BORROWED:
        (terms,) = loan_trees(terms_of_lease(moment.view, lease))
        status["loan"] = {"recallNotice": terms["recallNotice"], "due": terms["due"]}
    bounds = lease_bounds(moment.view, lease)
    if bounds is not None:
        status["round"] = bounds
    return document("Lease", name, status=status)


LEASE = Kind(
    called=kind_names.LEASE,
    columns=(
        Column("NAME"),
        *LEASE_COLUMNS,
        right("AGE"),
        wide("SLOTS"),
        wide("START"),
        wide("HOLD-ENDS"),
        right("HOLD", wide=True),
        wide("STOPPING"),
        right("MAX-STEPS", wide=True),
        right("PRIORITY", wide=True),
    ),
    names=lambda moment: list(moment.view.leases),
    rows=each(_lease_row),
    trees=each(_lease_tree),
)
