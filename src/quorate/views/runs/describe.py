"""Descriptions of single resources, as text in sections. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from msgspec.structs import replace

from quorate.core.lifecycle.loan_terms import terms_of_lease
from quorate.core.preemption.conflict_preview import ordeals_of
from quorate.core.profile.lease_ends import declared_end_ms
from quorate.core.rounds.round_outlook import next_round_ms, share_words
from quorate.documents import render, to_yaml
from quorate.documents.times import duration_text, time_text
from quorate.model.closed_words import counted
from quorate.model.events import ReservationMoved, Tier
from quorate.model.specs import CapId, Discipline
from quorate.model.state.records import Phase, ReservationRecord, RunRecord
from quorate.views.kinds.kind import Kind
from quorate.views.kinds.kinds_claims import CLAIM, apart_text, claim_text
from quorate.views.kinds.kinds_fleet import NODE, POOL, node_leases
from quorate.views.kinds.kinds_money import (
    BUDGET,
    CAP,
    ENVELOPE,
    accounts_of,
)
from quorate.views.kinds.kinds_owners import OWNER, owner_gpus, shares_text
from quorate.views.kinds.kinds_plans import (
    OUTCOME,
    RESERVATION,
    asked_by,
    place_text,
    planned_starts,
    scope_text,
)
from quorate.views.kinds.kinds_work import (
    LEASE,
    LEASE_COLUMNS,
    RUN,
    ending_text,
    lease_cells,
    lease_places,
)
from quorate.views.runs.conflict_view import cuts_table, ordeal_lines, shares_table, tokens_table
from quorate.views.runs.event_text import COLUMNS as TIMELINE_COLUMNS
from quorate.views.runs.event_text import Entry
from quorate.views.runs.event_text import row as timeline_row
from quorate.views.runs.explanation_view import promise_lines
from quorate.views.runs.instant import (
    Charge,
    Moment,
    charges_of,
    domains_of,
    leases_of,
    lenders_of,
    run_gpus,
    run_width,
    runs_of,
)
from quorate.views.runs.loan_words import loan_lines
from quorate.views.runs.progress_view import progress_lines, reports_table
from quorate.views.runs.reason_words import stopping
from quorate.views.runs.round_forms import lease_bounds, turn_text, turns
from quorate.views.runs.wait_reasons import STARTABLE, reason_now
from quorate.views.runs.wait_view import wait_text
from quorate.views.table import Column, indented, pairs, right, table
from quorate.views.word_forms import (
    gpus,
    hours,
    hours_that_add_up,
    names,
    one_line,
    refusal_lines,
    since,
    until,
)

Describe = Callable[[Moment, str, Sequence[Entry]], list[str]]
_NONE: Final = "none"


def describe_run(moment: Moment, name: str, timeline: Sequence[Entry]) -> list[str]:
    """Return the spec, phase, refusal, leases, funding and events of a run."""
    record = moment.view.runs[name]
    sections = [pairs(_run_facts(moment, record))]
    if record.phase is Phase.PENDING:
        sections.append(_section("Waits because", _waits(moment, record)))
    if record.reservation is not None:
        promise = moment.view.reservations[record.reservation]
        sections.append(_section("Reservation", _promised(moment, promise, timeline)))
    ordeals = ordeals_of(moment.view, name)
    if ordeals:
        sections.append(_section("Conflicts", "\n".join(ordeal_lines(ordeals, moment.now_ms))))
    leases = leases_of(moment, record.leases)
    if leases:
        rows = [lease_cells(moment, lease.fact, most=None) for lease in leases]
        notes = [
            f"{lease.fact.lease} is stopping: {ending_text(lease)}"
            for lease in leases
            if lease.ending is not None
        ]
        sections.append(_section("Leases", "\n".join([table(LEASE_COLUMNS, rows), *notes])))
    progress = moment.progress.get(name)
    if progress is not None:
        told = [*progress_lines(progress, moment.now_ms), reports_table(progress, moment.now_ms)]
        sections.append(_section("Progress", "\n".join(told)))
    charges = charges_of(moment, record)
    if charges:
        sections.append(_section("Funding", _funding(moment, charges)))
    sections.append(_section("Spec", to_yaml(render(record.spec)["spec"]).rstrip()))
    rows = [timeline_row(entry) for entry in timeline]
    sections.append(_section("Timeline", table(TIMELINE_COLUMNS, rows)))
    return sections


def _waits(moment: Moment, record: RunRecord) -> str:
    """Return why the run waits now, and since when."""
    reason = reason_now(moment, record)
    if reason.refusal is None:
        return STARTABLE
    if reason.since_ms is not None:
        told = f"this reason since {since(reason.since_ms, moment.now_ms)}"
    elif record.refusal is None:
        told = "this reason is not recorded yet"
    else:
        recorded = f"{record.refusal.code} at {time_text(record.refused_since_ms)}"
        told = f"this reason is not recorded yet; the ledger has {recorded}"
    help_line = f"changes that would help: quorate explain {record.spec.name}"
    return "\n".join([*refusal_lines(reason.refusal), told, help_line])


def _promised(moment: Moment, promise: ReservationRecord, timeline: Sequence[Entry]) -> str:
    """Return a reservation with its history of moves and their causes."""
    moves = [
        entry.event
        for entry in timeline
        if isinstance(entry.event, ReservationMoved)
        and entry.event.reservation == promise.made.reservation
    ]
    return "\n".join(promise_lines(moment.redaction.promise(promise), moment.now_ms, moves))


def _run_facts(moment: Moment, record: RunRecord) -> list[tuple[str, str]]:
    spec, now_ms = record.spec, moment.now_ms
    facts = [
        ("Name", spec.name),
        ("Owner", spec.owner),
        ("User", spec.user or "-"),
        ("Phase", record.phase.value),
        ("Wants", f"{spec.gpus} x {names(spec.flavors)} in pool {spec.pool}"),
        ("Has", _has(moment, record)),
        ("Submitted", f"{since(record.submitted_ms, now_ms)}, sequence {record.seq}"),
    ]
    if spec.name in moment.view.in_rounds:
        facts.append(("Round", _round(moment, record)))
    if record.spec.sensitive:
        facts.append(("Claim", claim_text(moment, record)))
    if record.stopping is not None:
        told = since(record.stopping.at_ms, now_ms)
        facts.append(("Stops", f"{stopping(record.stopping)}; told {told}"))
    if record.started_ms is not None:
        facts.append(("First started", since(record.started_ms, now_ms)))
    wait = moment.waits.get(spec.name)
    if wait is not None:
        facts.append(("Waited", wait_text(wait)))
    if record.backfills:
        end_ms = declared_end_ms(moment.view, record)
        facts.append(
            ("Backfill", f"after {until(end_ms, now_ms)} it may be stopped for a firm start")
        )
    if record.via_conflict:
        facts.append(("Started by", f"conflict/{record.via_conflict}"))
    if record.ended_ms is not None:
        facts.append(("Ended", since(record.ended_ms, now_ms)))
    if record.note:
        facts.append(("Note", one_line(record.note)))
    return facts


def _round(moment: Moment, record: RunRecord) -> str:
    """Return a run's share of its pool's rounds, and when the next round begins."""
    view, pool = moment.view, record.spec.pool
    steps = view.in_rounds[record.spec.name].steps
    next_ms = next_round_ms(view, pool, moment.now_ms)
    told = f"the next begins {until(next_ms, moment.now_ms)}; {share_words(view, record)}"
    parts = [told, *map(turn_text, turns(view, record.spec.name))]
    return f"{'; '.join(parts)}; {counted(steps, 'step')} counted"


def _has(moment: Moment, record: RunRecord) -> str:
    """Return a run's GPUs, how many of them it works on, and its minimum and maximum width."""
    total, width = run_gpus(moment, record), run_width(moment, record)
    found = gpus(total) if total == width else f"{gpus(total)}, works on {width}"
    elastic = record.spec.malleable
    if elastic is None:
        return found
    bounds = f"may work on {elastic.gpus_min} to {elastic.gpus_max}"
    return f"{found}; {bounds}, wants {elastic.gpus_desired}"


