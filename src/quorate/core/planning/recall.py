"""Recalls loans when a run of the lender waits only for what the lender's envelope has lent.

Only loans of envelopes that state ``lending.recall.notice`` are recalled, the newest first. If the
run can start at once when other payers take over loans, the loans are handed over and none is
recalled. If hand-overs are not enough, only as many bundles are recalled as the run needs. Each
recalled bundle continues until its notice is over, and the run gets a firm start at that instant.
If other payers can take over one of these bundles without delaying the run, the bundle is handed
over and not recalled. See docs/adr/0025-planning.md.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeVar

from quorate.core.admission.admit import Admitted, admit
from quorate.core.admission.holds import hold_duration_ms
from quorate.core.decision_log import DecisionLog
from quorate.core.lifecycle.handover import hand_over
from quorate.core.lifecycle.stops import stop_bundle
from quorate.core.planning.start_search import Searcher
from quorate.core.profile.firm_places import in_order, pin_of, stands
from quorate.core.profile.lease_ends import is_overdue, run_end_ms
from quorate.core.profile.plan_entry import Entry
from quorate.core.profile.profile import Profile
from quorate.core.profile.recallable_loans import Loan, recallable
from quorate.core.profile.reservations import without_hold
from quorate.core.profile.resource import FOREVER_MS
from quorate.core.profile.room_left import room_beside
from quorate.model.events import EndReason, LoanRecalled, RecallWithdrawn, Tier
from quorate.model.specs import Run
from quorate.model.state.records import Lease
from quorate.model.state.state_view import StateView

L = TypeVar("L")


@dataclass(frozen=True, slots=True)
class Recall:
    """What is done with loans so that a waiting run can start.

    The loans in ``handed`` go to other payers. The loans in ``told`` are recalled.
    """

    handed: tuple[Loan, ...]
    told: tuple[Loan, ...]


@dataclass(frozen=True, slots=True)
class Planned:
    """The plan of the runs that come before a given run in the queue.

    ``firm`` are the runs with firm starts. ``entries`` are the tentative starts.
    """

    firm: tuple[str, ...]
    entries: tuple[Entry, ...]

    def profile(self, view: StateView, now_ms: int) -> tuple[Profile, dict[str, Entry]]:
        """Return a profile of ``view`` that contains this plan, and the firm starts by run.

        The firm starts are those that ``view`` records.
        """
        profile, pins = Profile(view, now_ms), dict[str, Entry]()
        for name in self.firm:
            record = view.reservations[view.runs[name].reservation or ""]
            pin = pin_of(view, record, now_ms)
            assert pin is not None, record
            pins[name] = pin
        # A start by a conflict takes only room that the other firm starts leave.
        for pin in sorted(pins.values(), key=lambda each: each.by_conflict):
            profile.put(pin)
        profile.shut()
        for entry in self.entries:
            profile.put(entry)
        return profile, pins


def plan_recall(
    log: DecisionLog, run: Run, planned: Planned, natural_ms: int | None, reservation: str = ""
) -> Recall | None:
    """Return the recall that lets a waiting run start before ``natural_ms``; None if none does.

    ``natural_ms`` is the run's start without a recall, or None if there is no such start.
    ``reservation`` is the name of the run's own reservation, or empty. The entry of this
    reservation must not be in ``planned``. No event is written.
    """
    loans = recallable(log.view, run, log.now_ms, has_executor=log.has_executor)
    if not loans:
        return None
    ends_ms = max((loan.end_ms for loan in loans if not loan.is_worth_a_recall), default=0)
    overdue = tuple(loan for loan in loans if loan.is_overdue)
    trials = _Trials(log, run, planned, natural_ms, reservation, ends_ms, overdue)
    if overdue:
        # The natural start relies on estimated ends of overdue runs, and moves with each estimate.
        trials = replace(trials, natural_ms=trials.start_beside_overdue_ms())
    return trials.choose(loans)


class _Stay(NamedTuple):
    """A time span in which the profile of a trial counts GPUs or concurrency of a loan as taken."""

    loan: Loan
    from_ms: int
    until_ms: int


@dataclass(frozen=True, slots=True)
class _Trials:
    """Tries hand-overs and recalls for a run, each in a new overlay."""

    log: DecisionLog
    run: Run
    planned: Planned
    natural_ms: int | None
    reservation: str
    ends_ms: int
    """The last expected end of the loans that would end before a recall could end them."""
    overdue: tuple[Loan, ...]
    """The loans to overdue runs. Such a loan has a known end only if it is recalled."""

    def choose(self, loans: Sequence[Loan]) -> Recall | None:
        """Return the hand-overs that let the run start now, or else the fewest recalls, or None."""
        # A lease whose declared end is exactly now may overrun, so the run is tried a moment later.
        now_ms, soon_ms = self.log.now_ms, self.log.now_ms + 1
        gone = self._recalled(self.log.view, loans, due_ms=now_ms)
        if self._start_ms(gone, at_ms=soon_ms) != soon_ms:
            return None  # The run waits for something else.
        handed = self._hand_overs(loans)
        if handed:
            return Recall(handed, ())
        told = self._recalls([loan for loan in loans if loan.is_worth_a_recall])
        if not told:
            return None
        return self._divided(told)

    def start_beside_overdue_ms(self) -> int | None:
        """Return when the run starts if nothing is recalled and no overdue run ever ends."""
        stays = [_Stay(loan, loan.end_ms, FOREVER_MS) for loan in self.overdue]
        return self._start_ms(self.log.view, stays, stays)

    # --- Hand-overs alone ---

    def _hand_overs(self, loans: Sequence[Loan]) -> tuple[Loan, ...]:
        """Return the fewest loans, newest first, whose hand-over alone lets the run start now."""
        trial, taken = self._trial(), list[Loan]()
        for loan in loans:
            if _hand(trial, loan):
                taken.append(loan)
        if not taken or not self._starts_now(trial.view):
            return ()

        def starts(some: Sequence[Loan]) -> bool:
            trial = self._handed(some)
            return trial is not None and self._starts_now(trial.view)

        length = _first(len(taken), lambda n: starts(taken[:n]))
        return needed_of(taken[:length], starts)

    def _handed(self, loans: Iterable[Loan]) -> DecisionLog | None:
        """Return a trial in which ``loans`` are handed over; None if a loan has no other payers."""
        trial = self._trial()
        return trial if all(_hand(trial, loan) for loan in loans) else None

    def _starts_now(self, view: StateView) -> bool:
        """Return whether admission starts the run now in ``view``, without delaying the plan."""
        log, run = self.log, self.run
        view = self._own_hold_free(view)
        profile, _ = self.planned.profile(view, log.now_ms)
        until_ms = log.now_ms + hold_duration_ms(run, view.pools[run.pool])
        room = room_beside(view, profile, run, log.now_ms, until_ms)
        answer = admit(room, run, log.now_ms, has_executor=log.has_executor)
        return isinstance(answer, Admitted)

    # --- Recalls ---

    def _recalls(self, loans: Sequence[Loan]) -> tuple[Loan, ...]:
        """Return the fewest loans, newest first, whose recall lets the run start in time.

        ``_is_in_time`` says which starts are in time.
        """
        view = self.log.view

        def helps(some: Sequence[Loan]) -> bool:
            return self._is_in_time(self._recalled(view, some), some)

        if not loans or not helps(loans):
            return ()
        length = _first(len(loans), lambda n: helps(loans[:n]))
        told = needed_of(loans[:length], helps)
        # If the GPUs of these loans are enough, the run does not wait for the lent concurrency.
        is_enough = self._is_in_time(self._recalled(view, told), told, keeps_width=True)
        return () if is_enough else told

    def _divided(self, told: Sequence[Loan]) -> Recall:
        """Return which loans of ``told`` are handed to other payers, and which are recalled.

        A bundle that is handed over keeps its GPUs, so the run must be able to start without these
        GPUs.
        """
        handed, left = list[Loan](), list(told)
        for loan in told:
            trial = self._handed((*handed, loan))
            rest = [other for other in left if other != loan]
            if not rest:
                break  # Hand-overs alone do not start the run, as ``_hand_overs`` has shown.
            if trial is None:
                continue
            if self._is_in_time(self._recalled(trial.view, rest), told, handed=(*handed, loan)):
                handed.append(loan)
                left = rest
        return Recall(tuple(handed), tuple(left))

    def _is_in_time(
        self,
        view: StateView,
        told: Sequence[Loan],
        handed: Collection[Loan] = (),
        *,
        keeps_width: bool = False,
    ) -> bool:
        """Return whether the run starts in ``view`` before its natural start, and in time.

        The latest start in time is the later of two instants: the end of the last notice of
        ``told``, and the last end of the loans that end without a recall. In ``view`` the loans in
        ``handed`` have other payers, and the other loans of ``told`` are recalled. If
        ``keeps_width``, the loans in ``told`` give back their GPUs, but not their concurrency.
        """
        rooms, widths = list[_Stay](), list[_Stay]()
        gone, paid = {each.key for each in told}, {each.key for each in handed}
        for loan in self.overdue:
            # An overdue loan may last until its notice is over or, if not recalled, for ever.
            is_recalled = loan.key in gone and loan.key not in paid
            until_ms = loan.due_ms if is_recalled else FOREVER_MS
            rooms.append(_Stay(loan, loan.end_ms, until_ms))
            if loan.key not in paid:
                width_ms = FOREVER_MS if keeps_width else until_ms
                widths.append(_Stay(loan, loan.end_ms, width_ms))
        if keeps_width:
            widths += [_Stay(loan, loan.due_ms, loan.end_ms) for loan in told]
        start_ms = self._start_ms(view, rooms, widths)
        last_ms = max((self.ends_ms, *(loan.due_ms for loan in told)))
        if start_ms is None or start_ms > last_ms:
            return False
        return self.natural_ms is None or start_ms < self.natural_ms

    def _start_ms(
        self,
        view: StateView,
        rooms: Iterable[_Stay] = (),
        widths: Iterable[_Stay] = (),
        at_ms: int | None = None,
    ) -> int | None:
        """Return when the run starts in ``view``; None if it never does.

        The run starts at ``at_ms`` or later; without ``at_ms``, now or later. ``rooms`` has the
        loans whose GPUs count as taken, and ``widths`` the loans whose concurrency counts as taken,
        each with a time span.
        """
        now_ms, lent = self.log.now_ms if at_ms is None else at_ms, self.log.view
        profile, _ = self.planned.profile(self._own_hold_free(view), now_ms)
        for loan, from_ms, until_ms in rooms:
            _keep_room(profile, lent, _held_by(lent, loan.run, loan.bundle), from_ms, until_ms)
        for loan, from_ms, until_ms in widths:
            _keep_width(profile, lent, _held_by(lent, loan.run, loan.bundle), from_ms, until_ms)
        entry = Searcher(profile, has_executor=self.log.has_executor).find(self.run, now_ms)
        return None if entry is None else entry.start_ms

    def _recalled(
        self, view: StateView, loans: Iterable[Loan], *, due_ms: int | None = None
    ) -> StateView:
        """Return ``view`` with ``loans`` recalled.

        The loans end at ``due_ms``, or without ``due_ms`` when their notices are over.
        """
        trial = self._trial(view)
        for loan in loans:
            trial.write(_recalled(trial, loan, self.run.name, due_ms))
        return trial.view

    def _own_hold_free(self, view: StateView) -> StateView:
        """Return ``view`` without the hold of the run's own reservation."""
        return without_hold(view, self.reservation) if self.reservation else view

    def _trial(self, view: StateView | None = None) -> DecisionLog:
        log = self.log
        return DecisionLog(
            log.view if view is None else view,
            now_ms=log.now_ms,
            actor=log.actor,
            has_executor=log.has_executor,
        )


