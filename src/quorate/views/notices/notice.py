"""The fields of a notice, and the facts that its text needs in addition (ADR-0021)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from quorate.documents.times import time_text
from quorate.model.events import (
    ConflictAnnounced,
    ConflictDeclared,
    ConflictResolved,
    ConflictWithdrawn,
    Event,
)
from quorate.model.notice_kinds import NoticeKind
from quorate.model.specs import Run
from quorate.model.state.state_view import StateView
from quorate.views.runs.event_text import conflict_of, run_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """A notice. ``seq`` is the sequence number of its event.

    ``part`` numbers the notices of one event. ``user`` is empty if the notice is for
    the admins of ``owner``. ``run`` is empty if the notice is about no run, or about several runs;
    ``facts`` names several runs. ``text`` can be understood without the other fields.
    """

    seq: int
    part: int
    at_ms: int
    kind: NoticeKind
    owner: str
    user: str
    run: str
    text: str
    facts: Mapping[str, Any]

    @property
    def name(self) -> str:
        """The notice's permanent name in its ledger."""
        return f"{self.seq}-{self.part}"


@dataclass(frozen=True, slots=True, kw_only=True)
class NoticeContent:
    """The content of a notice, before it gets its number among the notices of its event."""

    seq: int
    kind: NoticeKind
    owner: str
    user: str
    run: str
    text: str
    facts: Mapping[str, Any]


class Known(Protocol):
    """Looks up the constant fields of the runs and conflicts that events name."""

    def run(self, name: str) -> Run:
        """Return the run as it was submitted."""
        ...

    def conflict(self, name: str) -> ConflictDeclared:
        """Return the conflict as it was declared."""
        ...


@dataclass(frozen=True, slots=True)
class KnownView:
    """Looks runs and conflicts up in a state that already contains the events."""

    view: StateView

    def run(self, name: str) -> Run:
        """Return the run as it was submitted."""
        return self.view.runs[name].spec

    def conflict(self, name: str) -> ConflictDeclared:
        """Return the conflict as it was declared."""
        return self.view.conflicts[name].declared


@dataclass(frozen=True, slots=True)
class KnownFew:
    """The few runs and conflicts that some events name, copied out of a state."""

    runs: Mapping[str, Run]
    conflicts: Mapping[str, ConflictDeclared]

    @classmethod
    def of(cls, view: StateView, runs: Iterable[str], conflicts: Collection[str]) -> KnownFew:
        """Return the named runs and conflicts of ``view``, and the runs in these conflicts."""
        declared = {name: view.conflicts[name].declared for name in conflicts}
        entered = {token.run for each in declared.values() for token in each.tokens}
        return cls({name: view.runs[name].spec for name in {*runs, *entered}}, declared)

    def run(self, name: str) -> Run:
        """Return the run as it was submitted."""
        return self.runs[name]

    def conflict(self, name: str) -> ConflictDeclared:
        """Return the conflict as it was declared."""
        return self.conflicts[name]


def names_in(events: Iterable[Event]) -> tuple[set[str], set[str]]:
    """Return the names of the runs and of the conflicts that the notices of ``events`` need."""
    runs: set[str] = set()
    conflicts: set[str] = set()
    for event in events:
        run, conflict = run_of(event), conflict_of(event)
        if run is not None:
            runs.add(run)
        if conflict is not None:
            conflicts.add(conflict)
        if isinstance(event, ConflictResolved):
            runs.update(cut.run for cut in event.cuts)
        elif isinstance(event, ConflictAnnounced):
            runs.update(odds.run for odds in event.runs)
        elif isinstance(event, ConflictWithdrawn):
            runs.update(event.runs)
    return runs, conflicts


def notice_tree(notice: Notice) -> dict[str, Any]:
    """Return ``notice`` for programs."""
    return {
        "id": notice.name,
        "seq": notice.seq,
        "part": notice.part,
        "at": time_text(notice.at_ms),
        "kind": notice.kind.value,
        "owner": notice.owner,
        "user": notice.user,
        "run": notice.run,
        "text": notice.text,
        "facts": dict(notice.facts),
    }
