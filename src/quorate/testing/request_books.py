"""Checks requests: each is carried out once, and a repetition gets the first response.

The expected responses are derived from the blocks, without code of the core. Each ``request-kept``
event must describe the events before it, and the engine must read the same response from this
event.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from quorate.core.commands import Change, Decision
from quorate.ledger.chain import Head
from quorate.loop.commit_types import Receipt
from quorate.loop.engine import Engine
from quorate.model.events import Event, RequestKept, RunSubmitted
from quorate.model.state.records import REQUESTS_KEPT_MS
from quorate.model.state.state_view import StateView


class RequestBooks:
    """Checks the requests in a ledger.

    The caller passes every receipt of a request with a key, and every block.
    """

    def __init__(self) -> None:
        self._given: dict[int, Receipt] = {}
        self._first: dict[str, tuple[RequestKept, Receipt]] = {}
        self._runs: set[str] = set()

    def answered(self, key: str, receipt: Receipt, engine: Engine) -> Iterator[str]:
        """Record the response to a request; for a repetition, yield how the response differs."""
        decision = receipt.decision
        if decision.repeats is not None:
            if decision.events or decision.changes or decision.refusals:
                yield f"request {key} is repeated, but has an effect"
            yield from self._compare(key, engine.answer_kept(decision.repeats))
        elif not decision.refusals:
            self._given[receipt.first_seq + len(decision.events) - 1] = receipt

    def enter(self, head: Head, events: Sequence[Event]) -> Iterator[str]:
        """Record a block, and yield runs and requests that are in the ledger twice."""
        for seq, event in enumerate(events, start=head.seq - len(events) + 1):
            if isinstance(event, RunSubmitted):
                if event.run.name in self._runs:
                    yield f"run {event.run.name} is submitted twice"
                self._runs.add(event.run.name)
            if isinstance(event, RequestKept):
                at = len(events) - 1 - (head.seq - seq)
                yield from self._keep(event, seq, tuple(events[at - event.count : at + 1]), head)

    def _keep(
        self, kept: RequestKept, seq: int, events: tuple[Event, ...], head: Head
    ) -> Iterator[str]:
        known = self._first.get(kept.key)
        if known is not None and kept.at_ms - known[0].at_ms <= REQUESTS_KEPT_MS:
            yield f"request {kept.key} is carried out twice"
        if len(events) != kept.count + 1:
            yield f"request {kept.key} states {kept.count} events, but has {len(events) - 1}"
        changes = tuple((kind, name, Change(change)) for kind, name, change in kept.changes)
        decision = Decision(events, (), changes, kept.warnings)
        receipt = Receipt(decision, head, seq - kept.count)
        self._first[kept.key] = (kept, receipt)
        if self._given.pop(seq, receipt) != receipt:
            yield f"the answer to request {kept.key} differs from the ledger"

    def look(self, view: StateView, engine: Engine) -> Iterator[str]:
        """Yield the requests to which the engine would now give another response than at first."""
        for key, record in view.requests.items():
            yield from self._compare(key, engine.answer_kept(record))

    def _compare(self, key: str, answer: Receipt) -> Iterator[str]:
        known = self._first.get(key)
        if known is None or known[1] != answer:
            yield f"request {key} is answered {answer}, but was first answered {known}"
