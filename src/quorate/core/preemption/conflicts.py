"""Declares conflicts before any work ends, and settles them when they are due.

The declaration fixes the runs that enter the lottery, and the link of the committed chain that will
be revealed. The cuts are computed when the conflict is due, from the state at that time. Work is
cut only if all cuts and draws together make enough room. See docs/adr/0013-resolver.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from quorate.core.commands import Draw, Resolve
from quorate.core.decision_log import DecisionLog
from quorate.core.lifecycle.spares import close_pledges
from quorate.core.lifecycle.stops import stop_bundle, stop_lease
from quorate.core.preemption.conflict_scope import Prepared, Question, by_hand, prepare, question_of
from quorate.core.preemption.cut_order import Burst, Candidate
from quorate.core.preemption.lottery import (
    chain_before,
    draw,
    link_of,
    seed_of,
    seed_parts,
    tokens_by_owner,
)
from quorate.core.preemption.resolver import Drawn, Resolver
from quorate.core.preemption.run_age import last_start_ms
from quorate.model.amounts import HOUR_MS
from quorate.model.events import (
    ConflictCause,
    ConflictDeclared,
    ConflictOutcome,
    ConflictResolved,
    Cut,
    CutStep,
    DrawnToken,
    EndReason,
    Token,
)
from quorate.model.refusal import Refusal, RefusalCode
from quorate.model.specs import CapId, Discipline
from quorate.model.state.records import RunRecord
from quorate.model.state.state_view import StateView

CHECKPOINT_MS: Final = HOUR_MS
"""The longest time that work is expected to run without a checkpoint."""
_REASONS: Final = {
    CutStep.BACKFILL: EndReason.OVERSTAYED,
    CutStep.SPARE: EndReason.DROP_SPARE,
    CutStep.SHRINK: EndReason.SHRINK,
    CutStep.BURST: EndReason.BURST_CUT,
    CutStep.LOTTERY: EndReason.RANDOM_PREEMPT,
}


# --- Declaring ------------------------------------------------------------------------------------


def declare_conflict(
    log: DecisionLog,
    question: Question,
    *,
    due_ms: int | None = None,
    attempt: int | None = None,
    burst: Burst | None = None,
) -> ConflictDeclared | Refusal | None:
    """Declare the conflict ``question``, due at ``due_ms``; return the declaration or a refusal.

    Return None if no GPUs are missing. If the same conflict is already open, its declaration is
    returned. Without ``due_ms``, a conflict for a limit is due when enough of the runs under the
    limit may be drawn, and any other conflict is due now.
    """
    view, now_ms = log.view, log.now_ms
    for name in view.open_conflicts:
        declared = view.conflicts[name].declared
        if _asks_the_same(question_of(declared), question):
            return declared
    resolver = question.resolver(view, now_ms, has_executor=log.has_executor, burst=burst)
    if resolver is None or not resolver.deficit:
        return None
    if due_ms is None:
        due_ms = _first_due_ms(view, question, resolver, now_ms)
    prepared = prepare(view, question, resolver, due_ms)
    if isinstance(prepared, int):
        return not_resolvable(question, resolver.deficit, prepared)
    if view.lottery.next_index > view.lottery.length:
        return _no_chain(question, resolver)
    if attempt is None:
        known_as = view.reservations.get(question.reservation)
        attempt = 1 if known_as is None else known_as.attempts + 1
    declared = _declared(log, question, prepared, due_ms, attempt)
    log.write(declared)
    return declared


def _asks_the_same(one: Question, other: Question) -> bool:
    """Return whether two conflicts have the same goal.

    Conflicts for one reservation, or for one limit, have the same goal even if the reservation has
    moved or the limit has changed.
    """
    if one.cause is not other.cause or one.reservation or one.scope.limit:
        return (one.cause, one.reservation, one.scope.limit) == (
            other.cause,
            other.reservation,
            other.scope.limit,
        )
    return (one.scope, one.gpus) == (other.scope, other.gpus)


def _first_due_ms(view: StateView, question: Question, resolver: Resolver, now_ms: int) -> int:
    """Return when a conflict is due: now or, for a limit, when enough runs may be drawn.

    A run under the limit may be drawn only after its pool's minimum runtime, because the owner that
    lowers a limit does not know which runs have just started. If a conflict for a limit needs a
    lottery and is declared for the first time, it is due at least one notice period from now, so
    that owners are warned. The instant is found by bisection.
    """
    if question.cause is not ConflictCause.TIGHTENED:
        return now_ms
    if resolver.short and question.since_ms is None:
        now_ms += view.pools[question.scope.pool].notice_ms
    ripe = {now_ms}
    for token in resolver.tokens(lambda record: record.since_ms is not None):
        record = view.runs[token.run]
        started_ms = last_start_ms(view, record)
        assert started_ms is not None, token
        ripe.add(max(now_ms, started_ms + view.pools[record.spec.pool].least_runtime_ms))
    instants = sorted(ripe)
    low, high = -1, len(instants) - 1
    while high - low > 1:
        middle = (low + high) // 2
        if resolver.suffices(resolver.tokens(question.enters(view, instants[middle]))):
            high = middle
        else:
            low = middle
    return instants[high]


def _declared(
    log: DecisionLog, question: Question, prepared: Prepared, due_ms: int, attempt: int
) -> ConflictDeclared:
    view, resolver = log.view, prepared.resolver
    tokens = tuple(
        Token(prepared.owners[token.run], token.run, token.gpus, view.runs[token.run].spec.nonce)
        for token in prepared.tokens
    )
    return ConflictDeclared(
        at_ms=log.now_ms,
        actor=log.actor,
        conflict=str(len(view.conflicts) + 1),
        cause=question.cause,
        scope=question.scope,
        reservation=question.reservation,
        deficit=resolver.deficit,
        short=resolver.short,
        size_max=prepared.size_max,
        due_ms=due_ms,
        attempt=attempt,
        preimage_index=view.lottery.next_index,
        commitment=view.lottery.link,
        tokens=tokens,
    )


def not_resolvable(question: Question, deficit: int, short: int) -> Refusal:
    """Return the refusal of a conflict whose cuts and draws together leave GPUs missing.

    ``deficit`` is the number of missing GPUs before any cut. ``short`` is the number that would
    still be missing after all cuts and draws.
    """
    return Refusal(
        code=RefusalCode.NOT_RESOLVABLE,
        subject=question_words(question),
        wanted=deficit,
        short=short,
    )


def _no_chain(question: Question, resolver: Resolver) -> Refusal:
    return Refusal(
        code=RefusalCode.NOT_RESOLVABLE,
        subject=question_words(question),
        wanted=resolver.deficit,
        short=resolver.deficit,
        remedy="the lottery chain of this ledger is used up: create a new ledger with quorate init",
    )


def question_words(question: Question) -> str:
    """Return the limit, the reservation or the scope of a conflict, as a text."""
    if question.scope.limit:
        return question.scope.limit
    where = ", ".join(question.scope.domains) or f"pool {question.scope.pool}"
    what = f"{question.scope.flavor} in {where}"
    return f"reservation {question.reservation}, {what}" if question.reservation else what


def resolve_by_hand(log: DecisionLog, command: Resolve) -> Refusal | None:
    """Declare a conflict by hand, due after one notice; return a refusal if it is not possible."""
    view = log.view
    refusal = _refused_scope(view, command)
    if refusal is not None:
        return refusal
    if command.gpus < 1:
        return Refusal(
            code=RefusalCode.INVALID,
            subject=f"cannot free {command.gpus} GPUs",
            remedy="ask for one or more",
        )
    question = by_hand(view, command)
    pool = view.pools[question.scope.pool]
    if pool.discipline is Discipline.ROUNDS:
        return Refusal(
            code=RefusalCode.INVALID,
            subject=(
                f"pool {pool.name!r} shares its GPUs in rounds: runs that are cut would "
                "return in the next round"
            ),
            remedy="cordon or drain nodes instead: quorate node cordon NODE",
        )
    answer = declare_conflict(log, question, due_ms=log.now_ms + pool.notice_ms)
    return answer if isinstance(answer, Refusal) else None


def _refused_scope(view: StateView, command: Resolve) -> Refusal | None:
    """Return a refusal if a part of the scope does not exist, else None."""
    cap = view.caps.get(CapId(command.cap))
    if command.cap and (cap is None or cap.retired):
        return _unknown(f"there is no cap {command.cap!r}", "list them: quorate get caps")
    if command.pool not in view.pools:
        return _unknown(f"there is no pool {command.pool!r}", "list them: quorate get pools")
    if command.cap or view.pools[command.pool].discipline is Discipline.ROUNDS:
        return None
    index = view.domains(command.pool, command.flavor)
    if not index.keys:
        subject = f"pool {command.pool!r} has no node of flavor {command.flavor!r}"
        return _unknown(subject, "list them: quorate get nodes")
    for domain in command.domains:
        if domain not in index.numbers:
            subject = f"pool {command.pool!r} has no {command.flavor} in domain {domain!r}"
            return _unknown(subject, f"choose one of {', '.join(sorted(index.numbers))}")
    return None


def _unknown(subject: str, remedy: str) -> Refusal:
    return Refusal(code=RefusalCode.UNKNOWN_NAME, subject=subject, remedy=remedy)


# --- Settling -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Outcome:
    """The result of a conflict, before it is written.

    ``is_open`` says that nothing was drawn, and that the conflict has to be declared again with the
    runs that may be drawn now.
    """

    outcome: ConflictOutcome
    cuts: tuple[Candidate, ...] = ()
    drawn: Drawn | None = None
    preimage: str = ""
    seed: str = ""
    is_open: bool = False


def settle_conflict(
    log: DecisionLog, command: Draw, *, burst: Burst | None = None
) -> Refusal | None:
    """Write the result of a conflict that is due, and its stops; or return a refusal.

    The conflict is declared again, with the runs that may be drawn now, in three cases:

    - The remaining entrants are not enough. (But a conflict for a reservation is then called again
      only when the reservation is next examined.)
    - An owner has ended an entrant and has started other runs.
    - Another lottery has used the conflict's link.
    """
    refusal = _refused(log, command)
    if refusal is not None:
        return refusal
    declared = log.view.conflicts[command.conflict].declared
    outcome = _outcome(log, declared, command, burst)
    _write(log, declared, outcome)
    if outcome.outcome is ConflictOutcome.INSUFFICIENT and (
        outcome.is_open or declared.cause is not ConflictCause.RESERVATION
    ):
        _declare_anew(log, declared, burst)
    return None


def _refused(log: DecisionLog, command: Draw) -> Refusal | None:
    """Return a refusal if ``command`` cannot settle its conflict now, else None."""
    record = log.view.conflicts.get(command.conflict)
    name = f"conflict {command.conflict!r}"
    if record is None:
        return _unknown(f"there is no {name}", "list them: quorate get resolveroutcomes")
    if record.resolved is not None:
        return _conflict(f"{name} is settled already: {record.resolved.outcome}")
    declared = record.declared
    if declared.due_ms > log.now_ms:
        return _conflict(f"{name} is due in {declared.due_ms - log.now_ms} ms")
    return _preimage_refused(declared, command)


def _preimage_refused(declared: ConflictDeclared, command: Draw) -> Refusal | None:
    name = f"conflict {command.conflict!r}"
    if command.beacon:
        # The ledger commits to no source of beacons, so a caller could have tried many beacons.
        return _conflict(f"{name} takes no beacon", "leave the beacon out")
    if not declared.tokens:
        if command.preimage:
            return _conflict(f"{name} has no lottery, so it takes no preimage")
        return None
    preimage = link_of(command.preimage)
    if preimage is None or chain_before(preimage).hex() != declared.commitment:
        subject = f"the preimage is not link {declared.preimage_index} of the lottery's chain"
        return _conflict(f"{name}: {subject}", "use the secret that was created with the ledger")
    return None


def _conflict(subject: str, remedy: str = "") -> Refusal:
    return Refusal(code=RefusalCode.CONFLICT, subject=subject, remedy=remedy)


def _outcome(  # noqa: PLR0911 - one result for each case
    log: DecisionLog, declared: ConflictDeclared, command: Draw, burst: Burst | None
) -> _Outcome:
    """Return the result of the conflict ``declared`` in the present state."""
    view = log.view
    question = question_of(declared)
    resolver = question.resolver(view, log.now_ms, has_executor=log.has_executor, burst=burst)
    if resolver is None or not resolver.deficit:
        return _Outcome(ConflictOutcome.NOT_NEEDED)
    if not resolver.short:
        return _Outcome(ConflictOutcome.CLEARED, resolver.cuts)
    if not declared.tokens:
        return _Outcome(ConflictOutcome.INSUFFICIENT)
    tokens = entered(view, declared, resolver)
    if declared.commitment != view.lottery.link or has_dodger(view, declared, resolver, tokens):
        return _Outcome(ConflictOutcome.INSUFFICIENT, is_open=True)
    preimage = link_of(command.preimage)
    assert preimage is not None, command
    seed = seed_of(seed_parts(declared, preimage))
    drawn = resolver.draw(tokens, draw(seed, tokens_by_owner(declared)))
    if drawn is None:
        return _Outcome(ConflictOutcome.INSUFFICIENT)
    if not drawn.draws:
        return _Outcome(ConflictOutcome.CLEARED, drawn.cuts)
    return _Outcome(
        ConflictOutcome.CLEARED,
        (*drawn.cuts, *drawn.victims),
        drawn,
        command.preimage,
        seed.hex(),
    )


def entered(view: StateView, declared: ConflictDeclared, resolver: Resolver) -> list[Candidate]:
    """Return the remaining tokens of ``declared``. A run that was restarted has lost its token."""
    names = {token.run for token in declared.tokens}

    def stayed(record: RunRecord) -> bool:
        started_ms = last_start_ms(view, record) or 0
        return record.spec.name in names and started_ms <= declared.at_ms

    return resolver.tokens(stayed)


def has_dodger(
    view: StateView, declared: ConflictDeclared, resolver: Resolver, left: Sequence[Candidate]
) -> bool:
    """Return whether an owner has ended an entrant and has started other runs in scope.

    Without this check, an owner could avoid the draw by starting its work under another name.
    ``left`` are the remaining tokens.
    """
    still = {token.run for token in left}
    owners = {token.owner for token in declared.tokens if token.run not in still}
    if not owners:
        return False
    first_ms = asked_again(view, declared).since_ms
    assert first_ms is not None, declared

    def came(record: RunRecord) -> bool:
        started_ms = last_start_ms(view, record)
        is_late = started_ms is not None and started_ms >= first_ms
        return is_late and record.spec.owner in owners and record.spec.name not in still

    return bool(resolver.tokens(came))


def asked_again(view: StateView, declared: ConflictDeclared) -> Question:
    """Return the conflict of ``declared``, to declare it again.

    ``since_ms`` of the result is the instant of the first declaration.
    """
    question, first = question_of(declared), declared
    earlier = [] if declared.attempt == 1 else [known.declared for known in view.conflicts.values()]
    for before in sorted(earlier, key=lambda each: (each.at_ms, each.attempt), reverse=True):
        if before.attempt == first.attempt - 1 and _asks_the_same(question_of(before), question):
            first = before
    return replace(question, since_ms=first.at_ms)


def _write(log: DecisionLog, declared: ConflictDeclared, found: _Outcome) -> None:
    """Write the outcome of a conflict, and then its stops."""
    view = log.view
    draws = () if found.drawn is None else found.drawn.draws
    spared = frozenset[str]() if found.drawn is None else found.drawn.spared
    log.write(
        ConflictResolved(
            at_ms=log.now_ms,
            actor=log.actor,
            conflict=declared.conflict,
            outcome=found.outcome,
            preimage=found.preimage,
            beacon="",
            seed=found.seed,
            cuts=tuple(Cut(c.step, c.run, c.bundle, c.gpus, c.leases) for c in found.cuts),
            draws=tuple(DrawnToken(owner, run, run in spared) for owner, run in draws),
            lost_gpu_ms=sum(lost_gpu_ms(view, cut, log.now_ms) for cut in found.cuts),
        )
    )
    for cut in found.cuts:
        close_pledges(log, [view.pledges[name] for name in cut.pledges])
        reason = _REASONS[cut.step]
        if cut.step is CutStep.SPARE:
            for lease in cut.leases:
                stop_lease(log, lease, reason)
        else:
            detail = found.seed if cut.step is CutStep.LOTTERY else ""
            stop_bundle(log, cut.run, cut.bundle, reason, detail=detail)


def lost_gpu_ms(view: StateView, cut: Candidate, now_ms: int) -> int:
    """Return the estimated GPU-milliseconds of work that are lost when ``cut`` ends; 0 for a spare.

    The lost work is the work since the run's start. The loss is limited to the pool's minimum
    runtime or to an hour, whichever is longer, because runs are expected to checkpoint that often.
    """
    if cut.step is CutStep.SPARE:
        return 0
    record = view.runs[cut.run]
    started_ms = last_start_ms(view, record)
    assert started_ms is not None, cut
    most_ms = max(view.pools[record.spec.pool].least_runtime_ms, CHECKPOINT_MS)
    return cut.gpus * min(now_ms - started_ms, most_ms)


def _declare_anew(log: DecisionLog, declared: ConflictDeclared, burst: Burst | None) -> None:
    """Declare a conflict again, with the runs that may be drawn now.

    A refusal is ignored: the result that was just written remains.
    """
    question = asked_again(log.view, declared)
    declare_conflict(log, question, attempt=declared.attempt + 1, burst=burst)
