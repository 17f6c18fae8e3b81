"""After every command, starts the waiting runs that can start, and plans the others.

The steps, in this order:

1. Stop overstaying bundles, and loans whose recall is due.
2. Start and plan runs (the queue walk).
3. Call due conflicts.
4. Let running malleable runs grow into the room that is left.
5. Place the grants of rounds.

If the decision has moved a firm start needlessly, the decision is made again, with the knowledge
from the first try (``hindsight``).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from msgspec.structs import replace

from quorate.core.admission.admit import admit
from quorate.core.admission.hard_quota import HARD, refuses_ever_so, waiting
from quorate.core.admission.layout import pack_request
from quorate.core.admission.quota_holders import family_of
from quorate.core.admission.spread import items_of
from quorate.core.decision_log import DecisionLog
from quorate.core.lifecycle.elastic import grow_running
from quorate.core.lifecycle.failure import settle_spares
from quorate.core.lifecycle.held_back import release_due_ms
from quorate.core.lifecycle.settle import settle_holds
from quorate.core.planning.conflict_starts import look_ms
from quorate.core.planning.hindsight import Hindsight
from quorate.core.planning.overstay import stop_bundles, stop_instants_ms, stop_overstayed
from quorate.core.planning.queue_walk import Walk
from quorate.core.planning.recall import recall_instants_ms, stop_recalled
from quorate.core.preemption.disruption_account import deferrals_due_ms
from quorate.core.profile.firm_places import is_outlasted, replan_due_ms
from quorate.core.profile.plan_entry import Entry
from quorate.core.rounds.round_placement import place_granted
from quorate.core.tenancy.owner_scores import Scores
from quorate.core.tenancy.queue_order import ranked_lines
from quorate.model.events import (
    Event,
    HoldExtended,
    LeaseStarted,
    RecallWithdrawn,
    ReservationMade,
    ReservationMoved,
    StepsCounted,
    TokenIssued,
    TokenRevoked,
)
from quorate.model.refusal import Refusal
from quorate.model.specs import OnQuota, Run
from quorate.model.state.state_view import StateView
from quorate.model.state.waiting_index import line_of

PASSES_MAX: Final = 4
"""The most times that one decision runs a step if the step's events may change its result."""
WALKS_MAX: Final = 16
"""The most walks of the queue in one decision. ``_walked`` says when the queue is walked again."""
_STARTS_NOTHING: Final = (HoldExtended, TokenIssued, TokenRevoked, StepsCounted)
"""Events that never let a waiting run start."""


def give_out(log: DecisionLog) -> None:
    """Start waiting runs, plan those that still wait, and grow running runs."""
    if not stirs(log) and not _is_due(log):
        return
    mark, known = log.mark(), Hindsight()
    _give_out(log, known)
    for _ in range(PASSES_MAX):
        learned = known.with_more(mark.view, log.events[mark.written :], log.now_ms)
        if learned == known:
            return
        known, before = learned, log.rewind(mark)
        _give_out(log, known)
        after = log.events[mark.written :]
        if not known.is_better(mark.view, before, after, log.now_ms):
            log.rewind(mark)
            for event in before:
                log.write(event)
            return


def _give_out(log: DecisionLog, known: Hindsight) -> None:
    """Start and plan runs, and repeat this while the new events may change the result.

    ``known`` has the findings of earlier trials of this decision. The bundles in ``known.stops``
    are stopped in the first pass only. A bundle that starts in that pass may have the same run and
    number, and must not be stopped in a later pass.
    """
    for _ in range(PASSES_MAX):
        written = len(log.events)
        _give_out_once(log, known)
        if not _may_go_on(log, log.events[written:]):
            return
        known = replace(known, stops=())


def _may_go_on(log: DecisionLog, events: Sequence[Event]) -> bool:
    """Return whether another pass is needed after ``events``, the events of the last pass.

    Another pass is needed in two cases. In the first case, overstaying bundles have to stop now
    for a firm start, because the start is new and near, or because a recalled bundle keeps GPUs
    that the start needs: this function stops the overstaying bundles. In the second
    case, a hard quota limits the nodes of owners whose runs share nodes. Then the plan depends on
    the nodes that the started runs use.
    """
    if log.view.holdings.has_bounds and _may_change_node_quotas(log.view, events):
        return True
    # If a recalled bundle got other payers, it keeps its GPUs, which a firm start may then lack.
    changes = ReservationMade | ReservationMoved | RecallWithdrawn
    has_changed = any(isinstance(each, changes) for each in events)
    if has_changed and stop_overstayed(log):
        settle_spares(log)
        return True
    return False


