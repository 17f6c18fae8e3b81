"""Start the grants of a round as soon as there is room for them.

A run that loses its GPUs at the end of a round takes time to checkpoint. So a new grant may have to
wait after its round has begun. While any lease of the pool is stopping, no grant is refused. When
no lease is stopping any more, a grant that cannot be placed or paid for is refused for this round,
and the refusal is recorded.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from quorate.core.admission.admit import Admitted, admit_round
from quorate.core.admission.bind import bind
from quorate.core.admission.hard_quota import HARD, too_many_runs, waiting
from quorate.core.decision_log import DecisionLog
from quorate.core.lifecycle.starts import write_leases
from quorate.core.profile.reserved_refusal import reserved_by_firm
from quorate.core.profile.room_left import room_left
from quorate.core.rounds.round_payment import MoneyInTurn
from quorate.model.events import RoundGrant, RunRefused, StartReason
from quorate.model.refusal import Refusal
from quorate.model.specs import Run
from quorate.model.state.records import RunRecord
from quorate.model.state.state_view import StateView


def place_granted(log: DecisionLog) -> None:
    """Start every grant for which there is room and money now, pool by pool."""
    if not log.shares_in_rounds:
        return
    for pool in sorted(log.view.rounds):
        if log.view.rounds[pool].waiting:
            _place_in(log, pool)


def _place_in(log: DecisionLog, pool: str) -> None:
    """Start the waiting grants of a pool that can start.

    If no lease of the pool is stopping, refuse the other grants.
    """
    record = log.view.rounds[pool]
    if record.leaving:
        written = -1
        while len(log.events) != written:
            # A grant may have waited so that an earlier grant finds money. Once the earlier grant
            # has started, enough money may be left for the later one.
            written = len(log.events)
            waiting = log.view.rounds[pool].waiting
            if not _tried_in_turn(log, pool, waiting.values()):
                return
        return
    refused = _tried(log, pool, record.waiting.values(), None)
    # The nodes that a grant names may have failed, or the run's payers may not pay there. So such a
    # grant is tried again on any nodes of the pool.
    elsewhere = [replace(grant, nodes=()) for grant, _ in refused if grant.nodes]
    refused = [(grant, why) for grant, why in refused if not grant.nodes]
    if elsewhere:
        refused += _tried(log, pool, elsewhere, None)
    for grant, refusal in refused:
        refuse(log, log.view.runs[grant.run], refusal)


def _tried_in_turn(log: DecisionLog, pool: str, grants: Iterable[RoundGrant]) -> bool:
    """Start grants while leases of the pool are stopping.

    Return whether a grant waits only so that an earlier grant finds enough money.
    """
    money = MoneyInTurn(tuple(grants), log.now_ms)
    _tried(log, pool, grants, money)
    return money.has_held_back


def _tried(
    log: DecisionLog, pool: str, grants: Iterable[RoundGrant], money: MoneyInTurn | None
) -> list[tuple[RoundGrant, Refusal]]:
    """Start those of ``grants`` that can start, the widest first.

    Return the refused grants with their refusals. After a refusal, grants with the same needs are
    refused without a try. ``money`` is given only while leases of the pool are stopping. In this
    case a grant waits until there is room, until the nodes that it names are free, and while an
    earlier grant waits for the same money.
    """
    free: dict[str, int] = {}
    runs = log.view.runs
    # Wide runs are placed first, and narrow runs then fit into the remaining GPUs. So fewer runs
    # are divided among several nodes.
    grants = sorted(grants, key=lambda grant: -runs[grant.run].spec.gpus)
    hopeless: dict[tuple[str, str, int, object], Refusal] = {}
    refused: list[tuple[RoundGrant, Refusal]] = []
    for waiting_grant in grants:
        view = log.view
        grant = _startable(view, waiting_grant)
        flavor, record = grant.flavor, view.runs[grant.run]
        run = record.spec
        if flavor not in free:
            free[flavor] = free_gpus(view, pool, flavor)
        if not _are_ready(view, grant) or (
            money is not None
            and (
                free[flavor] < run.gpus
                or not _have_come_free(view, grant.nodes)
                or not money.may_start(view, run, flavor)
            )
        ):
            if money is not None:
                money.waits(run, flavor)
            continue
        takes = (
            run.funding,
            run.selector,
            run.group_gpus,
            run.checkpoint_ms,
            grant.partner is None,
            run.cross_group_spread,
            grant.nodes,
        )
        alike = (run.owner, flavor, run.gpus, (*takes, record.leases_ever > 0))
        if alike in hopeless:
            refused.append((grant, hopeless[alike]))
            continue
        answer = _admitted(log, record, grant)
        if isinstance(answer, Admitted):
            _write(log, run, answer, grant, record.leases_ever)
            free[flavor] -= run.gpus
        else:
            hopeless[alike] = answer
            refused.append((grant, answer))
            if money is not None:
                money.waits(run, flavor)
    return refused


def _startable(view: StateView, grant: RoundGrant) -> RoundGrant:
    """Return ``grant``, but without its partner if the partner is over or would exceed a quota."""
    if grant.partner is None:
        return grant
    if grant.partner in view.in_rounds:
        begins = _begins(view, grant)
        if not begins or too_many_runs(view, view.runs[grant.run].spec.owner, begins) is None:
            return grant
    return replace(grant, partner=None)


def _begins(view: StateView, grant: RoundGrant) -> int:
    """Return how many runs begin to run for the first time if ``grant`` starts."""
    return sum(view.runs[name].started_ms is None for name in _runs_of(grant))


def _are_ready(view: StateView, grant: RoundGrant) -> bool:
    """Return whether the runs of a grant have no leases and are not stopping."""
    for name in _runs_of(grant):
        record = view.runs[name]
        if record.leases or view.in_rounds[name].lease or record.stopping is not None:
            return False
    return True


def _have_come_free(view: StateView, nodes: Iterable[tuple[str, int]]) -> bool:
    """Return whether each of ``nodes`` has the given number of free GPUs now."""
    for name, gpus in nodes:
        record = view.nodes.get(name)
        if record is None or view.island(record.island).free[record.position].bit_count() < gpus:
            return False
    return True


def _runs_of(grant: RoundGrant) -> tuple[str, ...]:
    return (grant.run,) if grant.partner is None else (grant.run, grant.partner)


def _admitted(log: DecisionLog, record: RunRecord, grant: RoundGrant) -> Admitted | Refusal:
    """Return how a grant can start without delaying a firm start, or the refusal of the grant."""
    view, run = log.view, record.spec
    nodes = view.in_rounds[run.name].nodes
    prefer = frozenset(view.nodes[n].spec.domain_key for n in nodes if n in view.nodes)
    begins = _begins(view, grant)

    def tried(room: StateView) -> Admitted | Refusal:
        return admit_round(
            room,
            run,
            grant.flavor,
            log.now_ms,
            begins=begins,
            has_executor=log.has_executor,
            prefer=prefer,
            within=grant.nodes,
        )

    answer = tried(view)
    if isinstance(answer, Refusal) or not view.reservations:
        return answer
    # Firm starts in other pools may need the same money.
    room = room_left(view, run, log.now_ms)
    beside = answer if room is view else tried(room)
    if isinstance(beside, Admitted) or beside.code in HARD:
        return beside
    return reserved_by_firm(view, run, beside, log.now_ms)


def refuse(log: DecisionLog, record: RunRecord, refusal: Refusal) -> None:
    """Write why a run does not get the GPUs that were granted to it in this round."""
    if refusal.code in HARD:
        refusal = waiting(log.view, record.spec, refusal)
    log.write(RunRefused(at_ms=log.now_ms, actor=log.actor, run=record.spec.name, refusal=refusal))


def _write(
    log: DecisionLog, run: Run, admitted: Admitted, grant: RoundGrant, leases_ever: int
) -> None:
    """Write the leases of a grant. Two runs that share GPUs share the leases, too."""
    now_ms = log.now_ms
    drafts = bind(admitted.plan, admitted.demands, admitted.legs)
    started, partner = StartReason.START, grant.partner
    write_leases(log, run.name, drafts, leases_ever, started, start_ms=now_ms, partner=partner)


def free_gpus(view: StateView, pool: str, flavor: str) -> int:
    """Return how many GPUs of ``flavor`` in ``pool`` are free now."""
    return view.domains(pool, flavor).gpus_free


def is_sound(view: StateView, record: RunRecord, flavor: str) -> bool:
    """Return whether a run has leases, all of ``flavor``, on ready nodes and not stopping."""
    leases, envelopes, status = view.leases, view.envelopes, view.node_status
    for name in record.leases:
        lease = leases[name]
        fact = lease.fact
        if lease.ending is not None or envelopes[fact.payer].spec.flavor != flavor:
            return False
        if status and any(node in status for node, _ in fact.slots):
            return False
    return bool(record.leases)
