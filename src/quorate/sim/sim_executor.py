"""The simulated executor: work takes its real duration, which may differ from what was declared.

Work is counted in GPU-milliseconds, and progresses in proportion to the number of the run's GPUs.
The first bundle of a run has the GPUs that the run needs at least. Work makes no progress while a
part of this bundle is stopping or lost. At a stop, work checkpoints, unless ``saves_at_stop`` is
False. The loss of a node sets work back to its last checkpoint. The executor also checks its
orders: ``wrongs`` names every order that would have put two pieces of work on one slot, started a
lease twice, or freed slots that were still in use.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Final, assert_never

from quorate.model.amounts import MINUTE_MS, PPM
from quorate.model.events import EndReason, LeaseStarted, Role
from quorate.model.specs import Run
from quorate.ports.errors import OldTermError
from quorate.ports.executor_port import (
    EndLease,
    FenceNode,
    LeaseGone,
    Order,
    Report,
    RunExited,
    StartLease,
    StopLease,
    WipeDone,
    WipeNode,
)
from quorate.sim.room_work import (
    HeldLease,
    Truth,
    Work,
    WorkAccount,
    kept_slots,
    runs_of,
    slots_of,
    stands_still,
    width_of,
)
from quorate.sim.saved_room import (
    LeaseStops,
    LossNoticed,
    SavedLease,
    SavedRoom,
    SavedWork,
    Timer,
    WipeEnds,
    WorkEnds,
)
from quorate.sim.simulation import Timeline

CODE_LOST: Final = 137
"""The exit code of a run that failed because a part of its work was lost."""

WIPE_MS: Final = 10 * MINUTE_MS
"""The default time to wipe a node."""

Wipe = Callable[[], tuple[int | None, bool]]
"""Returns how long wiping a node takes (None: for ever), and whether the node is then clean."""

StopDelay = Callable[[int], int | None]
"""Returns how long a stopping lease takes to end, given its remaining grace; None if it never
ends."""


class SimExecutor:
    """Runs simulated work in ``timeline``; ``truth_of`` returns the real behaviour of a run.

    If a run has lost a lease, the executor reports after ``notice_ms`` that the run failed, unless
    the ledger deals with the lease earlier. If ``saves_at_stop`` is False, work checkpoints only
    periodically, and a stop loses the work since the last checkpoint.
    """

    def __init__(  # noqa: PLR0913 - how the work and the machines are
        self,
        timeline: Timeline,
        *,
        truth_of: Callable[[Run], Truth],
        stop_delay: StopDelay,
        notice_ms: int,
        saves_at_stop: bool = True,
        wipe: Wipe = lambda: (WIPE_MS, True),
        flavor_of: Callable[[str], str] = lambda _: "",
    ) -> None:
        self._flavor_of = flavor_of
        self.wrongs: list[str] = []
        self._saves_at_stop = saves_at_stop
        self._timeline = timeline
        self._truth_of = truth_of
        self._stop_delay = stop_delay
        self._notice_ms = notice_ms
        self._held: dict[str, HeldLease] = {}
        self._by_slot: dict[tuple[str, int], str] = {}
        self._on_node: dict[str, dict[str, None]] = {}
        self._ended: set[str] = set()
        self._work: dict[str, Work] = {}
        self._exited: dict[str, None] = {}
        self._gone: dict[str, None] = {}
        self._lost_nodes: set[str] = set()
        self._term = 0
        self._touched: dict[str, None] = {}
        self._wipe_takes = wipe
        # Nodes that have data of a claim, and the results of wiping them.
        self._dirty: dict[str, str] = {}
        self._wiping: dict[str, str] = {}
        self._wiped: dict[str, WipeDone] = {}

    # --- The port ---

    def carry_out(self, orders: Sequence[Order], *, term: int = 0) -> None:
        """Carry out the orders of one commit."""
        self._check_term(term)
        kept = kept_slots(orders)
        for order in orders:
            match order:
                case StartLease():
                    self._start(order)
                case StopLease():
                    self._stop(order)
                case EndLease():
                    self._end(order.lease, order.reason, kept)
                case WipeNode():
                    self._wipe(order)
                case FenceNode():
                    self._lose_leases(order.node)
                case _:
                    assert_never(order)
        touched, self._touched = self._touched, {}
        for run in touched:
            self._reassess(self._work[run])

    def resume(self, orders: Sequence[Order], *, term: int = 0, is_whole: bool = True) -> None:
        """Take over every open lease again; if ``is_whole``, end the work of all other leases."""
        self._check_term(term)
        known = {order.lease.lease for order in orders if isinstance(order, StartLease)}
        for name in [name for name in self._held if is_whole and name not in known]:
            self._end(name, None, set())
        self.carry_out(orders, term=term)

    def _check_term(self, term: int) -> None:
        if term < self._term:
            raise OldTermError(term=term, newest=self._term)
        self._term = term

    def reports(self) -> Sequence[Report]:
        """Return the reports of exits, then of ended leases and wipes."""
        found: list[Report] = []
        for run in self._exited:
            lease = self._working_lease(run)
            if lease is not None:
                found.append(RunExited(run, lease, self._work[run].code, "exited"))
        found += [LeaseGone(lease) for lease in self._gone]
        found += self._wiped.values()
        return found

    def _working_lease(self, run: str) -> str | None:
        """Return a lease under which ``run`` works; None if it has only spares."""
        names = self._work[run].leases
        return next((n for n in names if self._held[n].fact.role is not Role.SPARE), None)

    def steps(self, runs: Collection[str]) -> Mapping[str, int]:
        """Return the steps that each of ``runs`` has reported; leave out runs without reports."""
        found: dict[str, int] = {}
        for name in runs:
            work = self._work.get(name)
            total = None if work is None or work.run.rounds is None else work.run.rounds.total_steps
            if work is None or total is None:
                continue
            work.accrue(self._timeline.now_ms)
            done, each = work.done_gpu_ms, work.truth.tells_every_ms * work.run.gpus
            told = done // each * each if each else done
            found[name] = total * told // max(1, work.truth.work_ms * work.run.gpus)
        return found

    # --- The machine room ---

    def lose_node(self, node: str) -> None:
        """Cut the power of ``node``: no work runs on it any more."""
        self._lost_nodes.add(node)
        self._lose_leases(node)

    def _lose_leases(self, node: str) -> None:
        """End the work on ``node``, and set back the runs that lost a part of their work."""
        for name in tuple(self._on_node.get(node, ())):
            held = self._held[name]
            if node in held.lost:
                continue
            held.lost.add(node)
            if held.is_lost:
                self._let_go(name)
            if held.fact.role is not Role.SPARE:
                self._break(held)

    def restore_node(self, node: str) -> None:
        """Restore the power of ``node``; the work that was on it stays lost."""
        self._lost_nodes.discard(node)

    def clean_by_hand(self, node: str, claim: str) -> None:
        """Wipe ``node`` by hand, if it has data of ``claim`` and no leases."""
        if self._dirty.get(node) != claim or self._on_node.get(node):
            return
        del self._dirty[node]
        self._wiping.pop(node, None)
        self._wiped.pop(node, None)

    def forget_stops(self) -> None:
        """Forget the stops of leases that have not ended, as if the executor had been restarted."""
        for held in self._held.values():
            if not held.is_gone:
                held.stopping_since_ms = held.stop_by_ms = None
                held.stops += 1
                self._touched.update(dict.fromkeys(runs_of(held.fact)))

    def known(self) -> dict[str, bool]:
        """Return the leases that the executor has, and whether each is stopping."""
        return {name: held.stopping_since_ms is not None for name, held in self._held.items()}

    def done_gpu_ms(self, runs: Collection[str] | None = None) -> int:
        """Return the work that was done and not lost, by all runs or by ``runs``."""
        found = 0
        for name, work in self._work.items():
            if runs is None or name in runs:
                work.accrue(self._timeline.now_ms)
                found += work.done_gpu_ms
        return found

    @property
    def lost_gpu_ms(self) -> int:
        """All the work that was lost, and so has to be done again."""
        return sum(work.lost_gpu_ms for work in self._work.values())

    def progressed_ms(self) -> int:
        """Return when a run last had more checkpointed work than ever before; 0 if no run had."""
        now_ms = self._timeline.now_ms
        return max((work.progressed_ms(now_ms) for work in self._work.values()), default=0)

    def accounts(self) -> dict[str, WorkAccount]:
        """Return the work that each started run has done and lost up to now."""
        now_ms = self._timeline.now_ms
        return {
            name: WorkAccount(done_gpu_ms=work.done_by(now_ms), lost_gpu_ms=work.lost_gpu_ms)
            for name, work in self._work.items()
        }

    def saved(self) -> SavedRoom:
        """Return the state to save between two steps.

        The timers are not included: the timeline has them.
        """
        assert not self._touched, "no step may be under way between two steps"
        return SavedRoom(
            leases=tuple(
                SavedLease(
                    name,
                    tuple(sorted(held.lost)),
                    held.is_broken,
                    held.stopping_since_ms,
                    held.stop_by_ms,
                    held.stops,
                    held.is_gone,
                )
                for name, held in self._held.items()
            ),
            works=tuple(
                SavedWork(
                    name,
                    tuple(work.leases),
                    work.done_gpu_ms,
                    work.saved_gpu_ms,
                    work.width,
                    work.since_ms,
                    work.plan,
                    work.has_exited,
                    work.code,
                    work.speed_ppm,
                    work.lost_gpu_ms,
                    work.best_gpu_ms,
                    work.better_ms,
                )
                for name, work in self._work.items()
            ),
            ended=tuple(sorted(self._ended)),
            exited=tuple(self._exited),
            gone=tuple(self._gone),
            lost_nodes=tuple(sorted(self._lost_nodes)),
            term=self._term,
            wrongs=tuple(self.wrongs),
            dirty=dict(self._dirty),
            wiping=dict(self._wiping),
            wiped=tuple(self._wiped.values()),
        )

    def restore(
        self,
        saved: SavedRoom,
        fact_of: Callable[[str], LeaseStarted],
        run_of: Callable[[str], Run],
    ) -> None:
        """Restore ``saved``.

        ``fact_of`` returns the event of an open lease, and ``run_of`` the spec of a run: both are
        in the ledger.
        """
        assert not self._held, "it is new"
        assert not self._work, "it is new"
        for lease in saved.leases:
            fact = fact_of(lease.lease)
            self._held[lease.lease] = HeldLease(
                fact,
                sum(mask.bit_count() for _, mask in fact.slots),
                set(lease.lost),
                lease.is_broken,
                lease.stopping_since_ms,
                lease.stop_by_ms,
                lease.stops,
                lease.is_gone,
            )
            self._by_slot.update(dict.fromkeys(slots_of(fact), lease.lease))
            for node, _ in fact.slots:
                self._on_node.setdefault(node, {})[lease.lease] = None
        for work in saved.works:
            run = run_of(work.run)
            self._work[work.run] = Work(
                run,
                self._truth_of(run),
                dict.fromkeys(work.leases),
                work.done_gpu_ms,
                work.saved_gpu_ms,
                work.width,
                work.since_ms,
                work.plan,
                work.has_exited,
                work.code,
                work.speed_ppm,
                work.lost_gpu_ms,
                work.best_gpu_ms,
                work.better_ms,
            )
        self._ended = set(saved.ended)
        self._exited, self._gone = dict.fromkeys(saved.exited), dict.fromkeys(saved.gone)
        self._lost_nodes = set(saved.lost_nodes)
        self._term, self.wrongs = saved.term, [*saved.wrongs]
        self._dirty, self._wiping = dict(saved.dirty), dict(saved.wiping)
        self._wiped = {each.node: each for each in saved.wiped}

    def stuck_nodes(self, *, since_ms: int) -> list[str]:
        """Return the nodes with leases that have been stopping since before ``since_ms``."""
        found: dict[str, None] = {}
        for held in self._held.values():
            told_ms = held.stopping_since_ms
            if told_ms is not None and told_ms < since_ms and not held.is_gone:
                found.update((node, None) for node, _ in held.fact.slots)
        return list(found)

    # --- Orders ---

    def _start(self, order: StartLease) -> None:
        fact = order.lease
        if fact.lease in self._held:
            return  # A repeated order.
        if fact.lease in self._ended:
            self.wrongs.append(f"{fact.lease} is started a second time")
            return
        for slot in slots_of(fact):
            other = self._by_slot.get(slot)
            if other is not None:
                self.wrongs.append(f"{fact.lease} is started on {slot}, which {other} still uses")
            self._by_slot[slot] = fact.lease
        self._use(fact)
        gpus = sum(mask.bit_count() for _, mask in fact.slots)
        lost = {node for node, _ in fact.slots if node in self._lost_nodes}
        held = self._held[fact.lease] = HeldLease(fact, gpus, lost)
        for node, _ in fact.slots:
            self._on_node.setdefault(node, {})[fact.lease] = None
        for run in order.runs:
            self._take_up(run, fact, [other for other in order.runs if other.name != run.name])
        if fact.role is not Role.SPARE and lost:
            self._break(held)

    def _take_up(self, run: Run, fact: LeaseStarted, others: Sequence[Run]) -> None:
        """Continue the work of ``run`` under a lease, on GPUs that it shares with ``others``."""
        work = self._work_of(run)
        work.accrue(self._timeline.now_ms)
        work.leases[fact.lease] = None
        work.speed_ppm = work.truth.speed_ppm(
            self._flavor_of(fact.slots[0][0]),
            is_spread=self._is_spread(work),
            beside=self._work_of(others[0]).truth if others else None,
        )
        self._touched[run.name] = None

    def _work_of(self, run: Run) -> Work:
        if run.name not in self._work:
            self._work[run.name] = Work(run, self._truth_of(run), since_ms=self._timeline.now_ms)
        return self._work[run.name]

    def _is_spread(self, work: Work) -> bool:
        """Return whether the run works on several nodes."""
        facts = [self._held[name].fact for name in work.leases]
        nodes = {node for fact in facts if fact.role is not Role.SPARE for node, _ in fact.slots}
        return len(nodes) > 1

    def _use(self, fact: LeaseStarted) -> None:
        """Note a wrong order if a node was not wiped; mark the nodes of a claim as not clean."""
        for node, _ in fact.slots:
            if self._dirty.get(node, fact.run) != fact.run:
                self.wrongs.append(f"{fact.lease} is started on {node}, which was not wiped")
            self._wiped.pop(node, None)
            if fact.role is Role.CLAIM:
                self._dirty[node] = fact.run

    def _stop(self, order: StopLease) -> None:
        held = self._held.get(order.lease)
        if held is None:
            return
        if held.stopping_since_ms is not None:
            if held.stop_by_ms is not None and order.deadline_ms < held.stop_by_ms:
                self._hasten(order, held)
            return
        now_ms = self._timeline.now_ms
        held.stopping_since_ms, held.stop_by_ms = now_ms, order.deadline_ms
        held.stops += 1
        for run in runs_of(held.fact):
            work = self._work[run]
            work.accrue(now_ms)
            self._touched[run] = None
            if not self._saves_at_stop:
                work.lose_since_checkpoint(held, now_ms)
            elif held.fact.bundle == 0 and not held.is_broken:
                work.saved_gpu_ms = work.done_gpu_ms
        if held.is_lost:
            self._let_go(order.lease)
            return
        self._let_go_in(order, held)

    def _let_go_in(self, order: StopLease, held: HeldLease) -> None:
        """Plan the end of a stopping lease for the time at which its work has stopped."""
        left_ms = max(0, order.deadline_ms - self._timeline.clock.now_ms())
        delay_ms, stops = self._stop_delay(left_ms), held.stops
        if delay_ms is not None:
            self._plan(delay_ms, LeaseStops(order.lease, stops))

    def _hasten(self, order: StopLease, held: HeldLease) -> None:
        """Bring forward the deadline of a stop; the work ends by then, or earlier if planned."""
        held.stop_by_ms = order.deadline_ms
        self._let_go_in(order, held)

    def _end(self, name: str, reason: EndReason | None, kept: set[tuple[str, str, int]]) -> None:
        held = self._held.pop(name, None)
        self._ended.add(name)
        if held is None:
            return
        fact = held.fact
        for run in runs_of(fact):
            self._work[run].accrue(self._timeline.now_ms)
            self._touched[run] = None
        if reason is not None and not self._may_end(held, reason, kept):
            self.wrongs.append(f"{name} ended by {reason} before it had stopped")
        if reason is EndReason.FAIL:
            self._work[fact.run].throw_back()
        for slot in slots_of(fact):
            self._by_slot.pop(slot, None)
        for node, _ in fact.slots:
            self._on_node[node].pop(name, None)
        self._gone.pop(name, None)
        for run in runs_of(fact):
            work = self._work[run]
            del work.leases[name]
            if not work.leases and work.has_exited:
                self._exited.pop(run, None)
                work.has_exited = False

    def _may_end(self, held: HeldLease, reason: EndReason, kept: set[tuple[str, str, int]]) -> bool:
        """Return whether the lease has no work left, or its work continues under another lease."""
        if held.is_gone or held.fact.role is Role.SPARE:
            return True
        if reason is EndReason.END and held.fact.partner is None:
            return True
        if all(self._work[run].has_exited for run in runs_of(held.fact)):
            return True
        # If a run waits for a spare, its lease on a lost node is stopped only after the node was
        # restored. The restored node is empty.
        return all(
            node in held.lost or (held.fact.run, node, ordinal) in kept
            for node, ordinal in slots_of(held.fact)
        )

    def _wipe(self, order: WipeNode) -> None:
        node, claim = order.node, order.claim
        if self._wiping.get(node) == claim or node in self._wiped:
            return  # A repeated order.
        if self._on_node.get(node):
            self.wrongs.append(f"{node} is to be wiped after {claim} while it is in use")
        self._wiping[node] = claim
        takes_ms, is_clean = self._wipe_takes()
        if takes_ms is not None:
            self._plan(takes_ms, WipeEnds(node, claim, is_clean))

    def _wipe_ends(self, node: str, claim: str, *, is_clean: bool) -> None:
        if self._wiping.get(node) == claim:
            del self._wiping[node]
            if is_clean:
                self._dirty.pop(node, None)
            self._wiped[node] = WipeDone(node, claim, is_clean, "" if is_clean else "I/O error")

    # --- Time ---

    def _plan(self, in_ms: int, timer: Timer) -> None:
        self._timeline.after(in_ms, partial(self.fire, timer))

    def fire(self, timer: Timer) -> None:
        """Carry out the action of ``timer``, which is due."""
        match timer:
            case LeaseStops():
                self._let_go(timer.lease, timer.stops)
            case WorkEnds():
                self._finish(self._work[timer.run], timer.plan)
            case LossNoticed():
                self._notice(timer.lease)
            case WipeEnds():
                self._wipe_ends(timer.node, timer.claim, is_clean=timer.is_clean)
            case _:
                assert_never(timer)

    # --- Work ---

    def _let_go(self, name: str, stops: int | None = None) -> None:
        """Record that a stopping lease has ended.

        If ``stops`` is given, and the lease was stopped more than ``stops`` times, do nothing.
        """
        held = self._held.get(name)
        if held is None or stops not in (None, held.stops):
            return
        if held.stopping_since_ms is not None and not held.is_gone:
            held.is_gone = True
            self._gone[name] = None

    def _notice(self, name: str) -> None:
        """Fail a run with a lost lease, unless the ledger has dealt with the lease."""
        held = self._held.get(name)
        if held is not None and held.stopping_since_ms is None:
            for run in runs_of(held.fact):
                self._exit(self._work[run], code=CODE_LOST)

    def _exit(self, work: Work, *, code: int) -> None:
        if not work.has_exited:
            work.has_exited, work.code, work.width = True, code, 0
            self._exited[work.run.name] = None

    def _break(self, held: HeldLease) -> None:
        """Record that a part of a run is lost, and set the run back to its last checkpoint."""
        held.is_broken = True
        for run in runs_of(held.fact):
            work = self._work[run]
            work.accrue(self._timeline.now_ms)
            work.throw_back()
            self._reassess(work)
        self._plan(self._notice_ms, LossNoticed(held.fact.lease))

    def _reassess(self, work: Work) -> None:
        """Compute the number of GPUs on which a run works now, and plan its exit."""
        now_ms = self._timeline.now_ms
        work.accrue(now_ms)
        held = [self._held[name] for name in work.leases]
        width = 0 if work.has_exited or stands_still(held) else width_of(held)
        if width == work.width:
            return
        work.width = width
        work.plan += 1
        if width:
            left = max(0, work.truth.work_ms * work.run.gpus - work.done_gpu_ms)
            left_ms = -(-left * PPM // (width * work.speed_ppm))
            self._plan(left_ms, WorkEnds(work.run.name, work.plan))

    def _finish(self, work: Work, plan: int) -> None:
        if work.plan == plan and work.leases and not work.has_exited:
            work.accrue(self._timeline.now_ms)
            self._exit(work, code=work.truth.code)
