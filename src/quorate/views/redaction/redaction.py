"""Redaction: replaces references to other tenants' resources in output to a caller.

A caller sees why a run waits and the effect of a command, and both may refer to other tenants. The
caller learns how much others use, but not who they are (docs/adr/0019, docs/adr/0027). Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from msgspec.structs import replace

from quorate.model.cause_text import cause_text
from quorate.model.closed_words import counted
from quorate.model.events import (
    BackfillNoted,
    ConflictAnnounced,
    ConflictWithdrawn,
    EndReason,
    Event,
    LeaseEnded,
    LeaseEnding,
    LoanRecalled,
    MoveCause,
    MoveCode,
    ReservationMoved,
    RunRefused,
    SpareFilled,
)
from quorate.model.refusal import Refusal, RefusalCode
from quorate.model.state.records import ReservationRecord
from quorate.model.state.state_view import StateView
from quorate.views.redaction.legacy_causes import with_references

OTHERS: Final = "(others)"
"""Replaces a name that the caller may not see; no resource can have this name."""

_TAKEN: Final = "metadata.name: a run of this name exists"
_FOLLOWS: Final = (RefusalCode.WAITING_FOR_UPSTREAM, RefusalCode.UPSTREAM_FAILED)


def unnamed(cause: MoveCause) -> str:
    """Return why a firm start was moved, with counts in place of names.

    Used for texts whose readers are not known. In an old ledger the cause is a text (``note``).
    """
    kinds: dict[str, int] = {}
    for kind, _ in cause.objects:
        kinds[kind] = kinds.get(kind, 0) + 1
    # A count of one becomes an article: "1 conflict" reads like the name of conflict 1.
    counts = tuple(
        (_article(kind), kind) if count == 1 else (str(count), f"{kind}s")
        for kind, count in kinds.items()
    )
    note = cause.note
    if cause.code is MoveCode.AS_RECORDED:
        note = with_references(note, _counted)
    return cause_text(replace(cause, objects=counts, note=note))


def _article(kind: str) -> str:
    return "an" if kind[0] in "aeiou" else "a"


def _counted(word: str, names: Sequence[str]) -> str:
    if word:
        return f"a {word}"
    # A reservation is named after its run: RUN@1.
    return counted(len(names), "reservation" if "@" in names[0] else "run")


@dataclass(frozen=True, slots=True)
class Redaction:
    """Decides which names may be shown: those of the owners ``seen`` and of their resources.

    If ``seen`` is None, all names may be shown. ``new`` are runs of these owners that ``view`` does
    not have yet.
    """

    view: StateView
    seen: frozenset[str] | None = None
    new: frozenset[str] = frozenset()

    def shows_owner(self, name: str) -> bool:
        """Return whether an owner may be named."""
        return self.seen is None or name in self.seen

    def shows_run(self, name: str) -> bool:
        """Return whether a run or an array may be named; unknown names may not."""
        if self.seen is None or name in self.new:
            return True
        array = self.view.arrays.get(name)
        record = self.view.runs.get(name if array is None else array.first)
        return record is not None and record.spec.owner in self.seen

    def owner(self, name: str) -> str:
        """Return an owner's name, or its replacement."""
        return name if self.shows_owner(name) else OTHERS

    def run(self, name: str) -> str:
        """Return the name of a run, lease, pledge or reservation, or its replacement."""
        # The names of a lease and of a reservation begin with the run's name: RUN/1, RUN@1.
        whose = re.split("[/@]", name, maxsplit=1)[0]
        return name if self.shows_run(whose) else OTHERS

    def runs(self, names: Iterable[str]) -> list[str]:
        """Return names of runs, leases or reservations, with one replacement for hidden names."""
        return list(dict.fromkeys(self.run(name) for name in names))

    def actor(self, name: str) -> str:
        """Return the name of an actor, or its replacement.

        The name of a tenant's user begins with the tenant's name.
        """
        tenant, slash, _ = name.partition("/")
        return name if not slash or self.shows_owner(tenant) else OTHERS

    def text(self, text: str) -> str:
        """Return why a reservation was moved, with only the names that the caller may see.

        A text that cannot be parsed is withheld completely.
        """
        return text if self.seen is None else with_references(text, self._called)

    def _called(self, word: str, names: Sequence[str]) -> str:
        shown = ", ".join(self.runs(names))
        return f"{word} {shown}" if word else shown

    def refusal(self, refusal: Refusal) -> Refusal:
        """Return ``refusal`` with only the names that the caller may see."""
        if self.seen is None:
            return refusal
        subject = refusal.subject
        if refusal.code is RefusalCode.RESERVED:
            subject = ", ".join(self.runs(subject.split(", ")))
        elif refusal.code in _FOLLOWS:
            kind, _, name = subject.rpartition(" ")
            subject = f"{kind} {self.run(name)}"
        elif refusal.code is RefusalCode.ALREADY_EXISTS and subject.startswith("Run/"):
            # The error must say that the name is taken, but nothing about the run that has it.
            name = subject.removeprefix("Run/").partition(": ")[0]
            subject = subject if self.shows_run(name) else f"Run/{name}: {_TAKEN}"
        also = None if refusal.also is None else self.refusal(refusal.also)
        return replace(refusal, subject=subject, also=also)

    def promise(self, record: ReservationRecord) -> ReservationRecord:
        """Return a reservation with only the names that the caller may see."""
        if self.seen is None or record.cause is None:
            return record
        told = record.copy()
        told.cause = self.cause(record.cause)
        return told

    def cause(self, cause: MoveCause) -> MoveCause:
        """Return why a start was moved, with only the names that the caller may see."""
        if self.seen is None:
            return cause
        objects = tuple(dict.fromkeys((kind, self._object(kind, n)) for kind, n in cause.objects))
        # Any other note is about the reservation's own run and owner.
        is_text = cause.code is MoveCode.AS_RECORDED
        return replace(
            cause, objects=objects, note=self.text(cause.note) if is_text else cause.note
        )

    def _object(self, kind: str, name: str) -> str:
        match kind:
            case "lease" | "run" | "reservation":
                return self.run(name)
            case "owner":
                return self.owner(name)
            case "envelope" | "cap":
                budget = self.view.budgets.get(name.partition("/")[0])
                return (
                    OTHERS if budget is None else name if self.shows_owner(budget.owner) else OTHERS
                )
            case _:
                return name

    def event(self, event: Event) -> Event:
        """Return ``event`` as the caller may see it: with only the names that the caller may see.

        If the caller may see all names, the event is returned unchanged.
        """
        if self.seen is None:
            return event
        told = self._names_in(event)
        actor = self.actor(event.actor)
        return told if actor == told.actor else replace(told, actor=actor)

    def _names_in(self, event: Event) -> Event:  # noqa: PLR0911 - one answer per kind
        match event:
            case RunRefused():
                refusal = self.refusal(event.refusal)
                return event if refusal == event.refusal else replace(event, refusal=refusal)
            case ReservationMoved():
                cause = self.cause(event.cause)
                return event if cause == event.cause else replace(event, cause=cause)
            case ConflictAnnounced():
                runs = tuple(odds for odds in event.runs if self.shows_run(odds.run))
                return replace(event, reservation=self.run(event.reservation), runs=runs)
            case ConflictWithdrawn():
                shown = tuple(run for run in event.runs if self.shows_run(run))
                return replace(event, reservation=self.run(event.reservation), runs=shown)
            case BackfillNoted() if self.run(event.reservation) == OTHERS:
                return replace(event, reservation=OTHERS)
            case LoanRecalled():
                run, waiting_run = self.run(event.run), self.run(event.waiting_run)
                return replace(event, run=run, waiting_run=waiting_run)
            case SpareFilled():
                lease, filler = self.run(event.lease), self.run(event.filler)
                if (lease, filler) == (event.lease, event.filler):
                    return event
                pledge = event.pledge if lease == event.lease else OTHERS
                return replace(event, pledge=pledge, lease=lease, filler=filler)
            case LeaseEnding() | LeaseEnded() if (
                event.reason is EndReason.RECLAIMED_BY_SPARE and self.run(event.detail) == OTHERS
            ):
                # The detail is the name of the run that the spare belonged to.
                return replace(event, detail=OTHERS)
            case _:
                return event
