"""The live state: the result of all events up to now, indexed for deciding.

The tables of the state are divided by subject: plans, fleet, work, money and tenancy
(``state_plans.py``, ...). The code of a subject may use the subjects that come before it in this
order. There is one owned ``State``, which ``apply_event.py`` changes. ``decide`` reads the owned
state through the ``StateView`` protocol, and tries changes in an ``overlay``. An overlay is a
``State`` whose tables have only its own changes, and read everything else from the tables below.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from quorate.model.state.crossings import Crossings
from quorate.model.state.records import Lease
from quorate.model.state.state_money import NEVER_MS
from quorate.model.state.state_tenancy import TenancyState
from quorate.model.state.tables import Table


class State(TenancyState):
    """The whole state after one event. All values in it can be computed again from the events."""

    __slots__ = (
        "at_ms",
        "ledger_id",
        "public_key",
        "seq",
    )

    def __init__(self) -> None:
        super().__init__()
        self.seq = self.at_ms = 0
        self.ledger_id = self.public_key = ""

    def overlay(self) -> State:
        """Return an overlay of this state; changes in the overlay do not change this state.

        Making an overlay costs the same however large the state is. Do not change this state while
        the overlay is in use.
        """
        self.refresh()
        self._index_leases()
        over = _Overlay.__new__(_Overlay)
        # ``over`` is a ``State`` itself, so this method may set its private fields.
        over._below = self  # noqa: SLF001
        over.seq, over.at_ms = self.seq, self.at_ms
        over.ledger_id, over.public_key, over.system = self.ledger_id, self.public_key, self.system
        over.lottery = self.lottery
        # The overlay shares these three caches with the state below. When a change in the overlay
        # makes a cache outdated, the overlay gets a new, empty cache instead.
        over.family_cache = self.family_cache
        over.ask_cache = self.ask_cache
        over.owed_cache = self.owed_cache
        over.ends_cache = self.ends_cache.layer()
        over.room_index = self.room_index.layer()
        over._follower_index = self.follower_index.layer()  # noqa: SLF001
        over._waiting = self.waiting.layer()  # noqa: SLF001
        over._line_ranks = self._line_ranks.layer()  # noqa: SLF001
        over.lifted = self.lifted
        held = self.holdings
        # If no owner has a hard quota, holdings count nothing, so the overlay needs no layer of
        # them.
        over._holdings = held.layer(over.owners) if held.has_bounds else held  # noqa: SLF001
        over._stale = []  # noqa: SLF001
        over._pending_nodes, over._pending_free = {}, {}  # noqa: SLF001
        over._holds_due = over._holds_ending = None  # noqa: SLF001
        over._listed_renew_ms = over._listed_end_ms = NEVER_MS  # noqa: SLF001
        over._openings = self.openings()  # noqa: SLF001
        over._soft = self.soft  # noqa: SLF001
        is_budgeted = bool(over.soft.budgeted or self.thresholds)
        over._crossings = self.crossings.layer() if is_budgeted else None  # noqa: SLF001
        over.leases_indexed = True
        return over

    @property
    def crossings(self) -> Crossings:
        """The instants at which owners may cross a threshold.

        The instants are computed on first use, so that a replay need not compute them.
        """
        self.refresh()
        self._index_leases()  # From now on new leases are recorded here, too.
        found = self._crossings
        if found is None:
            found = self._crossings = Crossings()
            for name in (*self.soft.budgeted, *self.thresholds):
                found.touch(name)
        found.look(self)
        return found

    def lift_lease(self, name: str) -> Lease:
        """Remove a lease as if its work had ended; keep what its payer has committed for it.

        The lease stays in ``lifted``. So the trial does not free the GPUs of its payer sooner: they
        come free at the expected end of the lease.
        """
        lease = self.leases.pop(name)
        self.owed_changed()
        self.vacate(lease.fact.slots)
        self.unlist_lease(name, lease)
        del self.runs.own(lease.fact.run).leases[name]
        self.lifted = {**self.lifted, name: lease}
        return lease

    def set_down_lease(self, name: str) -> None:
        """Put back a lease that ``lift_lease`` removed."""
        lease = self.lifted[name]
        self.owed_changed()
        self.lifted = {other: held for other, held in self.lifted.items() if other != name}
        self.occupy(lease.fact.slots)
        # The copy is needed because ``lease`` may be a record of the state below, which must not
        # change.
        lease = self.leases[name] = lease.copy()
        self.list_lease(name, lease)
        self.list_hold(name, lease)  # The entry may be gone by now.
        self.runs.own(lease.fact.run).leases[name] = None


class _Overlay(State):
    """A state over another one.

    This is a class separate from ``State``, because ``__getattr__`` makes every read of a slot
    slower.
    """

    __slots__ = ()

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> object:
            """Return a table of the overlay, made on first use, as most are never used."""
            if name not in _LAYERED:
                raise AttributeError(name)
            table = getattr(self._below, name).layer()
            setattr(self, name, table)
            return table


SLOTS: Final = tuple(name for part in State.__mro__ for name in vars(part).get("__slots__", ()))
"""The names of all fields of a state, for all subjects."""
_EMPTY: Final = State()
TABLES: Final = tuple(name for name in SLOTS if isinstance(getattr(_EMPTY, name), Table))
"""The fields that have a table; an overlay puts its own layer over each of these tables."""
_LAYERED: Final = frozenset(TABLES)