def _funding(moment: Moment, charges: Sequence[Charge]) -> str:
    """Return the GPUs and GPU-hours by tier and payer; the rounded rows add up to the total."""
    amounts = hours_that_add_up([charge.gpu_ms for charge in charges])
    rows: list[tuple[str, ...]] = [
        (charge.tier.value, charge.payer, str(charge.gpus), amount)
        for charge, amount in zip(charges, amounts, strict=True)
    ]
    total_gpus = sum(charge.gpus for charge in charges)
    total_ms = sum(charge.gpu_ms for charge in charges)
    rows.append(("TOTAL", "", str(total_gpus), hours(total_ms)))
    columns = (Column("TIER"), Column("PAID-FROM"), right("GPUS-NOW"), right("GPU-HOURS"))
    by_tier = ", ".join(
        f"{tier.value} {sum(charge.gpus for charge in charges if charge.tier is tier)}"
        for tier in Tier
    )
    lenders = names(lenders_of(moment, charges))
    return f"{table(columns, rows)}\nGPUs now: {by_tier}; lenders: {lenders}"


def describe_budget(moment: Moment, name: str, timeline: Sequence[Entry]) -> list[str]:
    """Return the account of each envelope, the caps, and the leases that a budget pays for."""
    del timeline
    budget = moment.view.budgets[name]
    accounts = accounts_of(moment, name)
    keys = [account.envelope_id for account in accounts]
    sections = [
        pairs([("Name", name), ("Owner", budget.owner)]),
        _section("Envelopes (amounts in GPU-hours)", _listing(moment, ENVELOPE, keys, wide=True)),
    ]
    if budget.caps:
        caps = [CapId(f"{name}/{cap.name}") for cap in budget.caps]
        sections.append(_section("Caps", _listing(moment, CAP, caps)))
    paid = [key for key, lease in moment.view.leases.items() if lease.fact.payer in keys]
    shown = [key for key in paid if moment.redaction.run(key) == key]
    others = len(paid) - len(shown)
    sections.append(_section("Pays for", _with_others(_listing(moment, LEASE, shown), others)))
    return sections


