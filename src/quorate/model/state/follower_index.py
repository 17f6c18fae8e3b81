"""The waiting runs that follow other runs, indexed by upstream and by what they wait for.

A decision that ends runs examines only the followers of the ended runs, so that its cost does not
grow with the number of waiting runs.
"""

from __future__ import annotations

from collections.abc import Iterable

from quorate.model.state.records import RunRecord
from quorate.model.state.tables import Table
from quorate.model.state.upstreams import Failing, UpstreamView, eligible_since_ms, failing_of
from quorate.model.task_arrays import upstreams_of


class FollowerIndex:
    """Every waiting run that has a ``follow``, whether it waits in the queue or for a round.

    ``after`` has the followers of each run and array. ``blocked`` has the followers that may not
    start yet because of an upstream or the limit of their array. ``since`` has all other followers,
    with the instant from which each may start. ``failing`` has the followers that will fail because
    an upstream failed. ``dues`` has these followers ordered by the instant at which they will fail.
    """

    __slots__ = ("after", "blocked", "dues", "failing", "since")

    def __init__(self) -> None:
        self.after: Table[str, dict[str, None]] = Table()
        self.blocked: Table[str, None] = Table()
        self.since: Table[str, int] = Table()
        self.failing: Table[str, Failing] = Table()
        self.dues: Table[int, dict[str, None]] = Table()

    @classmethod
    def of(cls, view: UpstreamView, records: Iterable[RunRecord]) -> FollowerIndex:
        """Return the index of the runs in ``records`` that follow others."""
        found = cls()
        for record in records:
            if record.spec.follow is not None:
                found.add(view, record)
        return found

    def layer(self) -> FollowerIndex:
        """Return a layer over this index; changes in the new layer do not change this index."""
        over = FollowerIndex()
        over.after = self.after.layer()
        over.blocked = self.blocked.layer()
        over.since = self.since.layer()
        over.failing = self.failing.layer()
        over.dues = self.dues.layer()
        return over

    def entries(self) -> list[object]:
        """Return every entry, so that two indexes can be compared."""
        return [
            {name: set(followers) for name, followers in self.after.items()},
            dict(self.blocked),
            dict(self.since),
            dict(self.failing),
            {at_ms: set(names) for at_ms, names in self.dues.items()},
        ]

    def add(self, view: UpstreamView, record: RunRecord) -> None:
        """Add a follower that begins to wait."""
        name = record.spec.name
        for upstream in upstreams_of(record.spec):
            if upstream.name in self.after:
                self.after.own(upstream.name)[name] = None
            else:
                self.after[upstream.name] = {name: None}
        self.blocked[name] = None
        self.look_again(view, record)

    def remove(self, record: RunRecord) -> None:
        """Remove a follower that no longer waits."""
        name = record.spec.name
        # A run may name one upstream twice.
        for upstream in {each.name for each in upstreams_of(record.spec)}:
            others = self.after.own(upstream)
            del others[name]
            if not others:
                del self.after[upstream]
        self.blocked.pop(name, None)
        self.since.pop(name, None)
        self._fails(name, None)

    def look_again(self, view: UpstreamView, record: RunRecord) -> bool:
        """Read a follower's upstreams again; return True if it was blocked and may start now."""
        name = record.spec.name
        self._fails(name, failing_of(view, record))
        if name not in self.blocked:
            return False
        since_ms = eligible_since_ms(view, record)
        if since_ms is None:
            return False
        del self.blocked[name]
        self.since[name] = since_ms
        return True

    def _fails(self, name: str, failing: Failing | None) -> None:
        """Record when the follower ``name`` fails, replacing the previous record."""
        known = self.failing.get(name)
        if known == failing:
            return
        if known is not None:
            del self.failing[name]
            others = self.dues.own(known.at_ms)
            del others[name]
            if not others:
                del self.dues[known.at_ms]
        if failing is not None:
            self.failing[name] = failing
            if failing.at_ms in self.dues:
                self.dues.own(failing.at_ms)[name] = None
            else:
                self.dues[failing.at_ms] = {name: None}
