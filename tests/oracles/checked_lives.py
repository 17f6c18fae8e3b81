"""A ledger that gets any commands one by one, with the checks of the whole-system simulation.

Unlike a ``Life``, it permits refused commands and a clock that is set back. After each decision it
checks the books of promises, the changed objects, that every waiting run has a refusal, that
another walk of the queue starts no run, and that a second tick changes nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from quorate.core.audit.commit_checks import check_touched
from quorate.core.audit.invariants import sweep
from quorate.core.audit.plan_audit import check_plan
from quorate.core.commands import Command, Decision, Draw, ShareOut, Tick
from quorate.core.decide import decide
from quorate.core.next_due import next_due_ms
from quorate.model.events import Event, ThresholdCrossed
from quorate.model.specs import Budget, Node, Owner, Pool
from quorate.model.state.apply_event import apply_all
from quorate.testing.inspection import expect_started, expect_waiting
from quorate.testing.memory_engines import LOTTERY_LENGTH, LOTTERY_SECRET
from quorate.testing.promise_books import PromiseBooks
from quorate.testing.shrinking import Deed, unsettled
from tests.oracles.lives import Life
from tests.oracles.resolving import committed, link

SWEEP_EVERY: Final = 8
"""Once in this many blocks, the whole state is checked, not only the changed objects."""


class CheckedLife(Life):
    """One ledger with a lottery and an executor; ``play`` asserts at the first fault."""

    def __init__(
        self,
        *,
        nodes: Sequence[Node],
        budgets: Sequence[Budget],
        owners: Sequence[Owner],
        pools: Sequence[Pool],
    ) -> None:
        super().__init__(
            nodes=nodes, budgets=budgets, owners=owners, pools=pools, has_executor=True
        )
        self._books = PromiseBooks(LOTTERY_SECRET, LOTTERY_LENGTH)
        self._height = 0
        self.deeds: list[Deed] = []
        self.happened: Counter[str] = Counter()
        opening = self.events
        self.events = []
        apply_all(self.state, [committed()])
        self._enter([*opening, committed()])
        self.happened.clear()  # What happened since, not what was declared.

    def play(self, command: Command, at_ms: int) -> Decision:
        """Decide a command, record it unless it is refused, and make all checks.

        A draw gets its link of the lottery's chain here. ``now_ms`` never goes back, even if
        ``at_ms`` is earlier.
        """
        self.deeds.append(Deed(at_ms, command))
        self._books.looked(at_ms)
        latest_ms, self.now_ms = self.now_ms, at_ms
        decision = self.ask(self._revealed(command))
        self.now_ms = max(latest_ms, at_ms)
        if decision.events:
            apply_all(self.state, decision.events)
            self._enter(decision.events)
            self._check_block(command, decision.events)
        else:
            assert list(check_plan(self.state)) == []
        if not decision.refusals:
            self._check_again(command, decision, at_ms)
        return decision

    def end(self) -> None:
        """Check the whole state and the whole history."""
        assert sweep(self.state) == []
        self.audit()

    def _revealed(self, command: Command) -> Command:
        conflict = self.state.conflicts.get(command.conflict) if isinstance(command, Draw) else None
        if not isinstance(command, Draw) or conflict is None:
            return command
        declared = conflict.declared
        return Draw(command.conflict, link(declared.preimage_index) if declared.tokens else "")

    def _enter(self, events: Sequence[Event]) -> None:
        self.events += events
        self._height += 1
        self.happened.update(type(event).__name__ for event in events)
        faults = list(self._books.enter(self._height, events, self.state))
        assert not faults, ("books", faults[:3])

    def _check_block(self, command: Command, events: Sequence[Event]) -> None:
        found = list(check_touched(self.state, events))
        if self._height % SWEEP_EVERY == 0:
            found += sweep(self.state)
        assert not found, "; ".join(map(str, found[:3]))
        unsaid = [name for name in self.state.pending if self.state.runs[name].refusal is None]
        assert not unsaid, ("wait without a refusal", unsaid)
        if not isinstance(command, ShareOut):  # A round does not walk the queue.
            expect_started(self.state)
        expect_waiting(self.state)

    def _check_again(self, command: Command, decision: Decision, at_ms: int) -> None:
        """Check that a second tick at this instant changes nothing.

        After a tick, also check that nothing more is due at this instant.
        """
        if decision.events:
            now_ms = max(at_ms, self.state.at_ms)
            again = decide(self.state, Tick(), now_ms=now_ms, actor="again", has_executor=True)
            # Work that ended earlier than now lowers the use of a quota with this decision, and the
            # next one records that a threshold is no longer exceeded.
            left = [
                event
                for event in unsettled(self.state, again)
                if not isinstance(event, ThresholdCrossed) or event.is_above
            ]
            assert not left, (f"a second tick after {type(command).__name__}", left[:3])
        if isinstance(command, Tick):
            due_ms = next_due_ms(self.state, has_executor=True, after_ms=self.state.at_ms)
            assert due_ms is None or due_ms > self.state.at_ms, ("left undone", due_ms)


def replayed(life: CheckedLife, deeds: Sequence[Deed]) -> str:
    """Return the failure of ``deeds`` on ``life``, in a line; empty if they do not fail.

    Each round gets the next number of its pool, because ``deeds`` may lack an earlier round.
    """
    try:
        for deed in deeds:
            command = deed.command
            assert command is not None, "nothing here restarts the program"
            if isinstance(command, ShareOut):
                shared = life.state.rounds.get(command.pool)
                number = 1 if shared is None else shared.shared.number + 1
                kept = tuple(g for g in command.grants if g.run in life.state.in_rounds)
                command = replace(command, number=number, grants=kept)
            life.play(command, deed.at_ms)
        life.end()
    except Exception as error:  # noqa: BLE001 - whatever goes wrong is what is asked for
        return f"{type(error).__name__}: {error}".splitlines()[0]
    return ""