def _first(length: int, holds: Callable[[int], bool]) -> int:
    """Return the least number up to ``length`` for which ``holds`` is true, by bisection.

    ``holds`` must be true for ``length``.
    """
    low, high = 0, length
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


def needed_of(loans: Sequence[L], holds: Callable[[Sequence[L]], bool]) -> tuple[L, ...]:
    """Return ``loans`` without those that can be left out while ``holds`` stays true.

    The loans are tried from last to first. If ``holds`` is true for some loans, it must stay true
    when loans are added. So the number of loans in a row that can be left out is found by doubling
    and then by bisection.
    """
    kept, left = list[L](), len(loans)

    def fails(out: int) -> bool:
        """Return whether ``holds`` fails without the last ``out`` of the first ``left`` loans."""
        rest = [*loans[: left - out], *kept]
        return not rest or not holds(rest)

    while left:
        out = 1
        while not (is_needed := fails(out)) and out < left:
            out = min(left, 2 * out)
        if not is_needed:
            break
        out = _first(out, fails)
        # The last ``out - 1`` loans are left out, and the one before them is needed.
        kept.insert(0, loans[left - out])
        left -= out
    return tuple(kept)


def _keep_width(
    profile: Profile, view: StateView, leases: Iterable[Lease], from_ms: int, until_ms: int
) -> None:
    """Count the concurrency of ``leases`` as taken from ``from_ms`` until ``until_ms``."""
    if until_ms <= from_ms:
        return
    for lease in leases:
        payer = lease.fact.payer
        profile.payer(payer).take(from_ms, until_ms, lease.gpus)
        if lease.fact.tier is Tier.BORROWED:
            profile.lent(payer).take(from_ms, until_ms, lease.gpus)
        for cap in view.envelopes[payer].caps:
            profile.cap(cap).take(from_ms, until_ms, lease.gpus)


