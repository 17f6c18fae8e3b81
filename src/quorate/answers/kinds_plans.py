"""Reservations and conflicts, as rows and documents. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from quorate.answers import called
from quorate.answers.kind import Kind, Row, Tree, document, each
from quorate.answers.moment import Moment
from quorate.answers.table import Column, right, wide
from quorate.answers.words import countdown, hours, names, until
from quorate.core.cuts import Candidate
from quorate.core.lottery import first_draw_odds, run_odds, tokens_by_owner
from quorate.documents.times import time_text
from quorate.model.causes import cause_text
from quorate.model.events import Cut, Scope, Share, Slice
from quorate.model.records import ConflictRecord, ReservationRecord


def place_text(place: Slice, *, most: int | None = None) -> str:
    """Return where a planned start goes: GPUs by domain."""
    return names((f"{domain}:{gpus}" for domain, gpus in place.domains), most=most)


def shares_text(payers: Iterable[Share], *, most: int | None = None) -> str:
    """Return who pays for how many GPUs."""
    paid: dict[str, int] = {}
    for share in payers:
        paid[share.payer] = paid.get(share.payer, 0) + share.gpus
    return names((f"{payer}:{gpus}" for payer, gpus in paid.items()), most=most)


def scope_text(scope: Scope) -> str:
    """Return what a conflict is about."""
    if scope.limit:
        return scope.limit
    where = names(scope.domains) if scope.domains else "everywhere"
    pool = "" if scope.pool == "default" else f" in pool {scope.pool}"
    return f"{scope.flavor} {where}{pool}"


def start_text(record: ReservationRecord, now_ms: int) -> str:
    """Return in how long a reservation starts."""
    if record.planned_start_ms is None:
        return "-"
    left_ms = record.planned_start_ms - now_ms
    return f"in {countdown(left_ms)}" if left_ms > 0 else "due"


def how_text(record: ReservationRecord) -> str:
    """Return how a reservation comes by its room."""
    if record.planned_start_ms is None:
        return "-"
    return "by conflict" if record.by_conflict else "by itself"


def shares_tree(payers: Iterable[Share]) -> list[Tree]:
    """Return who pays, for programs."""
    return [
        {
            "envelope": share.payer,
            "tier": share.tier.value,
            "gpus": share.gpus,
            "holdMsPerGPU": share.hold_ms,
        }
        for share in payers
    ]


def place_tree(place: Slice) -> Tree:
    """Return where a planned start goes, for programs."""
    return {
        "flavor": place.flavor,
        "gpus": place.gpus,
        "domains": [{"domain": domain, "gpus": gpus} for domain, gpus in place.domains],
    }


def time_or_none(at_ms: int | None) -> str | None:
    """Return an instant as text, None where there is none."""
    return None if at_ms is None else time_text(at_ms)


# --- Reservations ---------------------------------------------------------------------------------


def reservation_names(moment: Moment) -> list[str]:
    """Return the reservations in the order in which they were made, which is their order."""
    found = moment.view.reservations
    return sorted(found, key=lambda name: found[name].seq)


def _reservation_row(moment: Moment, name: str) -> Row:
    record, now_ms = moment.view.reservations[name], moment.now_ms
    natural_ms = record.natural_start_ms
    return (
        name,
        record.made.run,
        moment.view.runs[record.made.run].spec.owner,
        record.status.value,
        "-" if record.planned_start_ms is None else time_text(record.planned_start_ms),
        start_text(record, now_ms),
        how_text(record),
        str(record.slice.gpus),
        record.slice.flavor,
        place_text(record.slice, most=2),
        cause_text(moment.veil.promise(record).cause) or "-",
        shares_text(record.payers, most=2),
        "-" if natural_ms is None else time_text(natural_ms),
        time_text(record.made.at_ms),
    )


def reservation_status(moment: Moment, record: ReservationRecord) -> Tree:
    """Return how a reservation stands, for programs."""
    planned_ms = record.planned_start_ms
    return {
        "name": record.made.reservation,
        "status": record.status.value,
        "plannedStart": time_or_none(planned_ms),
        "startsInMs": None if planned_ms is None else max(0, planned_ms - moment.now_ms),
        "naturalStart": time_or_none(record.natural_start_ms),
        "byConflict": record.by_conflict,
        "slice": place_tree(record.slice),
        "payers": shares_tree(record.payers),
        "cause": cause_text(moment.veil.promise(record).cause) or None,
        "conflict": record.conflict or None,
        "attempts": record.attempts,
    }


def _reservation_tree(moment: Moment, name: str) -> Tree:
    record = moment.view.reservations[name]
    made = record.made
    spec: Tree = {
        "run": made.run,
        "made": time_text(made.at_ms),
        "sequence": record.seq,
        "slice": place_tree(made.slice),
        "payers": shares_tree(made.payers),
        "plannedStart": time_text(made.planned_start_ms),
        "naturalStart": time_or_none(made.natural_start_ms),
        "byConflict": made.by_conflict,
    }
    status = reservation_status(moment, record)
    del status["name"]
    return document("Reservation", name, spec=spec, status=status)


RESERVATION = Kind(
    called=called.RESERVATION,
    columns=(
        Column("NAME"),
        Column("RUN"),
        Column("OWNER"),
        Column("STATUS"),
        Column("STARTS"),
        right("COUNTDOWN"),
        Column("HOW"),
        right("GPUS"),
        Column("FLAVOR"),
        Column("WHERE"),
        Column("CAUSE"),
        wide("PAID-FROM"),
        wide("NATURAL"),
        wide("MADE"),
    ),
    names=reservation_names,
    rows=each(_reservation_row),
    trees=each(_reservation_tree),
)


# --- Conflicts ------------------------------------------------------------------------------------


def asked_by(record: ConflictRecord) -> str:
    """Return what a conflict was declared for."""
    declared = record.declared
    return declared.reservation or declared.scope.limit or "an operator"


def victims_text(cuts: Sequence[Cut], *, most: int | None = None) -> str:
    """Return who is cut, how, and by how many GPUs."""
    return names((f"{cut.run}:{cut.gpus}({cut.step})" for cut in cuts), most=most)


def _outcome_row(moment: Moment, name: str) -> Row:
    record = moment.view.conflicts[name]
    declared, resolved = record.declared, record.resolved
    draws = () if resolved is None else resolved.draws
    return (
        name,
        declared.cause.value,
        scope_text(declared.scope),
        asked_by(record),
        str(declared.deficit),
        str(len(declared.tokens)),
        "Declared" if resolved is None else resolved.outcome.value,
        "-" if resolved is None else victims_text(resolved.cuts, most=3),
        "-" if resolved is None else hours(resolved.lost_gpu_ms),
        until(declared.due_ms, moment.now_ms) if resolved is None else time_text(resolved.at_ms),
        str(declared.short),
        str(declared.preimage_index),
        (resolved.seed or "-") if resolved is not None else "-",
        names(f"{d.run}{'(spared)' if d.spared else ''}" for d in draws),
        names(
            lease for cut in (resolved.cuts if resolved is not None else ()) for lease in cut.leases
        ),
    )


def _outcome_tree(moment: Moment, name: str) -> Tree:
    record = moment.view.conflicts[name]
    declared, resolved = record.declared, record.resolved
    held = tokens_by_owner(declared)
    odds, owners = run_odds(held), first_draw_odds(held)
    spec: Tree = {
        "cause": declared.cause.value,
        "scope": scope_tree(declared.scope),
        "reservation": declared.reservation or None,
        "deficit": declared.deficit,
        "short": declared.short,
        "sizeMax": declared.size_max,
        "declared": time_text(declared.at_ms),
        "due": time_text(declared.due_ms),
        "attempt": declared.attempt,
        "preimageIndex": declared.preimage_index,
        "commitment": declared.commitment,
        "tokens": [
            {
                "owner": token.owner,
                "run": token.run,
                "gpus": token.gpus,
                "nonce": token.nonce,
                "odds": str(odds[token.run]),
                "ownerOdds": str(owners[token.owner]),
            }
            for token in declared.tokens
        ],
    }
    status: Tree = {"outcome": "Declared"}
    if resolved is not None:
        status = {
            "outcome": resolved.outcome.value,
            "resolved": time_text(resolved.at_ms),
            "preimage": resolved.preimage or None,
            "beacon": resolved.beacon or None,
            "seed": resolved.seed or None,
            "draws": [{"owner": d.owner, "run": d.run, "spared": d.spared} for d in resolved.draws],
            "cuts": [cut_tree(cut) for cut in resolved.cuts],
            "lostGPUMs": resolved.lost_gpu_ms,
        }
    return document("ResolverOutcome", name, spec=spec, status=status)


def scope_tree(scope: Scope) -> Tree:
    """Return what a conflict is about, for programs."""
    return {
        "pool": scope.pool,
        "flavor": scope.flavor,
        "domains": list(scope.domains),
        "limit": scope.limit or None,
    }


def cut_tree(cut: Cut | Candidate) -> Tree:
    """Return one cut, published or only tried, for programs."""
    return {
        "step": cut.step.value,
        "run": cut.run,
        "bundle": cut.bundle,
        "gpus": cut.gpus,
        "leases": list(cut.leases),
    }


OUTCOME = Kind(
    called=called.OUTCOME,
    columns=(
        Column("ID"),
        Column("CAUSE"),
        Column("SCOPE"),
        Column("FOR"),
        right("DEFICIT"),
        right("TOKENS"),
        Column("OUTCOME"),
        Column("VICTIMS"),
        right("LOST"),
        Column("WHEN"),
        right("SHORT", wide=True),
        right("LINK", wide=True),
        wide("SEED"),
        wide("DRAWS"),
        wide("LEASES"),
    ),
    names=lambda moment: list(moment.view.conflicts),
    rows=each(_outcome_row),
    trees=each(_outcome_tree),
)