def describe_node(moment: Moment, name: str, timeline: Sequence[Entry]) -> list[str]:
    """Return a node's location and status, the leases on it, and its recorded notes."""
    sections = [_listing(moment, NODE, [name], wide=True)]
    unwiped = moment.view.unwiped.get(name)
    if unwiped is not None:
        is_shown = moment.redaction.shows_run(unwiped.claim)
        sections.append(_section("Claim", apart_text(unwiped, name, is_shown=is_shown)))
    leases, others = node_leases(moment, name)
    sections.append(_section("Leases", _with_others(_listing(moment, LEASE, leases), others)))
    rows = [timeline_row(entry) for entry in timeline]
    sections.append(_section("Timeline", table(TIMELINE_COLUMNS, rows)))
    return sections


def _with_others(text: str, others: int) -> str:
    """Return ``text``, a list of visible leases, followed by the number of other owners' leases."""
    if not others:
        return text
    more = f"{counted(others, 'lease')} of others"
    return more if text == _NONE else f"{text}\nand {more}"


def describe_owner(moment: Moment, name: str, timeline: Sequence[Entry]) -> list[str]:
    """Return an owner's family, quota, budgets and runs."""
    del timeline
    owner = moment.view.owners[name]
    siblings = {
        child for parent in owner.parents for child in moment.view.children.get(parent, ())
    } - {name}
    facts = [
        ("Name", name),
        ("Parents", names(owner.parents)),
        ("Siblings", names(sorted(siblings))),
        ("Children", names(moment.view.children.get(name, ()))),
        ("GPUs now", str(owner_gpus(moment, name))),
    ]
    spec = render(owner)["spec"]
    quota = spec.get("quota") if isinstance(spec, dict) else None
    sections = [pairs(facts)]
    if quota:
        sections.append(_section("Quota", to_yaml(quota).rstrip()))
    sections.append(_section("Shares and hours", shares_text(moment, name)))
    budgets = moment.view.owner_budgets.get(name, ())
    sections.append(_section("Budgets (amounts in GPU-hours)", _listing(moment, BUDGET, budgets)))
    live = [*runs_of(moment, name, Phase.RUNNING), *runs_of(moment, name, Phase.PENDING)]
    over = moment.view.runs.count_of(name) - len(live)
    mark = f"{over} {'is' if over == 1 else 'are'} over"
    sections.append(_section(f"Runs ({mark})", _listing(moment, RUN, live)))
    return sections