def _keep_room(
    profile: Profile, view: StateView, leases: Iterable[Lease], from_ms: int, until_ms: int
) -> None:
    """Count the GPUs of ``leases`` as taken from ``from_ms`` until ``until_ms``."""
    if until_ms <= from_ms:
        return
    held: dict[str, int] = {}
    for lease in leases:
        for node, mask in lease.fact.slots:
            held[node] = held.get(node, 0) + mask.bit_count()
    for node, gpus in held.items():
        if node not in view.node_status and node not in view.unwiped:
            known = view.nodes[node]
            whole = view.pools[known.island.pool].whole_nodes
            profile.room(known.island).take(from_ms, until_ms, known.spec.gpus if whole else gpus)


def _held_by(view: StateView, run: str, bundle: int) -> list[Lease]:
    """Return the leases of a bundle that are not stopping; bundle 0 stands for the whole run."""
    leases = (view.leases[name] for name in view.runs[run].leases)
    return [each for each in leases if bundle in (0, each.fact.bundle) and not each.ending]


def _hand(log: DecisionLog, loan: Loan) -> bool:
    """Hand a loan to other payers than its lender; return whether the loan was handed over."""
    at_ms = log.now_ms
    return bool(hand_over(log, loan.run, loan.bundle, at_ms=at_ms, barred=loan.barred))


