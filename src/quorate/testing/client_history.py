"""Checks the answers that clients got from a ledger: one order of all requests must explain all.

Several clients submit, cancel and read runs at the same time, while machines and networks fail.
Each request is one ``Operation``, with the instants at which the request was sent and answered, and
the answer if the client got one. ``check_history`` returns the violations of these rules:

- the answers about each run are linearizable: they are as if there were one copy of the run, and
  each request was carried out on this copy at one instant between its sending and its answer. A
  request without an answer may have been carried out at any later instant, or never;
- an acknowledged write is in the ledger exactly once, at the sequence that the client got. Every
  submission and cancellation in the ledger was sent by a client;
- a write that was sent after the answer to another request has a higher sequence than that request.
  A read that must not lag is at least as new as every acknowledged write that was answered before
  the read was sent. It is also at least as new as every earlier read that must not lag. A read that
  can lag is at least as new as every answer that the same client had before. Each read returns the
  run as of the sequence in the answer, or later.

``check_orders`` checks an executor: the executor never carries out an order of an older term after
an order of a newer term, and starts each lease at most once. ``core/audit/history_audit.py`` checks
quotas and slots in every prefix of the ledger.

A history is linearizable if the requests about each run are linearizable, so each run is checked
separately. The search keeps every state that the answers so far allow. With each state it keeps the
unanswered requests that have already been carried out in this state.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum

from quorate.model.events import Event, Outcome, RunEnded, RunSubmitted


@dataclass(frozen=True, slots=True)
class Copy:
    """A run as clients see it: the submission that created the run, and whether it has ended."""

    nonce: str
    is_over: bool = False


@dataclass(frozen=True, slots=True)
class Submit:
    """A client submits the run, with its own nonce."""

    nonce: str


@dataclass(frozen=True, slots=True)
class Cancel:
    """A client cancels the run."""


@dataclass(frozen=True, slots=True)
class Read:
    """A client reads the run; if ``may_lag``, it accepts an answer that is not up to date."""

    may_lag: bool = False


Request = Submit | Cancel | Read


class Verdict(Enum):
    """The answer to a write."""

    DONE = "done"
    UNCHANGED = "unchanged"
    """The write changed nothing: it was carried out before, or the run is already cancelled."""
    TAKEN = "taken"
    """Another submission has already created a run with the same name."""
    MISSING = "missing"
    """The run to cancel does not exist."""
    REFUSED = "refused"
    """The submission was refused, by a quota for example; the run's name is still free."""
    FAILED = "failed"
    """The answer was an error, and nothing was recorded."""


@dataclass(frozen=True, slots=True)
class Written:
    """The answer to a write, and the sequence of its first event; None if nothing was recorded."""

    verdict: Verdict
    seq: int | None = None


@dataclass(frozen=True, slots=True)
class Found:
    """The answer to a read: the run as of ``seq`` or later; None if the run does not exist."""

    copy: Copy | None
    seq: int