def _may_change_node_quotas(view: StateView, events: Sequence[Event]) -> bool:
    """Return whether ``events`` may change plans because of a hard quota of nodes.

    If runs share nodes, a plan under such a quota depends on how all work is spread over the nodes.
    A quota whose owners have neither leases nor waiting runs changes no plan.
    """
    names = {event.run for event in events if isinstance(event, LeaseStarted)}
    for event in events:
        if isinstance(event, ReservationMade | ReservationMoved):
            record = view.reservations.get(event.reservation)
            names |= set() if record is None else {record.made.run}
    if all(view.pools[view.runs[name].spec.pool].whole_nodes for name in names):
        return False
    waiting = {owner for _, owner, _ in view.waiting.lines}
    return any(
        member in waiting or view.owner_leases.get(member)
        for name, owner in view.owners.items()
        if owner.quota.nodes_max is not None
        for member in family_of(view, name)
    )


def _give_out_once(log: DecisionLog, known: Hindsight) -> None:
    if known.stops:
        stop_bundles(log, known.stops)
        settle_spares(log)
    walk = _walked(log, known.stuck) if log.any_run_waits else _standing(log, known.stuck)
    if log.any_run_waits:
        # If the notice of a recall is as short as the grace, the bundle is stopped at once.
        stop_recalled(log, _firm_places_stand)
        # Each pass moves one start whose conflict cannot be called.
        for _ in range(PASSES_MAX + len(log.view.reservations)):
            if not walk.firm.call_due_conflicts():
                break
            walk = _walked(log, known.stuck)
            stop_recalled(log, _firm_places_stand)
        # A moved firm start may hold fewer GPU-hours than before. Leases that stop slowly may use
        # the GPU-hours that were released.
        settle_holds(log)
    grow_running(log, walk.plan.profile, backfill=walk.plan.is_out_of_order)
    place_granted(log)


def turned_away(log: DecisionLog, run: Run) -> Refusal | None:
    """Return the refusal that ``run`` would get if it were submitted now; None if a walk is needed.

    A walk plans only as many runs of a pool as the pool's depth says. For a run beyond this depth,
    no walk is needed if the run would now exceed a hard quota, or would lack room even without
    planned starts. Such a run changes nothing for other runs. The next walk plans the run, at most
    a quarter of the pool's ``firmHorizon`` later. But if a lease has outlasted its expected end, a
    walk is always needed, because firm starts may have to move.
    """
    view = log.view
    if run.follow is not None or view.spares or _is_due(log):
        return None
    if view.holdings.bounds_of(run.owner):
        if run.on_quota is OnQuota.REFUSE or refuses_ever_so(view, run) is None:
            return None
    elif _may_fit(view, run):
        return None
    if not _is_beyond(log, run) or is_outlasted(view, log.began_ms, log.now_ms):
        return None
    answer = admit(view, run, log.now_ms, has_executor=log.has_executor)
    if not isinstance(answer, Refusal):
        return None
    return waiting(view, run, answer) if answer.code in HARD else answer


def _is_beyond(log: DecisionLog, run: Run) -> bool:
    """Return whether ``run`` would be beyond the depth of its pool.

    A *line* is the waiting runs of one owner in one pool with the same flavors. Add the number of
    waiting runs in the run's own line to the number of lines of its pool that come before this
    line. If the sum reaches the depth, the run is beyond the depth.
    """
    view, line = log.view, line_of(run)
    depth = view.pools[run.pool].reservation_depth
    known = view.waiting.lines.get(line)
    ahead = 0 if known is None else len(known.places)
    if ahead >= depth or len(view.waiting.lines) <= depth - ahead:
        return ahead >= depth
    rank = Scores(view, log.now_ms).rank(line[1:])
    first = (log.now_ms, view.seq + 1, run.name) if known is None else known.places[0]
    mine = (rank, first, line)
    if view.line_ranks.surely_before(mine, log.now_ms, depth - ahead) >= depth - ahead:
        return True
    for other in ranked_lines(view, log.now_ms):
        if other >= mine:
            break
        ahead += other[2][0] == run.pool
        if ahead >= depth:
            return True
    return False


