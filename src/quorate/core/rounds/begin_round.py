"""Begin a round of a pool. See docs/adr/0024-rounds-pools.md.

The pool's policy has already chosen the runs that get GPUs, and their flavors. This module decides
whether these grants are allowed, which runs keep their GPUs, which runs stop, and who pays. If a
run keeps its GPUs, its leases are paid for until the round's end, without a new start. A run that
loses its GPUs stops within its grace. A run with a new grant starts when there is room. Quotas,
money and room are checked as for any other start.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import Final

from msgspec.structs import replace

from quorate.core.admission.holds import ROUND_SLACK_MS, extension_to_ms
from quorate.core.commands import ShareOut
from quorate.core.decision_log import DecisionLog
from quorate.core.lifecycle.handover import hand_over
from quorate.core.lifecycle.stops import stop_run
from quorate.core.profile.firm_places import firm_profile
from quorate.core.rounds.round_placement import is_sound, refuse
from quorate.model.events import (
    EndReason,
    HoldExtended,
    RoundGrant,
    RoundShared,
    StepCount,
    StepsCounted,
)
from quorate.model.refusal import Refusal, RefusalCode
from quorate.model.specs import Discipline, Run
from quorate.model.state.entitlements import entitlements_ms, received_ms
from quorate.model.state.records import RunRecord
from quorate.model.state.state_view import StateView

OWED_ROUNDS_MAX: Final = 20
"""The most rounds of a flavor for which a run can be owed GPU time.

