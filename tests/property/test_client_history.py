"""The checker of client histories, compared with all possible orders, and with planted bugs.

The oracle tries all orders of all subsets of the requests, with its own model of a run. The planted
bugs are in stores and executors below real engines; without the bugs the same play passes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import combinations, permutations
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.adapters.stores.store_memory import MemoryStore
from quorate.core import commands
from quorate.core.commands import Apply
from quorate.ledger.chain import Block, Head, open_blocks
from quorate.loop.engine import Engine
from quorate.model.events import Event
from quorate.model.specs import Owner, Quota
from quorate.ports.errors import DecidingStoppedError, OldTermError, QuorateError
from quorate.ports.executor_port import EndLease, Order, Report, StartLease
from quorate.testing.builders import budget, envelope, fleet, run
from quorate.testing.client_history import (
    Answer,
    Cancel,
    Copy,
    Found,
    Obeyed,
    Operation,
    Read,
    Request,
    Submit,
    Verdict,
    Written,
    check_history,
    check_orders,
    first_unexplained,
)
from quorate.testing.memory_engines import HandClock
from tests.oracles.effort import examples
from tests.oracles.engine_client import ask

INSTANTS = 8
REQUESTS: list[Request] = [Submit("a"), Submit("b"), Cancel(), Read()]


# --- Every order there is ---


def is_explained(operations: Sequence[Operation]) -> bool:
    """Return whether some order explains all answers, by trying all orders."""
    sure = [each for each in operations if each.answer is not None]
    unsure = [each for each in operations if each.answer is None]
    return any(
        _plays(order)
        for count in range(len(unsure) + 1)
        for some in combinations(unsure, count)
        for order in permutations([*sure, *some])
        if _is_in_time(order)
    )


def _is_in_time(order: Sequence[Operation]) -> bool:
    return not any(
        later.answered is not None and later.answered < earlier.sent
        for at, earlier in enumerate(order)
        for later in order[at + 1 :]
    )


def _plays(order: Sequence[Operation]) -> bool:
    """Return whether one copy of the run gives these answers in this order."""
    copy: Copy | None = None
    for each in order:
        said, done = _answered(each.request, copy)
        if each.answer == Written(Verdict.REFUSED) and copy is None:
            continue
        if each.answer == Written(Verdict.FAILED):
            continue
        if each.answer not in (None, said):
            return False
        copy = done
    return True


def _answered(request: Request, copy: Copy | None) -> tuple[Answer, Copy | None]:
    """Return the answer of one copy, and the copy afterwards."""
    match request:
        case Read():
            return Found(copy, 0), copy
        case Submit(nonce):
            if copy is None:
                return Written(Verdict.DONE), Copy(nonce)
            return Written(Verdict.UNCHANGED if nonce == copy.nonce else Verdict.TAKEN), copy
        case Cancel():
            if copy is None:
                return Written(Verdict.MISSING), None
            verdict = Verdict.UNCHANGED if copy.is_over else Verdict.DONE
            return Written(verdict), Copy(copy.nonce, is_over=True)


@st.composite
def histories(draw: st.DrawFn) -> list[Operation]:
    """Return a few requests about one run, with any answers."""
    found = []
    for number in range(draw(st.integers(1, 5))):
        request = draw(st.sampled_from(REQUESTS))
        sent = draw(st.integers(0, INSTANTS))
        answers = _ANSWERS[type(request)]
        answer = draw(st.none() | st.sampled_from(answers))
        answered = None if answer is None else draw(st.integers(sent, INSTANTS))
        found.append(
            Operation(
                client=str(number),
                run="r",
                request=request,
                sent=sent,
                answered=answered,
                answer=answer,
            )
        )
    return found


_ANSWERS: dict[type[Request], list[Answer]] = {
    Submit: [
        Written(each) for each in (Verdict.DONE, Verdict.UNCHANGED, Verdict.TAKEN, Verdict.REFUSED)
    ],
    Cancel: [Written(each) for each in (Verdict.DONE, Verdict.UNCHANGED, Verdict.MISSING)],
    Read: [
        Found(copy, 0)
        for copy in (None, Copy("a"), Copy("b"), Copy("a", is_over=True), Copy("b", is_over=True))
    ],
}


@pytest.mark.heavy
@examples(3)
@given(histories())
def test_history_is_explained_exactly_where_some_order_explains_it(
    operations: list[Operation],
) -> None:
    assert (first_unexplained(operations) is None) == is_explained(operations)


@st.composite
def executions(draw: st.DrawFn) -> list[Operation]:
    """Return requests that one copy has carried out, each at one instant during the request."""
    found: list[Operation] = []
    copy: Copy | None = None
    for number in range(draw(st.integers(1, 12))):
        at = 10 * number
        request = draw(st.sampled_from(REQUESTS))
        answer, copy = _answered(request, copy)
        is_known = draw(st.integers(0, 3)) > 0
        found.append(
            Operation(
                client=str(number),
                run="r",
                request=request,
                sent=at - draw(st.integers(0, 40)),
                answered=at + draw(st.integers(0, 40)) if is_known else None,
                answer=answer if is_known else None,
            )
        )
    return draw(st.permutations(found))


@pytest.mark.heavy
@given(executions())
def test_what_one_copy_has_carried_out_is_explained(operations: list[Operation]) -> None:
    assert first_unexplained(operations) is None


# --- Planted bugs ---


class Log(MemoryStore):
    """A log that engines share; each flaw is one that a store must not have."""

    def __init__(self, flaw: str = "") -> None:
        super().__init__(is_shared=True)
        self.flaw = flaw
        self._unwritten: list[Block] = []

    def append(self, block: Block, *, expected: Head) -> None:
        if self.flaw == "skips the compare":
            # The block replaces a block of another writer.
            del self._blocks[expected.height :]
        if self.flaw == "acknowledges before the commit":
            self._unwritten.append(block)
            if len(self._unwritten) > 1:
                super().append(self._unwritten.pop(0), expected=self.head())
            return
        super().append(block, expected=expected)


OWNERS = (Owner(name="physics", quota=Quota(concurrent_runs_max=3)), Owner(name="free"))


class Play:
    """Clients, each with an engine, send requests about few runs in turn; all are recorded."""

    def __init__(
        self, store: Log, chance: Random, *, clients: int = 3, reads_stale: bool = False
    ) -> None:
        self.store, self.chance, self.reads_stale = store, chance, reads_stale
        flaw, store.flaw = store.flaw, ""
        clock = HandClock()
        first = Engine.create(store, clock, ledger_id="t", public_key="", actor="test")
        budgets = [budget(each.name, each.name, envelope("all", 100)) for each in OWNERS]
        first.execute(Apply((*fleet({"A": 24}), *OWNERS, *budgets)), actor="test")
        store.flaw = flaw
        self.engines = [Engine.open(store, clock) for _ in range(clients)]
        self.operations: list[Operation] = []
        self.at = 0

    def go(self, count: int) -> None:
        for _ in range(count):
            client = self.chance.randrange(len(self.engines))
            number = self.chance.randrange(6)
            spec = run(f"r{number}", 2, OWNERS[number % 2].name, nonce=f"c{client}")
            asks: list[Request] = [Submit(spec.nonce), Cancel(), Read()]
            request = self.chance.choice(asks)
            asked = Read(may_lag=True) if self.reads_stale and request == Read() else request
            self.at += 2
            answer: Answer | None
            try:
                answer = ask(self.engines[client], spec, asked)
            except QuorateError:
                # The engine has noticed that the log differs from what it has read.
                answer = None
            self.operations.append(
                Operation(
                    client=str(client),
                    run=spec.name,
                    request=request,
                    sent=self.at,
                    answered=None if answer is None else self.at + 1,
                    answer=answer,
                )
            )

    def check(self) -> list[str]:
        return check_history(self.operations, list(self._events()))

    def _events(self) -> Iterator[Event]:
        for _, events in open_blocks(self.store.blocks()):
            yield from events


@pytest.mark.heavy
@pytest.mark.parametrize("seed", range(5))
def test_history_of_engines_over_a_sound_log_is_explained(seed: int) -> None:
    play = Play(Log(), Random(seed))
    play.go(80)
    assert play.check() == []
    assert len({type(each.answer) for each in play.operations}) == 2


PLANTED: dict[str, Callable[[Random], Play]] = {
    "skips the compare": lambda chance: Play(Log("skips the compare"), chance),
    "acknowledges before the commit": lambda chance: Play(
        Log("acknowledges before the commit"), chance, clients=1
    ),
    "serves stale reads as fresh": lambda chance: Play(Log(), chance, reads_stale=True),
}


@pytest.mark.heavy
@pytest.mark.parametrize("bug", PLANTED)
def test_planted_bug_is_found(bug: str) -> None:
    play = PLANTED[bug](Random(1))
    play.go(40)
    found = play.check()
    assert found, bug


class Obedient:
    """An executor that records what it carries out; a flawed one ignores terms."""

    def __init__(self, *, looks_at_terms: bool = True) -> None:
        self.obeyed: list[Obeyed] = []
        self._looks_at_terms = looks_at_terms
        self._term = 0

    def carry_out(self, orders: Sequence[Order], *, term: int = 0) -> None:
        if self._looks_at_terms and term < self._term:
            raise OldTermError(term=term, newest=self._term)
        self._term = max(term, self._term)
        for each in orders:
            if isinstance(each, StartLease):
                self.obeyed.append(Obeyed(term, each.lease.lease, is_start=True))
            elif isinstance(each, EndLease):
                self.obeyed.append(Obeyed(term, each.lease, is_start=False))

    def resume(self, orders: Sequence[Order], *, term: int = 0, is_whole: bool = True) -> None:
        del is_whole
        known = {each.lease for each in self.obeyed}
        new = [e for e in orders if not isinstance(e, StartLease) or e.lease.lease not in known]
        self.carry_out(new, term=term)

    def reports(self) -> Sequence[Report]:
        return ()

    def steps(self, runs: Collection[str]) -> Mapping[str, int]:
        del runs
        return {}


@pytest.mark.parametrize("looks_at_terms", [True, False])
def test_orders_of_an_old_term_that_are_obeyed_are_found(*, looks_at_terms: bool) -> None:
    old, new = Play(Log(), Random(0), clients=2).engines
    executor = Obedient(looks_at_terms=looks_at_terms)
    old.lead(1, executor)
    old.execute(commands.Submit(run("before", 2, "free")), actor="test")
    new.lead(2, executor)
    new.execute(commands.Submit(run("after", 2, "free")), actor="test")
    # It was paused, and does not know that another engine leads.
    late = commands.Submit(run("late", 2, "free"))
    if looks_at_terms:
        with pytest.raises(DecidingStoppedError):
            old.execute(late, actor="test")
    else:
        old.execute(late, actor="test")
    found = check_orders(executor.obeyed)
    if looks_at_terms:
        assert found == []
    else:
        assert [
            each
            for each in found
            if ("an order of term 1 was obeyed after an order of term 2") in each
        ]


def test_a_lease_that_is_started_twice_is_found() -> None:
    twice = [Obeyed(1, "r/0", is_start=True), Obeyed(2, "r/0", is_start=True)]
    assert check_orders(twice) == ["lease r/0 was started twice"]