def _may_fit(view: StateView, run: Run) -> bool:
    """Return whether ``run`` may have room now if no start were planned."""
    pool, least = view.pools[run.pool], run.widths()[-1]
    for flavor in run.flavors:
        request = pack_request(run, pool, flavor, least)
        items = items_of(request)
        spares = request.spares_per_group
        part = max(1 if item.divisible else item.gpus for item in items) + spares
        if request.one_domain:
            part = sum((item.gpus + spares) * item.count for item in items)
        index = view.domains(run.pool, flavor)
        if index.gpus_free >= least and index.levels.bit_length() - 1 >= part:
            return True
    return False


def _walked(log: DecisionLog, stuck: Collection[str]) -> Walk:
    """Return a walk that has started and planned the waiting runs.

    The queue is walked again in these cases:

    - A run starts at another time or on other GPUs than its firm start says, and runs that come
      earlier in the queue could gain by this.
    - A firm start moves.
    - A run starts on spares.
    - A run with spares starts, and runs that come earlier in the queue may fill these spares.
    - A start changes the order of the queue.

    Each new walk plans the runs from the head of the queue again.
    """
    walk, left = _standing(log, stuck), WALKS_MAX - 1
    while True:
        left = walk.run(starts_anew=left)
        if not walk.leaves_more or not left:
            break
        walk, left = _standing(log, stuck), left - 1
    walk.keep()
    return walk


def _standing(log: DecisionLog, stuck: Collection[str]) -> Walk:
    """Stop overstaying bundles, and return a walk with all firm starts in its profile.

    A firm start may move when it is put into the profile. A moved start may need other bundles to
    stop. So both steps are repeated while starts move, at most ``PASSES_MAX`` times.
    """
    known, written = dict[str, Entry](), 0
    for left in reversed(range(PASSES_MAX)):
        has_stopped = stop_overstayed(log)
        if stop_recalled(log, _firm_places_stand) or has_stopped:
            settle_spares(log)
        if len(log.events) != written:
            known, written = {}, len(log.events)
        walk = Walk(log)
        walk.firm.put_pins(known, stuck)
        if len(log.events) == written or not left:
            return walk
        is_plain = walk.firm.are_apart and not walk.plan.view.holdings.has_bounds
        known, written = walk.firm.stood if is_plain else {}, len(log.events)
    raise AssertionError(PASSES_MAX)


def _firm_places_stand(log: DecisionLog) -> bool:
    """Return whether all firm starts can stay as they are in the view of the trial ``log``."""
    written = len(log.events)
    Walk(log).firm.put_pins()
    return len(log.events) == written


def stirs(log: DecisionLog) -> bool:
    """Return whether an event of ``log``, or the time that has passed, may let a run start."""
    if any(not isinstance(event, _STARTS_NOTHING) for event in log.events):
        return True
    view = log.view
    let_go_ms = release_due_ms(view, log.began_ms)
    let_go = let_go_ms is not None and let_go_ms <= log.now_ms
    is_covered = any(e <= log.now_ms for e in deferrals_due_ms(view, log.began_ms))
    return let_go or is_covered or view.window_opened(log.began_ms, log.now_ms)


def _is_due(log: DecisionLog) -> bool:
    """Return whether a firm start or a stop is due, or firm starts may have to move."""
    view, now_ms, has_executor = log.view, log.now_ms, log.has_executor
    if any(at_ms <= now_ms for at_ms in recall_instants_ms(view, has_executor=has_executor)):
        return True
    if not view.reservations:
        return _was_passed(log)
    if log.events:
        return True  # A lease whose hold was extended has overrun, perhaps into a firm start.
    if is_outlasted(view, log.began_ms, now_ms):
        return True  # A lease has outlasted its expected end, perhaps into a firm start.
    for record in view.reservations.values():
        at_ms = look_ms(view, record, has_executor=has_executor)
        if at_ms is not None and at_ms <= now_ms:
            return True
    stops = stop_instants_ms(view, has_executor=has_executor)
    return any(log.began_ms < at_ms <= now_ms for at_ms in stops) or _was_passed(log)


def _was_passed(log: DecisionLog) -> bool:
    """Return whether the queue has to be planned again because of the time since the last event."""
    at_ms = replan_due_ms(log.view, log.began_ms)
    return at_ms is not None and at_ms <= log.now_ms
