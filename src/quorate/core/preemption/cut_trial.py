"""Makes states without some leases, so that a conflict can try sets of cuts and undo them.

The concurrency and the GPU-hours that payers hold for these leases stay held. So a trial frees GPUs
but no money. If it freed money, a run without money could get some by a conflict.
"""

from __future__ import annotations

from collections.abc import Iterable

from quorate.model.events import ReservationClosed, ReservationOutcome
from quorate.model.state.apply_event import apply
from quorate.model.state.records import Lease, PledgeRecord
from quorate.model.state.state import State
from quorate.model.state.state_view import StateView


class Trial:
    """An overlay in which only the leases last passed to ``without`` are missing.

    ``reservation`` is closed in the overlay, because the trial is for the run of this reservation.
    Usually only the slots of the missing leases are freed, because nothing else about these leases
    is read. The leases are removed completely if there are other reservations, or if the trial is
    ``whole``.
    """

    __slots__ = ("_base", "_closed", "_gone", "_is_whole", "_reservation", "_state")

    def __init__(self, view: StateView, reservation: str = "", *, whole: bool = False) -> None:
        self._base = view
        self._reservation = reservation
        self._is_whole = whole
        self._state: State | None = None
        self._gone: dict[str, Lease] = {}
        self._closed: dict[str, PledgeRecord] = {}

    @property
    def base(self) -> StateView:
        """The state with all leases."""
        return self._base

    def without(self, leases: Iterable[str], pledges: Iterable[str] = ()) -> StateView:
        """Return the state without ``leases`` and ``pledges``, valid until the next call."""
        if self._state is None:
            self._state = self._opened()
        state, wanted = self._state, dict.fromkeys(leases)
        for name in [name for name in self._gone if name not in wanted]:
            self._put_back(state, name, self._gone.pop(name))
        for name in wanted:
            if name not in self._gone:
                self._gone[name] = self._take_away(state, name)
        closing = dict.fromkeys(pledges)
        for name in [name for name in self._closed if name not in closing]:
            state.pledges[name] = self._closed.pop(name)
        for name in closing:
            if name not in self._closed:
                self._closed[name] = state.pledges.pop(name)
        return state

    def _opened(self) -> State:
        state = self._base.overlay()
        if self._reservation in state.reservations:
            closed = ReservationClosed(
                at_ms=state.at_ms,
                actor="",
                reservation=self._reservation,
                outcome=ReservationOutcome.CANCELLED,
            )
            apply(state, closed)
        self._is_whole = self._is_whole or bool(state.reservations)
        return state

    def _take_away(self, state: State, name: str) -> Lease:
        if self._is_whole:
            return state.lift_lease(name)
        lease = state.leases[name]
        state.vacate(lease.fact.slots)
        return lease

    def _put_back(self, state: State, name: str, lease: Lease) -> None:
        if self._is_whole:
            state.set_down_lease(name)
        else:
            state.occupy(lease.fact.slots)