def describe_lease(moment: Moment, name: str, timeline: Sequence[Entry]) -> list[str]:
    """Return a lease's run, slots, payer and hold."""
    del timeline
    lease = moment.view.leases[name]
    fact = lease.fact
    used = hours(lease.gpus * (moment.now_ms - fact.start_ms))
    facts = [
        ("Name", name),
        ("Run", fact.run),
        ("Part", f"{fact.comp_path} ({fact.role.value})"),
        ("GPUs", str(lease.gpus)),
        ("Domain", names(domains_of(moment, [fact]))),
        ("Paid from", f"{fact.payer} ({fact.tier.value})"),
        ("Started", f"{since(fact.start_ms, moment.now_ms)}, {fact.reason.value}"),
        ("Used", f"{used} GPU-hours"),
        ("Held", f"{hours(lease.hold_gpu_ms)} GPU-hours, until {time_text(lease.hold_ends_ms)}"),
    ]
    facts += (
        ("Loan", line) for line in loan_lines(terms_of_lease(moment.view, lease), moment.now_ms)
    )
    if lease.ending is not None:
        facts.append(("Ending", f"{lease.ending.reason}, {time_text(lease.ending.deadline_ms)}"))
    bounds = lease_bounds(moment.view, lease)
    if bounds is not None:
        facts.append(("Round", f"{bounds['number']} by {bounds['policy']}"))
        most = f"{counted(bounds['maxSteps'], 'step')}, {bounds['maxDurationSeconds']} s"
        facts.append(("At most", most))
        facts.append(("Turns", "; ".join(map(turn_text, bounds["turns"])) or "-"))
    lines = [lease_places(moment, replace(fact, slots=(pair,))) for pair in fact.slots]
    return [pairs(facts), _section("Slots", "\n".join(lines))]


def describe_reservation(moment: Moment, name: str, timeline: Sequence[Entry]) -> list[str]:
    """Return the planned start of a run, how firm it is, why it was moved, and its events."""
    (found,) = planned_starts(moment, [name])
    run, record = moment.view.runs[found.run].spec, found.record
    facts = [
        ("Name", name),
        ("Run", f"{run.name} of {run.owner}, {gpus(run.gpus)} in pool {run.pool}"),
        ("State", found.state.value),
    ]
    if record is None:
        facts.append(
            ("Start", "-" if found.start_ms is None else until(found.start_ms, moment.now_ms))
        )
        facts.append(("Where", f"{found.place.flavor}: {place_text(found.place)}"))
        held = _section("Would be paid by", shares_table(found.payers))
        return [pairs(facts), held]
    facts += [
        ("Status", record.status.value),
        ("Made", f"{since(record.made.at_ms, moment.now_ms)}, sequence {record.seq}"),
    ]
    if found.closed_ms is not None:
        facts.append(("Closed", since(found.closed_ms, moment.now_ms)))
    sections = [
        pairs(facts),
        _section("Start", _promised(moment, record, timeline)),
        _section("Held for it", shares_table(record.payers)),
    ]
    conflicts = [
        key for key, each in moment.view.conflicts.items() if each.declared.reservation == name
    ]
    if conflicts:
        sections.append(_section("Conflicts", _listing(moment, OUTCOME, conflicts)))
    rows = [timeline_row(entry) for entry in timeline]
    sections.append(_section("Timeline", table(TIMELINE_COLUMNS, rows)))
    return sections


