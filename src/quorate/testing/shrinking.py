"""Shortens a failing simulation to a script that still fails.

A trial records the commands to the engine, and their times. ``failure_of`` gives the commands to a
new engine, without the simulated machines. ``shrink`` leaves out commands as long as the trial
still fails. ``scenario_of`` turns the remaining commands into a scenario for ``quorate calc
scenario``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

from quorate.adapters.stores.store_memory import MemoryStore
from quorate.calc.scenario_stage import PatientExecutor
from quorate.core.audit.commit_checks import check_touched
from quorate.core.audit.history_audit import audit
from quorate.core.audit.invariants import sweep
from quorate.core.commands import (
    Apply,
    Cancel,
    Command,
    Complete,
    Confirm,
    CreateOwner,
    Decision,
    Drain,
    Draw,
    Fail,
    Keyed,
    MarkNode,
    Release,
    RemoveOwner,
    Resolve,
    Shrink,
    Submit,
    Tick,
    UpdateOwner,
    Wiped,
)
from quorate.core.decide import decide
from quorate.documents.owner_document import QUOTA_FIELDS
from quorate.documents.render import render
from quorate.documents.times import time_text
from quorate.ledger.chain import GENESIS, Head, open_blocks
from quorate.loop.engine import Engine
from quorate.model.events import Event, HoldExtended, NodeStatus, RunRefused
from quorate.model.specs import Owner, Quota
from quorate.model.state.apply_event import apply_all
from quorate.model.state.state_view import StateView
from quorate.sim.simulation import LOTTERY_LENGTH, LOTTERY_SECRET, VirtualClock
from quorate.testing.promise_books import PromiseBooks

_ACTOR: Final = "scenario"
_MARKS: Final = {
    NodeStatus.FAILED: "failNode",
    NodeStatus.READY: "recover",
    NodeStatus.CORDONED: "cordon",
}
_NUMBERS: Final = re.compile(r"[0-9a-f]{16,}|\d+")


@dataclass(frozen=True, slots=True)
class Deed:
    """A command to the engine at ``at_ms``; if the command is None, the program is restarted."""

    at_ms: int
    command: Command | None


class Replay:
    """A new engine that gets the commands of another; at the first fault an assertion fails."""

    def __init__(self, at_ms: int) -> None:
        self._clock = VirtualClock(at_ms)
        self._store = MemoryStore()
        self._head: Head = GENESIS
        self._books = PromiseBooks(LOTTERY_SECRET, LOTTERY_LENGTH)
        self.events: list[Event] = []
        self._engine = Engine.create(
            self._store,
            self._clock,
            ledger_id=_ACTOR,
            public_key="",
            actor=_ACTOR,
            executor=PatientExecutor(),
            lottery_secret=LOTTERY_SECRET,
            lottery_length=LOTTERY_LENGTH,
        )

    def play(self, deeds: Sequence[Deed]) -> None:
        """Carry out ``deeds``, each at its time, and check the whole history at the end."""
        for deed in deeds:
            self._clock.true_ms = deed.at_ms
            if deed.command is None:
                self._restart()
            elif isinstance(deed.command, Draw):
                # Conflicts are settled only now, because the program may have been down before.
                self._engine.settle_due()
            else:
                self._ask(deed.command)
            self._read_on()
        found = [*sweep(self._engine.view), *audit(self.events, view=self._engine.view)]
        assert not found, "; ".join(str(violation) for violation in found[:5])

    def _restart(self) -> None:
        self._engine = Engine.open(
            self._store, self._clock, executor=PatientExecutor(), lottery_secret=LOTTERY_SECRET
        )
        self._books.shaken(self._engine.now_ms())

    def _ask(self, command: Command) -> None:
        self._books.looked(self._engine.now_ms())
        (receipt,) = self._engine.execute_block([command], actor=_ACTOR)
        view = self._engine.view
        if isinstance(command, Tick) and receipt.decision.events:
            again = decide(view, command, now_ms=view.at_ms, actor=_ACTOR, has_executor=True)
            assert not unsettled(view, again), ("a second tick", again)

    def _read_on(self) -> None:
        view = self._engine.view
        blocks = self._store.blocks(from_height=self._head.height + 1)
        for head, events in open_blocks(blocks, after=self._head):
            self._head = head
            self.events += events
            found = [str(violation) for violation in check_touched(view, events)]
            found += self._books.enter(head.height, events, view)
            assert not found, found[:5]


def unsettled(view: StateView, again: Decision) -> list[Event]:
    """Return the events of a second tick that the first tick should have recorded.

    The second tick may extend the hold of a stopping lease, because such holds are checked at every
    decision. It may also record that an earlier run in the queue now waits for another reason,
    because the first tick made a start firm. This is allowed if the second tick records no start
    and no reservation, and if a third tick would record nothing.
    """
    left = _undone(view, again)
    if not left or not all(isinstance(event, RunRefused) for event in left):
        return left
    after = view.overlay()
    apply_all(after, again.events)
    third = decide(after, Tick(), now_ms=after.at_ms, actor="again", has_executor=True)
    return _undone(after, third)


def _undone(view: StateView, again: Decision) -> list[Event]:
    return [
        event
        for event in again.events
        if not (isinstance(event, HoldExtended) and view.leases[event.lease].ending is not None)
    ]


def failure_of(deeds: Sequence[Deed]) -> str:
    """Return how ``deeds`` fail, as a text without numbers; empty if they do not fail.

    The text is the first line of the error. Two failures are the same if their texts are equal.
    """
    try:
        Replay(deeds[0].at_ms).play(deeds)
    except Exception as error:  # noqa: BLE001 - whatever goes wrong is what is asked for
        words = f"{type(error).__name__}: {error}".splitlines()[0]
        return _NUMBERS.sub("#", words)[:70]
    return ""


def shrink(
    deeds: Sequence[Deed], fails: Callable[[Sequence[Deed]], bool], *, work_max: int = 60_000
) -> list[Deed]:
    """Return a part of ``deeds`` that fails, but would not fail if any one deed were left out.

    The first deed, which declares the world, stays. First large parts are left out, then small
    ones. In total at most ``work_max`` deeds are played, so that the search ends.
    """
    kept, size = list(deeds), max(1, len(deeds) // 2)
    while work_max > 0:
        at, has_shrunk = 1, False
        while at < len(kept) and work_max > 0:
            fewer = kept[:at] + kept[at + size :]
            work_max -= len(fewer)
            if fails(fewer):
                kept, has_shrunk = fewer, True
            else:
                at += size
        if size == 1 and not has_shrunk:
            break
        size = max(1, size // 2)
    return kept


def _plain(tree: Any) -> Any:
    """Return ``tree`` with all numbers in a form that JSON can represent exactly.

    Shares have few digits and stay as they are.
    """
    if isinstance(tree, dict):
        return {key: _plain(value) for key, value in tree.items()}
    if isinstance(tree, list):
        return [_plain(value) for value in tree]
    return float(tree) if isinstance(tree, Decimal) else tree


def scenario_of(deeds: Sequence[Deed]) -> dict[str, object]:
    """Return ``deeds`` as a scenario in which nothing happens between the steps.

    Draws are left out, because a scenario settles due conflicts after each step.
    """
    first = deeds[0]
    rest = [deed for deed in deeds[1:] if not isinstance(deed.command, Draw)]
    assert isinstance(first.command, Apply), first
    return {
        "now": time_text(first.at_ms),
        "secret": LOTTERY_SECRET.hex(),
        "executor": True,
        "quiet": True,
        "documents": [_plain(render(spec)) for spec in first.command.specs],
        "steps": [{"at": time_text(deed.at_ms)} | _deed(deed.command) for deed in rest],
    }


def _deed(command: Command | None) -> dict[str, object]:  # noqa: C901, PLR0911, PLR0912 - one line each
    match command:
        case None:
            return {"restart": True}
        case Apply():
            return {"apply": [_plain(render(spec)) for spec in command.specs]}
        case Submit():
            return {"submit": _plain(render(command.run))}
        case Complete() | Fail() | Cancel():
            return {type(command).__name__.lower(): command.run}
        case Confirm():
            return {"confirm": {"lease": command.lease}}
        case MarkNode():
            return {_MARKS[command.status]: command.node}
        case Drain():
            return {"drain": command.node}
        case Release():
            return {"release": command.claim}
        case Wiped():
            after = {} if command.claim is None else {"claim": command.claim}
            return {"wiped": {"node": command.node, "clean": command.is_clean} | after}
        case Shrink():
            return {"shrink": {"run": command.run, "gpus": command.gpus}}
        case Resolve():
            return {"resolve": _resolve(command)}
        case CreateOwner() | UpdateOwner() | RemoveOwner():
            return _tenant_deed(command)
        case Keyed():
            # A repeated submission is refused even if it has no key, because the run exists.
            return _deed(command.command)
        case _:
            # Scenarios have no access tokens; a tick replaces commands about them.
            return {"tick": True}


def _tenant_deed(command: CreateOwner | UpdateOwner | RemoveOwner) -> dict[str, object]:
    if isinstance(command, CreateOwner):
        return {"createOwner": _plain(render(command.owner))}
    if isinstance(command, UpdateOwner):
        return {"updateOwner": _update(command)}
    return {"removeOwner": {"name": command.name} | _version(command.version)}


def _update(command: UpdateOwner) -> dict[str, object]:
    """Return the step with the changes of ``command``; reasons are left out."""
    given = Quota(**{field: value for field, value in command.quota if value is not None})
    spec = _plain(render(Owner(name=command.name, quota=given))).get("spec")
    assert isinstance(spec, dict), command
    spelled = {field: camel for camel, field in QUOTA_FIELDS.items()}
    found: dict[str, object] = {"name": command.name, "quota": spec.get("quota", {})}
    found["unset"] = [spelled[field] for field, value in command.quota if value is None]
    if command.parents is not None:
        found["parents"] = list(command.parents)
    return found | _version(command.version)


def _version(version: int | None) -> dict[str, object]:
    return {} if version is None else {"version": version}


def _resolve(command: Resolve) -> dict[str, object]:
    return {
        "pool": command.pool,
        "flavor": command.flavor,
        "domains": list(command.domains),
        "deficit": command.gpus,
    }
