"""The expected states of a fleet at later instants, for starts that counting cannot decide.

Each state is derived from an earlier one, by releasing the leases that end in between. So states at
many instants are computed without releasing each lease every time.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from operator import itemgetter
from typing import Final

from quorate.core.admission.admit import Admitted, admit
from quorate.core.admission.holds import hold_duration_ms
from quorate.core.profile.profile import Profile
from quorate.core.profile.reservations import without_hold
from quorate.core.profile.room_left import release, room_beside, unplanned
from quorate.model.specs import Run
from quorate.model.state.state_view import StateView

_LAYERS_MAX: Final = 3
"""The most overlays of a state. A read may pass through all overlays, so there must be few."""

_Known = tuple[int, int, StateView]
"""An instant, the number of overlays of its state, and the state."""


class ExpectedStates:
    """The states that ``profile`` expects; each is computed when it is first read."""

    __slots__ = ("_ends", "_known", "_profile")

    def __init__(self, profile: Profile) -> None:
        self._profile = profile
        self._ends: list[tuple[int, str]] | None = None
        self._known: list[_Known] = []

    def would_start(
        self, run: Run, at_ms: int, *, has_executor: bool, takes_whole: bool = False
    ) -> Admitted | None:
        """Return how ``run`` starts in the state expected at ``at_ms``, without delaying the plan.

        Return None if ``run`` cannot start. If ``takes_whole``, domains that the plan uses while
        ``run`` would run are left out.
        """
        profile = self._profile
        record = profile.view.runs.get(run.name)
        state = self._at(at_ms)
        if record is not None and record.reservation is not None:
            state = without_hold(state, record.reservation)
        until_ms = at_ms + hold_duration_ms(run, profile.view.pools[run.pool])
        room = room_beside(state, profile, run, at_ms, until_ms)
        if takes_whole:
            room = unplanned(room, profile, run, at_ms, until_ms)
        answer = admit(room, run, at_ms, has_executor=has_executor, asked_ms=profile.now_ms)
        return answer if isinstance(answer, Admitted) else None

    def _at(self, at_ms: int) -> StateView:
        """Return the state expected at ``at_ms``: the leases that end by then are released."""
        known = self._known
        index = bisect_right(known, at_ms, key=itemgetter(0))
        if index and known[index - 1][0] == at_ms:
            return known[index - 1][2]
        # The latest earlier state on which another overlay may be put.
        below = next((each for each in reversed(known[:index]) if each[1] < _LAYERS_MAX), None)
        after_ms, layers, view = (-1, 0, self._profile.view) if below is None else below
        found = (at_ms, layers + 1, self._later(view, after_ms, at_ms))
        insort(known, found, key=itemgetter(0))
        return found[2]

    def _later(self, view: StateView, after_ms: int, at_ms: int) -> StateView:
        """Return the state expected at ``at_ms``, given ``view``, the state at ``after_ms``."""
        profile, ends = self._profile, self._in_order()
        first, last = (bisect_right(ends, ms, key=itemgetter(0)) for ms in (after_ms, at_ms))
        state, leases = view.overlay(), profile.view.leases
        release(
            state,
            profile.view,
            [leases[name] for _, name in ends[first:last]],
            lambda name: profile.returns.lease_end_ms(name) <= at_ms,
        )
        for pledge in profile.view.pledges.values():
            if after_ms < profile.returns.pledge_span(pledge)[1] <= at_ms:
                state.vacate(pledge.slots)
        return state

    def _in_order(self) -> list[tuple[int, str]]:
        """Return the expected end and the name of each lease, the earliest end first."""
        if self._ends is None:
            profile = self._profile
            self._ends = sorted(
                (at_ms, name)
                for payer in profile.view.payer_leases
                for at_ms, _, name in profile.returns.payer_ends(payer)
            )
        return self._ends