def describe_conflict(moment: Moment, name: str, timeline: Sequence[Entry]) -> list[str]:
    """Return everything that was published about a conflict: tokens, seed, draws, cuts."""
    record = moment.view.conflicts[name]
    declared, resolved = record.declared, record.resolved
    link = f"link {declared.preimage_index}, which hashes to {declared.commitment}"
    facts = [
        ("Conflict", name),
        ("Cause", f"{declared.cause}, for {asked_by(record)}"),
        ("Scope", scope_text(declared.scope)),
        ("Deficit", f"{gpus(declared.deficit)}, {declared.short} of them by lottery"),
        ("Declared", since(declared.at_ms, moment.now_ms)),
        ("Due", f"{since(declared.due_ms, moment.now_ms)}, attempt {declared.attempt}"),
        ("Lottery", link if declared.tokens else "no run is drawn"),
    ]
    if resolved is not None:
        facts += [
            ("Outcome", f"{resolved.outcome}, {since(resolved.at_ms, moment.now_ms)}"),
            ("Lost work", f"{hours(resolved.lost_gpu_ms)} GPU-hours"),
        ]
    if resolved is not None and resolved.seed:
        facts += [("Preimage", resolved.preimage), ("Seed", resolved.seed)]
    sections = [pairs(facts)]
    if declared.tokens:
        title = f"Tokens (of up to {gpus(declared.size_max)})"
        sections.append(_section(title, tokens_table(declared)))
    if resolved is not None and resolved.draws:
        lines = [
            f"{number}. {each.run} of {each.owner}{', spared' if each.spared else ''}"
            for number, each in enumerate(resolved.draws, start=1)
        ]
        sections.append(_section("Draws", "\n".join(lines)))
    if resolved is not None:
        sections.append(_section("Cut", cuts_table(resolved.cuts) if resolved.cuts else "none"))
    rows = [timeline_row(entry) for entry in timeline]
    sections.append(_section("Timeline", table(TIMELINE_COLUMNS, rows)))
    return sections


def describe_pool(moment: Moment, name: str, timeline: Sequence[Entry]) -> list[str]:
    """Return a pool's row in the wide table, its document and, for a rounds pool, its rounds."""
    del timeline
    sections = describe_other(moment, POOL, name)
    pool = moment.view.pools[name]
    if pool.discipline is Discipline.ROUNDS:
        facts = [("Length", duration_text(pool.round_ms)), ("Next", _next_round(moment, name))]
        sections.insert(1, _section("Rounds", pairs(facts)))
    return sections


def _next_round(moment: Moment, pool: str) -> str:
    """Return when the next round of ``pool`` begins; without runs, no round begins."""
    if not any(member.pool == pool for member in moment.view.in_rounds.values()):
        return "begins when the pool has a run"
    next_ms = next_round_ms(moment.view, pool, moment.now_ms)
    return "is due" if next_ms == moment.now_ms else f"begins {until(next_ms, moment.now_ms)}"


DESCRIPTIONS: Final[dict[str, Describe]] = {
    RUN.name: describe_run,
    BUDGET.name: describe_budget,
    NODE.name: describe_node,
    CLAIM.name: describe_run,
    OWNER.name: describe_owner,
    POOL.name: describe_pool,
    LEASE.name: describe_lease,
    RESERVATION.name: describe_reservation,
    OUTCOME.name: describe_conflict,
}


def describe_other(moment: Moment, kind: Kind, name: str) -> list[str]:
    """Return the row in the wide table and the document of a resource of any other kind."""
    (tree,) = kind.trees(moment, [name])
    return [_listing(moment, kind, [name], wide=True), _section("Document", to_yaml(tree).rstrip())]


def _listing(moment: Moment, kind: Kind, wanted: Sequence[str], *, wide: bool = False) -> str:
    if not wanted:
        return _NONE
    return table(kind.columns, kind.rows(moment, wanted), show_wide=wide)


def _section(title: str, text: str) -> str:
    return f"{title}:\n{indented(text)}"
