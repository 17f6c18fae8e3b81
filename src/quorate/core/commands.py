"""Commands: what people and programs ask for. ``decide`` answers each with a ``Decision``."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from msgspec import Struct

from quorate.model.events import Event
from quorate.model.refusal import Refusal
from quorate.model.specs import Budget, Node, Owner, Pool, Run, System

Applied = System | Pool | Node | Owner | Budget | Run


@dataclass(frozen=True, slots=True)
class Apply:
    """Make the state hold these specs: all of them, or none."""

    specs: tuple[Applied, ...]


@dataclass(frozen=True, slots=True)
class Submit:
    """Accept a run, and start it if that can be done now."""

    run: Run


@dataclass(frozen=True, slots=True)
class Complete:
    """The run's work is done."""

    run: str
    note: str = ""


@dataclass(frozen=True, slots=True)
class Cancel:
    """The run is not wanted any more."""

    run: str
    note: str = ""


@dataclass(frozen=True, slots=True)
class Tick:
    """Do what is due: renew or end holds that ran out, and try what waits."""


Command = Apply | Submit | Complete | Cancel | Tick


class Change(StrEnum):
    """What became of one spec of an ``Apply``."""

    CREATED = "created"
    CONFIGURED = "configured"
    UNCHANGED = "unchanged"
    SUBMITTED = "submitted"


class Decision(Struct, frozen=True):
    """What to commit. A refused command has refusals and no events: nothing is half done."""

    events: tuple[Event, ...] = ()
    refusals: tuple[Refusal, ...] = ()
    changes: tuple[tuple[str, str, Change], ...] = ()
    warnings: tuple[str, ...] = ()