Answer = Written | Found


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One request of ``client`` about ``run``, sent at ``sent`` and answered at ``answered``.

    ``sent`` and ``answered`` are instants of one clock, in any unit. ``answered`` and ``answer``
    are None if the client got no answer. A request that is repeated with the same idempotency key
    is one operation; without a key, each repetition is an operation.
    """

    client: str
    run: str
    request: Request
    sent: int
    answered: int | None
    answer: Answer | None

    def __post_init__(self) -> None:
        """Check that the answer is of the right type, and comes after the request."""
        assert (self.answered is None) == (self.answer is None), self
        assert self.answered is None or self.answered >= self.sent, self
        if self.answer is not None:
            assert isinstance(self.answer, Found) == isinstance(self.request, Read), self


@dataclass(frozen=True, slots=True)
class Obeyed:
    """An order that an executor carried out, and the term of the leader that gave the order."""

    term: int
    lease: str
    is_start: bool


def check_history(operations: Sequence[Operation], events: Sequence[Event]) -> list[str]:
    """Return all faults as sentences; ``events`` is the ledger from its first event on."""
    found: list[str] = []
    by_run: dict[str, list[Operation]] = {}
    for each in operations:
        by_run.setdefault(each.run, []).append(each)
    for run, those in sorted(by_run.items()):
        at = first_unexplained(those)
        if at is not None:
            found.append(f"run {run}: no order of the requests explains {_told(at)}")
    found.extend(_against_ledger(by_run, events))
    found.extend(_against_time(operations))
    return found


def first_unexplained(operations: Sequence[Operation]) -> Operation | None:
    """Return the first operation whose answer no order of operations can explain, or None.

    All ``operations`` are about the same run.
    """
    moments = [(each.sent, 0, number) for number, each in enumerate(operations)]
    moments += [
        (each.answered, 1, number)
        for number, each in enumerate(operations)
        if each.answered is not None
    ]
    # A request sent at the instant of an answer may have been carried out before it.
    moments.sort()
    under_way: set[int] = set()
    ways: set[_Way] = {(None, frozenset())}
    for _, is_answer, number in moments:
        if not is_answer:
            # A read without an answer gives no information.
            if operations[number].answer is not None or not isinstance(
                operations[number].request, Read
            ):
                under_way.add(number)
            continue
        ways = _carried_out(ways, under_way, operations, number)
        if not ways:
            return operations[number]
        under_way.remove(number)
    return None


def check_orders(obeyed: Iterable[Obeyed]) -> list[str]:
    """Return the faults in ``obeyed``, the orders that one executor carried out, in order."""
    found: list[str] = []
    newest = 0
    started: set[str] = set()
    for each in obeyed:
        if each.term < newest:
            found.append(
                f"lease {each.lease}: an order of term {each.term} was obeyed after an order of "
                f"term {newest}"
            )
        newest = max(newest, each.term)
        if each.is_start:
            if each.lease in started:
                found.append(f"lease {each.lease} was started twice")
            started.add(each.lease)
    return found


# --- One run ---

_Way = tuple[Copy | None, frozenset[int]]
"""A possible state of the run, and the unanswered requests that this state already includes."""


def after(copy: Copy | None, request: Request, answer: Answer | None) -> list[Copy | None]:
    """Return the possible states of the run after ``request`` got ``answer``; empty if impossible.

    A write without an ``answer`` is assumed to be carried out, with any possible answer.
    """
    if isinstance(request, Read):
        is_so = request.may_lag or (isinstance(answer, Found) and answer.copy == copy)
        return [copy] if is_so else []
    done, verdicts = _written(copy, request)
    if answer is None:
        return [done]
    assert isinstance(answer, Written), answer
    if answer.verdict is Verdict.FAILED:
        return [copy]
    if answer.verdict not in verdicts:
        return []
    return [copy if answer.verdict is Verdict.REFUSED else done]


def _written(copy: Copy | None, request: Submit | Cancel) -> tuple[Copy | None, set[Verdict]]:
    """Return the state of the run after a write, and the answers that the write may have got."""
    match request, copy:
        case Submit(nonce), None:
            return Copy(nonce), {Verdict.DONE, Verdict.REFUSED}
        case Submit(nonce), Copy(other):
            return copy, {Verdict.UNCHANGED if nonce == other else Verdict.TAKEN}
        case Cancel(), None:
            return None, {Verdict.MISSING}
        case Cancel(), Copy(nonce, is_over):
            verdict = Verdict.UNCHANGED if is_over else Verdict.DONE
            return Copy(nonce, is_over=True), {verdict}
        case _:
            raise AssertionError(request)


def _carried_out(
    ways: set[_Way], under_way: set[int], operations: Sequence[Operation], number: int
) -> set[_Way]:
    """Return the possible states after operation ``number`` was carried out and answered."""
    finished: set[_Way] = set()
    seen = set(ways)
    waiting = list(ways)
    while waiting:
        copy, done = waiting.pop()
        if number in done:
            finished.add((copy, done - {number}))
            continue
        for other in under_way - done:
            each = operations[other]
            for then in after(copy, each.request, each.answer):
                # An unanswered request that changes nothing can be left out.
                if each.answer is None and then == copy:
                    continue
                way = (then, done | {other})
                if way not in seen:
                    seen.add(way)
                    waiting.append(way)
    return finished


# --- The ledger ---


def _against_ledger(by_run: dict[str, list[Operation]], events: Sequence[Event]) -> Iterator[str]:
    """Yield a fault for each answer that the ledger contradicts, and each unrequested record."""
    submitted: dict[str, list[tuple[int, str]]] = {}
    cancelled: dict[str, list[tuple[int, str]]] = {}
    for seq, event in enumerate(events, start=1):
        match event:
            case RunSubmitted():
                submitted.setdefault(event.run.name, []).append((seq, event.run.nonce))
            case RunEnded(outcome=Outcome.CANCELLED):
                cancelled.setdefault(event.run, []).append((seq, ""))
            case _:
                continue
    for run in sorted({*by_run, *submitted, *cancelled}):
        those = by_run.get(run, [])
        yield from _recorded(run, "submission", [*_submits(those)], submitted.get(run, []))
        yield from _recorded(run, "cancellation", [*_cancels(those)], cancelled.get(run, []))
        for each in those:
            if isinstance(each.answer, Found):
                yield from _read_as_recorded(
                    each, each.answer, submitted.get(run, []), cancelled.get(run, []), len(events)
                )


def _read_as_recorded(
    each: Operation,
    found: Found,
    submitted: Sequence[tuple[int, str]],
    cancelled: Sequence[tuple[int, str]],
    last_seq: int,
) -> Iterator[str]:
    """Yield a fault if a read returned a state that the run did not have at ``seq`` or later."""
    if found.seq > last_seq:
        yield f"{_told(each)} is as of {found.seq}, and the ledger ends at {last_seq}"
        return
    later = [seq for seq, _ in (*submitted, *cancelled) if seq > found.seq]
    states: list[Copy | None] = []
    for upto in (found.seq, *sorted(later)):
        nonces = [nonce for seq, nonce in submitted if seq <= upto]
        is_over = any(seq <= upto for seq, _ in cancelled)
        states.append(Copy(nonces[0], is_over) if nonces else None)
    if found.copy not in states:
        yield f"{_told(each)}: the ledger has {states} from {found.seq} on"


def _submits(those: Iterable[Operation]) -> Iterator[tuple[Operation, str]]:
    for each in those:
        if isinstance(each.request, Submit):
            yield each, each.request.nonce


def _cancels(those: Iterable[Operation]) -> Iterator[tuple[Operation, str]]:
    return ((each, "") for each in those if isinstance(each.request, Cancel))


def _recorded(
    run: str,
    what: str,
    sent: Sequence[tuple[Operation, str]],
    recorded: Sequence[tuple[int, str]],
) -> Iterator[str]:
    """Yield the differences between what the ledger has of one run and what clients were told."""
    if len(recorded) > 1:
        at = ", ".join(str(seq) for seq, _ in recorded)
        yield f"run {run}: its {what} is in the ledger {len(recorded)} times, at {at}"
    for seq, nonce in recorded:
        if not any(mark == nonce and _may_have_done(each) for each, mark in sent):
            yield f"run {run}: the ledger has a {what} at {seq} that was refused or never sent"
    for each, nonce in sent:
        done = each.answer
        if not isinstance(done, Written) or done.verdict is not Verdict.DONE:
            continue
        assert done.seq is not None, each
        # The events of a request may begin with the events of due work.
        if not any(mark == nonce and seq >= done.seq for seq, mark in recorded):
            yield f"run {run}: its {what} was acknowledged at {done.seq} and is not in the ledger"


def _may_have_done(each: Operation) -> bool:
    match each.answer:
        case Written(Verdict.DONE | Verdict.UNCHANGED) | None:
            return True
        case _:
            return False


# --- Time ---


def _against_time(operations: Sequence[Operation]) -> Iterator[str]:
    """Yield a fault for each answer whose sequence is too low.

    An answer's sequence is too low if another answer with a higher sequence came before the request
    was sent.
    """
    answered = sorted(
        (each.answered, number)
        for number, each in enumerate(operations)
        if each.answered is not None
    )
    # A read that can lag may return events that are recorded but not acknowledged yet.
    recorded, known, at = 0, 0, 0
    own: dict[str, int] = {}
    for each in sorted((operations[number] for _, number in answered), key=lambda one: one.sent):
        while answered[at][0] < each.sent:
            before = operations[answered[at][1]]
            seq = 0 if before.answer is None else before.answer.seq or 0
            recorded = max(recorded, seq)
            if before.request != Read(may_lag=True):
                known = max(known, seq)
            own[before.client] = max(own.get(before.client, 0), seq)
            at += 1
        match each.request, each.answer:
            case Read(may_lag=may_lag), Found(seq=seq):
                least = own.get(each.client, 0) if may_lag else known
                if seq < least:
                    yield f"{_told(each)} is as of {seq}, but an earlier answer had {least}"
            case _, Written(seq=int(seq)) if seq <= recorded:
                yield f"{_told(each)} has sequence {seq}, but an earlier answer had {recorded}"
            case _:
                continue


def _told(each: Operation) -> str:
    during = f"from {each.sent} to {each.answered}"
    return f"{each.request} of {each.run} by {each.client} {during}, answered {each.answer},"