def _recalled(
    log: DecisionLog, loan: Loan, waiting_run: str, due_ms: int | None = None
) -> LoanRecalled:
    return LoanRecalled(
        at_ms=log.now_ms,
        actor=log.actor,
        run=loan.run,
        bundle=loan.bundle,
        payer=loan.payers[0],
        waiting_run=waiting_run,
        due_ms=loan.due_ms if due_ms is None else due_ms,
    )


def write_recall(log: DecisionLog, recall: Recall, waiting_run: str) -> None:
    """Write the hand-overs and recalls of ``recall``, made for ``waiting_run``."""
    for loan in recall.handed:
        has_payers = _hand(log, loan)
        assert has_payers, loan
    for loan in recall.told:
        log.write(_recalled(log, loan, waiting_run))


# --- When the notice is over ---------------------------------------------------------------------


def stop_recalled(log: DecisionLog, stand: Callable[[DecisionLog], bool]) -> bool:
    """Stop the recalled bundles whose notice is over; return whether there were any.

    If there is an executor, a bundle is stopped one grace before the end of its notice. If other
    payers can now pay for a bundle, and no firm start has to move for it, the bundle continues
    instead. ``stand`` returns whether all firm starts can stay in the view of a log.
    """
    due = [
        known
        for known in sorted(log.view.recalls.values(), key=lambda each: each.due_ms)
        if _held_by(log.view, known.run, known.bundle)
        and _stop_ms(log.view, known, has_executor=log.has_executor) <= log.now_ms
    ]
    for known in due:
        if (known.run, known.bundle) not in log.view.recalls:
            continue  # The bundle has ended with its run.
        if _goes_on(log, known, stand):
            continue
        leases = _held_by(log.view, known.run, known.bundle)
        grace_ms = max((lease.grace_ms for lease in leases), default=0)
        end_ms = max(known.due_ms, log.now_ms + grace_ms) if log.has_executor else known.due_ms
        stop_bundle(log, known.run, known.bundle, EndReason.RECALLED, end_ms=end_ms)
    return bool(due)


