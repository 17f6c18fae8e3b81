"""Reservations and conflicts, as rows and documents. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from quorate.core.preemption.cut_order import Candidate
from quorate.core.preemption.lottery import first_draw_odds, run_odds, tokens_by_owner
from quorate.core.profile.plan_entry import Entry
from quorate.documents.times import time_or_none, time_text
from quorate.model.cause_text import cause_text
from quorate.model.closed_words import Word
from quorate.model.events import Cut, MoveCause, ReservationOutcome, Scope, Share, Slice
from quorate.model.state.records import ConflictRecord, ReservationRecord
from quorate.views import kind_names
from quorate.views.kinds.kind import Kind, Row, Tree, document, each
from quorate.views.runs.instant import Moment
from quorate.views.table import Column, right, wide
from quorate.views.word_forms import countdown, hours, names, until


def place_text(place: Slice, *, most: int | None = None) -> str:
    """Return the place of a planned start as text: its GPUs by domain."""
    return names((f"{domain}:{gpus}" for domain, gpus in place.domains), most=most)


def shares_text(payers: Iterable[Share], *, most: int | None = None) -> str:
    """Return the payers as text, each with the number of GPUs that it pays for."""
    paid: dict[str, int] = {}
    for share in payers:
        paid[share.payer] = paid.get(share.payer, 0) + share.gpus
    return names((f"{payer}:{gpus}" for payer, gpus in paid.items()), most=most)


def scope_text(scope: Scope) -> str:
    """Return the scope of a conflict as text."""
    if scope.limit:
        return scope.limit
    where = names(scope.domains) if scope.domains else "everywhere"
    pool = "" if scope.pool == "default" else f" in pool {scope.pool}"
    return f"{scope.flavor} {where}{pool}"


def start_text(start_ms: int | None, now_ms: int) -> str:
    """Return the time until a planned start; ``-`` if no start is planned."""
    if start_ms is None:
        return "-"
    left_ms = start_ms - now_ms
    return f"in {countdown(left_ms)}" if left_ms > 0 else "due"


def shares_tree(payers: Iterable[Share]) -> list[Tree]:
    """Return the payers with their GPUs and holds, for programs."""
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
    """Return the GPUs of a planned start by domain, for programs."""
    return {
        "flavor": place.flavor,
        "gpus": place.gpus,
        "domains": [{"domain": domain, "gpus": gpus} for domain, gpus in place.domains],
    }


# --- Reservations ---------------------------------------------------------------------------------


class ReservationState(Word):
    """The state of a reservation, open or closed."""

    TENTATIVE = "Tentative"
    """A forecast that changes with the queue; it is not recorded, and nothing is held for it."""
    FIRM = "Firm"
    """Recorded in the ledger; it moves later only for a recorded cause."""
    ACTIVATED = "Activated"
    """Its run started."""
    RELEASED = "Released"
    """Its run no longer waits for a start."""


_CLOSED: Final = {
    ReservationOutcome.ACTIVATED: ReservationState.ACTIVATED,
    ReservationOutcome.CANCELLED: ReservationState.RELEASED,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedStart:
    """A reservation. A tentative reservation has the name of its run, and no record."""

    name: str
    run: str
    state: ReservationState
    start_ms: int | None
    place: Slice
    payers: tuple[Share, ...]
    record: ReservationRecord | None = None
    closed_ms: int | None = None


def reservation_run(name: str) -> str:
    """Return the run of a reservation: ``RUN`` for the firm ``RUN@1`` and the tentative ``RUN``."""
    return name.partition("@")[0]


def reservation_names(moment: Moment) -> list[str]:
    """Return the names of reservations: first the closed reservations that the caller named.

    Then the firm reservations follow, in the order in which they were made, and the tentative ones.
    """
    found = moment.view.reservations
    firm = sorted(found, key=lambda name: found[name].seq)
    return [*moment.closed, *firm, *moment.plan.tentative()]


def planned_starts(moment: Moment, names: Sequence[str]) -> list[PlannedStart]:
    """Return the reservations with the names ``names``."""
    tentative: dict[str, Entry] | None = None
    found: list[PlannedStart] = []
    for name in names:
        record, closed = moment.view.reservations.get(name), moment.closed.get(name)
        if record is not None:
            found.append(_recorded(name, record, ReservationState.FIRM))
        elif closed is not None:
            state = _CLOSED[closed.outcome]
            found.append(_recorded(name, closed.record, state, closed_ms=closed.at_ms))
        else:
            tentative = moment.plan.tentative() if tentative is None else tentative
            entry = tentative[name]
            found.append(
                PlannedStart(
                    name=name,
                    run=name,
                    state=ReservationState.TENTATIVE,
                    start_ms=entry.start_ms,
                    place=entry.slice,
                    payers=entry.shares,
                )
            )
    return found


def _recorded(
    name: str, record: ReservationRecord, state: ReservationState, *, closed_ms: int | None = None
) -> PlannedStart:
    return PlannedStart(
        name=name,
        run=record.made.run,
        state=state,
        start_ms=record.planned_start_ms,
        place=record.slice,
        payers=record.payers,
        record=record,
        closed_ms=closed_ms,
    )


def how_text(found: PlannedStart) -> str:
    """Return in words whether a planned start needs a conflict; ``-`` if there is no start."""
    if found.start_ms is None:
        return "-"
    return "by conflict" if found.record is not None and found.record.by_conflict else "by itself"


def _reservation_rows(moment: Moment, wanted: Sequence[str]) -> list[Row]:
    return [_reservation_row(moment, found) for found in planned_starts(moment, wanted)]


def _reservation_row(moment: Moment, found: PlannedStart) -> Row:
    record = None if found.record is None else moment.redaction.promise(found.record)
    natural_ms = found.start_ms if record is None else record.natural_start_ms
    return (
        found.name,
        found.run,
        moment.view.runs[found.run].spec.owner,
        found.state.value,
        "-" if record is None else record.status.value,
        time_or_none(found.start_ms) or "-",
        "-" if found.closed_ms is not None else start_text(found.start_ms, moment.now_ms),
        how_text(found),
        str(found.place.gpus),
        found.place.flavor,
        place_text(found.place, most=2),
        "-" if record is None else cause_text(record.cause) or "-",
        shares_text(found.payers, most=2),
        time_or_none(natural_ms) or "-",
        "-" if record is None else time_text(record.made.at_ms),
        time_or_none(found.closed_ms) or "-",
    )


def cause_tree(cause: MoveCause | None) -> Tree | None:
    """Return the cause for which a firm start was moved, for programs."""
    if cause is None:
        return None
    return {
        "code": cause.code.value,
        "objects": [{"kind": kind, "name": name} for kind, name in cause.objects],
        "text": cause_text(cause),
    }


def reservation_status(moment: Moment, record: ReservationRecord) -> Tree:
    """Return the status of a firm reservation, for programs."""
    name = record.made.reservation
    return {
        "name": name,
        **_start_status(moment, _recorded(name, record, ReservationState.FIRM)),
    }


def _start_status(moment: Moment, found: PlannedStart) -> Tree:
    record = None if found.record is None else moment.redaction.promise(found.record)
    start_ms, is_closed = found.start_ms, found.closed_ms is not None
    left_ms = None if start_ms is None or is_closed else max(0, start_ms - moment.now_ms)
    status: Tree = {
        "state": found.state.value,
        "status": None if record is None else record.status.value,
        "plannedStart": time_or_none(start_ms),
        "startsInMs": left_ms,
        "naturalStart": time_or_none(start_ms if record is None else record.natural_start_ms),
        "byConflict": record is not None and record.by_conflict,
        "slice": place_tree(found.place),
        "payers": shares_tree(found.payers),
        "cause": None if record is None else cause_tree(record.cause),
        "conflict": None if record is None else record.conflict or None,
        "attempts": 0 if record is None else record.attempts,
        "made": None if record is None else time_text(record.made.at_ms),
        "sequence": None if record is None else record.seq,
    }
    return status | ({"closed": time_text(found.closed_ms)} if found.closed_ms is not None else {})


def _reservation_trees(moment: Moment, wanted: Sequence[str]) -> list[Tree]:
    return [_reservation_tree(moment, found) for found in planned_starts(moment, wanted)]


def _reservation_tree(moment: Moment, found: PlannedStart) -> Tree:
    """Return a reservation as a document: its first plan as the spec, and its status."""
    start_ms, place, payers = found.start_ms, found.place, found.payers
    if found.record is not None:
        made = found.record.made
        start_ms, place, payers = made.planned_start_ms, made.slice, made.payers
    spec: Tree = {
        "runRef": {"name": found.run},
        "intendedSlice": place_tree(place),
        "payingEnvelope": payers[0].payer if payers else None,
        "earliestStart": time_or_none(start_ms),
    }
    return document("Reservation", found.name, spec=spec, status=_start_status(moment, found))


RESERVATION = Kind(
    called=kind_names.RESERVATION,
    columns=(
        Column("NAME"),
        Column("RUN"),
        Column("OWNER"),
        Column("STATE"),
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
        wide("CLOSED"),
    ),
    names=reservation_names,
    rows=_reservation_rows,
    trees=_reservation_trees,
)


# --- Conflicts ------------------------------------------------------------------------------------


def asked_by(record: ConflictRecord) -> str:
    """Return the reservation or limit that a conflict was declared for, else ``an operator``."""
    declared = record.declared
    return declared.reservation or declared.scope.limit or "an operator"


def victims_text(cuts: Sequence[Cut], *, most: int | None = None) -> str:
    """Return the runs that are cut, how each run is cut, and how many GPUs it loses."""
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
    """Return the scope of a conflict, for programs."""
    return {
        "pool": scope.pool,
        "flavor": scope.flavor,
        "domains": list(scope.domains),
        "limit": scope.limit or None,
    }


def cut_tree(cut: Cut | Candidate) -> Tree:
    """Return one cut, either published or tried in a search, for programs."""
    return {
        "step": cut.step.value,
        "run": cut.run,
        "bundle": cut.bundle,
        "gpus": cut.gpus,
        "leases": list(cut.leases),
    }


OUTCOME = Kind(
    called=kind_names.OUTCOME,
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
