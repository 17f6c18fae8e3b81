"""What both clients can be asked to do, as flows: each is written here, once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final

from msgspec import Struct

from quorate.client import flows, wire
from quorate.client.errors import NotQuorateError
from quorate.client.flows import Flow
from quorate.client.retrying import Retrying
from quorate.client.run_document import Work, only_flavor
from quorate.operations import common_requests, common_responses
from quorate.operations.fleet.looking_requests import RunLogs
from quorate.operations.operation import Effect
from quorate.operations.table import OPERATIONS

TERMINAL: Final = frozenset({"Completed", "Cancelled", "Failed"})
"""The phases after which nothing happens to a run any more."""


@dataclass(frozen=True, slots=True)
class Asking:
    """Makes flows; ``retrying`` says how often each request is tried."""

    retrying: Retrying = field(default_factory=Retrying)

    def answer(self, name: str, question: Struct) -> Flow[Any]:
        """Return what an operation gives, as the table types it."""
        operation = OPERATIONS[name]
        return flows.exchange(
            operation, question, self.retrying, lambda reply: wire.given_of(operation, reply)
        )

    def tree(self, name: str, question: Struct) -> Flow[wire.Tree]:
        """Return what an operation gives as it was written, every number to its last digit."""
        return flows.exchange(OPERATIONS[name], question, self.retrying, wire.tree_of)

    def noted(
        self, name: str, question: Struct, *, accept: str = wire.JSON
    ) -> Flow[tuple[wire.Tree, tuple[str, ...]]]:
        """Return what ``tree`` does, or the text of another type, and what is said aside."""
        read = wire.tree_of if accept == wire.JSON else partial(wire.text_of, media=accept)
        return flows.exchange(
            OPERATIONS[name],
            question,
            self.retrying,
            lambda reply: (read(reply), wire.notes_of(reply)),
            accept=accept,
        )

    def told(self, name: str, question: Struct, *, wide: bool) -> Flow[wire.Told]:
        """Return the text for a person, as the service words it."""
        accept = f"{wire.TOLD}; wide=true" if wide else wire.TOLD
        return flows.exchange(
            OPERATIONS[name], question, self.retrying, wire.told_of, accept=accept
        )

    def stream(self, name: str, question: Struct) -> Flow[None]:
        """Emit the events of an operation that goes on, or what one gives that gives many."""
        operation = OPERATIONS[name]
        if operation.effect is Effect.STREAM:
            return flows.follow(operation, question, self.retrying)
        return flows.lines(operation, question, lambda line: wire.line_of(operation, line))

    def lines(self, name: str, question: Struct) -> Flow[None]:
        """Emit the lines of an operation that gives many."""
        return flows.lines(OPERATIONS[name], question, lambda line: line)

    def submit(
        self, document: Mapping[str, Any] | Work, key: str | None
    ) -> Flow[tuple[str, common_responses.Outcome]]:
        """Return the name of the run that was submitted, and the result."""
        if isinstance(document, Work):
            work = document
            if not work.flavors:
                listing: common_responses.Listing = yield from self.answer(
                    "list-domains", common_requests.ListThings()
                )
                statuses = [each.status for each in listing.items]
                work = replace(work, flavors=[only_flavor([s for s in statuses if s])])
            document = work.document()
        question = common_requests.SubmitRun(document=dict(document), idempotency_key=key)
        outcome: common_responses.Outcome = yield from self.answer("submit-run", question)
        names = [each.name for each in outcome.changes if each.kind == "Run"]
        if len(names) != 1:
            raise NotQuorateError(f"the server says that {len(names)} runs were submitted, not one")
        return names[0], outcome

    def wait(self, run: str, timeout_s: float | None) -> Flow[common_responses.Found]:
        """Return the run once it is over, however it ended."""
        return flows.until(
            lambda: self.answer("get-run", common_requests.GetThing(name=run)),
            lambda found: phase_of(found) in TERMINAL,
            what=f"run {run!r} is not over",
            timeout_s=timeout_s,
        )

    def logs(self, run: str, *, first: int, tail: int | None, follow: bool) -> Flow[None]:
        """Emit the lines of a run's output from line ``first`` on, or the last ``tail`` of them."""
        return flows.log_lines(
            lambda number, last: self.answer("run-logs", RunLogs(run=run, from_=number, tail=last)),
            first=first,
            tail=tail,
            follow=follow,
        )


def phase_of(run: common_responses.Found) -> str:
    """Return the phase of a run as it was shown."""
    return str(run.status.get("phase", "")) if isinstance(run.status, dict) else ""