def _goes_on(log: DecisionLog, known: LoanRecalled, stand: Callable[[DecisionLog], bool]) -> bool:
    """Hand a recalled bundle to payers, if no firm start has to move for it.

    Return whether the bundle was handed over.
    """
    trial = DecisionLog(log.view, now_ms=log.now_ms, actor=log.actor, has_executor=log.has_executor)
    trial.write(
        RecallWithdrawn(at_ms=log.now_ms, actor=log.actor, run=known.run, bundle=known.bundle)
    )
    at_ms = log.now_ms if log.has_executor else min(log.now_ms, known.due_ms)
    # The lender may pay again only if its run no longer waits. Otherwise the loan would be recalled
    # again at once, and after each notice.
    barred = frozenset((known.payer,) if known.waiting_run in log.view.pending else ())
    if not hand_over(trial, known.run, known.bundle, at_ms=at_ms, barred=barred):
        return False
    events, view = tuple(trial.events), trial.view
    if not stand(trial):
        return False
    if is_overdue(view, view.runs[known.run], log.now_ms) and not _stand_beside(log, view, known):
        return False
    for event in events:
        log.write(event)
    return True


def _stand_beside(log: DecisionLog, view: StateView, known: LoanRecalled) -> bool:
    """Return whether all firm starts can stay in ``view`` even if a recalled bundle never ends.

    ``known`` is the recall of the bundle. The end of the bundle's run is only an estimate.
    """
    now_ms = log.now_ms
    profile, leases = Profile(view, now_ms), _held_by(view, known.run, known.bundle)
    from_ms = run_end_ms(view, view.runs[known.run], now_ms)
    _keep_room(profile, view, leases, from_ms, FOREVER_MS)
    _keep_width(profile, view, leases, from_ms, FOREVER_MS)
    for _, record in in_order(view):
        pin = None if record.by_conflict else pin_of(view, record, now_ms)
        if pin is None:
            continue
        if not stands(profile, pin):
            return False
        profile.put(pin)
    return True


def _stop_ms(view: StateView, known: LoanRecalled, *, has_executor: bool) -> int:
    """Return the instant at which a recalled bundle has to be stopped."""
    if not has_executor:
        return known.due_ms
    graces = (lease.grace_ms for lease in _held_by(view, known.run, known.bundle))
    return known.due_ms - max(graces, default=0)


def recall_instants_ms(view: StateView, *, has_executor: bool) -> Iterator[int]:
    """Yield the instants at which recalled bundles that are not stopping have to be stopped."""
    for known in view.recalls.values():
        if _held_by(view, known.run, known.bundle):
            yield _stop_ms(view, known, has_executor=has_executor)