A run whose share is a part of every round can never get more than its share, so it can never make
up for a round without GPUs. With a low bound, runs with smaller shares would soon be owed as much,
and would get GPUs before this run."""
STEPS_MAX: Final = 10**12
"""The largest number of steps of one run that a single report can add."""


def rounds_due(view: StateView) -> Iterator[tuple[int, str]]:
    """Yield (instant of the next round, pool) for each pool with runs.

    The instant of the first round of a pool is 0, which means at once.
    """
    for pool in sorted(view.round_sizes):
        round_ = view.rounds.get(pool)
        yield 0 if round_ is None else round_.shared.until_ms, pool


def share_out(log: DecisionLog, command: ShareOut) -> Refusal | None:
    """Write the next round of a pool; return a refusal if it cannot begin."""
    view = log.view
    refusal = _untimely(view, command, log.now_ms) or _unfit(view, command)
    if refusal is not None:
        return refusal
    counts = tuple(step_counts(view, command.pool, command.steps, log.now_ms))
    if counts:
        log.write(StepsCounted(at_ms=log.now_ms, actor=log.actor, pool=command.pool, counts=counts))
    grants = tuple(_granted(view, grant) for grant in command.grants)
    pool = view.pools[command.pool]
    log.write(
        RoundShared(
            at_ms=log.now_ms,
            actor=log.actor,
            pool=command.pool,
            number=command.number,
            policy=command.policy,
            until_ms=log.now_ms + pool.round_ms,
            flavors=command.flavors,
            gpus=command.gpus,
            shares=command.shares,
            prices=command.prices,
            grants=grants,
            owed_rounds_max=OWED_ROUNDS_MAX,
            causes=command.causes,
        )
    )
    _settle(log, command.pool, grants)
    return None


def _untimely(view: StateView, command: ShareOut, now_ms: int) -> Refusal | None:
    """Return a refusal if round ``command.number`` may not begin now, else None."""
    pool = view.pools.get(command.pool)
    if pool is None:
        return Refusal(
            code=RefusalCode.UNKNOWN_NAME,
            subject=f"there is no pool {command.pool!r}",
            remedy="list them: quorate get pools",
        )
    if pool.discipline is not Discipline.ROUNDS:
        return Refusal(
            code=RefusalCode.CONFLICT,
            subject=f"pool {command.pool!r} does not share its GPUs in rounds",
            remedy="set discipline: rounds on the pool",
        )
    record = view.rounds.get(command.pool)
    number = 1 if record is None else record.shared.number + 1
    if number != command.number or (record is not None and now_ms < record.shared.until_ms):
        return Refusal(
            code=RefusalCode.CONFLICT,
            subject=f"round {command.number} of pool {command.pool!r} does not begin now: "
            f"round {number} is next",
            remedy=f"wait for round {number}",
        )
    return None


def _unfit(view: StateView, command: ShareOut) -> Refusal | None:
    """Return a refusal if a grant or a share is not possible, else None.

    A run with a grant must be in the pool, must ask for the flavor of its grant, and may have only
    one grant.
    """
    seen: set[str] = set()
    for grant in command.grants:
        for name in (grant.run,) if grant.partner is None else (grant.run, grant.partner):
            member = view.in_rounds.get(name)
            what = None
            if member is None or member.pool != command.pool:
                what = f"is not in pool {command.pool!r}, or is over"
            elif name in seen:
                what = "is granted GPUs twice"
            elif grant.flavor not in view.runs[name].spec.flavors:
                what = f"does not ask for {grant.flavor}"
            if what is not None:
                return _wrong(f"run {name!r} {what}")
            seen.add(name)
        if grant.partner is not None and not are_a_pair(
            view.runs[grant.run].spec, view.runs[grant.partner].spec
        ):
            return _wrong(f"runs {grant.run!r} and {grant.partner!r} cannot share GPUs")
    here, flavors = view.in_rounds, len(command.flavors)
    for share in command.shares:
        counts = {len(share.shares_ppm), len(share.paired_ppm) or flavors}
        if share.run not in here or counts != {flavors}:
            return _wrong(f"the share of run {share.run!r} belongs to another round")
    return None


def are_a_pair(one: Run, other: Run) -> bool:
    """Return whether two runs may share a lease: same owner, and equal ``pair_terms``."""
    return one.owner == other.owner and pair_terms(one) == pair_terms(other)


def pair_terms(run: Run) -> Hashable:
    """Return the properties that must be equal for two runs that share a lease.

    The properties are size, placement, funding and checkpoint time.
    """
    return (
        run.gpus,
        run.selector,
        run.funding,
        (run.group_gpus, run.cross_group_spread),
        run.checkpoint_ms,
    )


def _wrong(subject: str) -> Refusal:
    return Refusal(
        code=RefusalCode.INVALID,
        subject=subject,
        remedy="use the runs and GPUs of the current round",
    )


def step_counts(
    view: StateView, pool: str, steps: Iterable[tuple[str, int]], now_ms: int
) -> Iterator[StepCount]:
    """Yield the steps that each run has done since its last count, with the flavor and the time.

    A count has no flavor in two cases. If the run had GPUs of several flavors since its last count,
    its steps on each flavor are not known. If the run shared its GPUs, the steps do not show its
    speed without a partner.

    If a run lost steps and repeats them, they are counted only once. If a run did not share its
    GPUs and has no new steps, it gets no count now, and its next count covers this time, too. The
    time of a count is all the time in which the run held GPUs, including its grace.
    """
    sharing, in_rounds = _sharing(view, pool), view.in_rounds
    known_ms = entitlements_ms(view, pool, now_ms) if pool in view.rounds else {}
    for run, reported in steps:
        member = in_rounds.get(run)
        if member is None or member.pool != pool:
            continue
        # A report of more steps than this bound is false, and its rate could not be recorded.
        more = reported - member.steps
        more = 0 if more <= 0 else min(more, STEPS_MAX)
        shares = run in sharing
        if not (more or shares):
            continue
        known = known_ms.get(run)
        had = received_ms(view, run, now_ms) if known is None else known[1]
        counted = member.counted_ms
        ran, ran_on, ran_ms = 0, "", 0
        for flavor, had_ms in had.items():
            ms = had_ms - counted.get(flavor, 0)
            if ms > 0:
                ran, ran_on, ran_ms = ran + 1, flavor, ms
        if shares:
            if more or ran:
                yield StepCount(run, "", more, 0)
        elif ran == 1:
            yield StepCount(run, ran_on, more, ran_ms)
        else:
            yield StepCount(run, "", more, 0)


def _sharing(view: StateView, pool: str) -> set[str]:
    """Return the runs that were granted shared GPUs in the round that is ending."""
    known = view.rounds.get(pool)
    grants = () if known is None else known.shared.grants
    pairs = [(grant.run, grant.partner) for grant in grants if grant.partner is not None]
    return {name for pair in pairs for name in pair}


def _granted(view: StateView, grant: RoundGrant) -> RoundGrant:
    """Return ``grant`` with ``stays`` set, which says whether the run keeps its present GPUs.

    If the grant names nodes, the run moves to these nodes, because another run gets its present
    nodes.
    """
    record, leases = view.runs[grant.run], view.leases
    stays = (
        record.stopping is None
        and not grant.nodes
        and is_sound(view, record, grant.flavor)
        and {leases[name].fact.partner for name in record.leases} == {grant.partner}
    )
    return grant if stays is grant.stays else replace(grant, stays=stays)


def _settle(log: DecisionLog, pool: str, grants: tuple[RoundGrant, ...]) -> None:
    """Stop the runs that lose their GPUs, and then pay for the runs that stay.

    The runs are stopped first, so that the runs that stay can use money that the stopped runs no
    longer need.
    """
    view = log.view
    staying = {grant.run for grant in grants if grant.stays}
    here = [name for name, member in view.in_rounds.items() if member.pool == pool]
    runs = view.runs
    for name in here:
        if name not in staying and (record := runs[name]).leases:
            stop_run(log, record, EndReason.ROUND_END, None)
    until_ms = log.now_ms + view.pools[pool].round_ms
    delaying = set(_delaying(log, [g.run for g in grants if g.stays], until_ms))
    for name in here:
        if name in staying and name not in delaying:
            _stay(log, view.runs[name], until_ms)


def _delaying(log: DecisionLog, staying: Sequence[str], until_ms: int) -> Iterator[str]:
    """Stop and yield runs whose payers have to keep concurrency for firm starts in this round.

    As few runs as necessary are stopped, beginning with the last grant.
    """
    if not log.view.reservations:
        return
    for name in reversed(staying):
        view = log.view
        record = view.runs[name]
        facts = [view.leases[lease] for lease in record.leases]
        profile = firm_profile(view, log.now_ms)
        widths = profile.widths((lease.fact.payer, lease.fact.tier) for lease in facts)
        end_ms = until_ms + facts[0].grace_ms
        if any(width.least(log.now_ms, end_ms) < 0 for width in widths):
            stop_run(log, record, EndReason.ROUND_END, None)
            yield name


def _stay(log: DecisionLog, record: RunRecord, until_ms: int) -> None:
    """Pay for the leases of a run until the end of the round, or stop the run.

    If the run's present payers cannot pay, other payers are tried in cover order.
    """
    if _extend(log, record, until_ms):
        return
    if hand_over(log, record.spec.name, 0, at_ms=log.now_ms):
        return
    stop_run(log, log.view.runs[record.spec.name], EndReason.BUDGET_EXHAUSTED, None)
    unpaid = Refusal(
        code=RefusalCode.INSUFFICIENT_FUNDS,
        subject=record.spec.owner,
        wanted=record.spec.gpus,
        short=record.spec.gpus,
    )
    refuse(log, record, unpaid)


def _extend(log: DecisionLog, record: RunRecord, until_ms: int) -> bool:
    """Extend the holds of all leases of a run; return whether all could be paid for.

    The holds are written one by one, because a payer may pay for several leases: each extended hold
    leaves less money for the next one.
    """
    for name in record.leases:
        view = log.view
        lease = view.leases[name]
        more_ms = extension_to_ms(view, lease, until_ms + ROUND_SLACK_MS + lease.grace_ms)
        if more_ms < 0:
            return False
        if more_ms:
            gpu_ms = more_ms * lease.gpus
            log.write(HoldExtended(at_ms=log.now_ms, actor=log.actor, lease=name, gpu_ms=gpu_ms))
    return True
