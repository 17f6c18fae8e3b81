"""The requests of both clients, as flows; each request is written once, for both."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import Struct

from quorate.client import flows, wire
from quorate.client.errors import NotQuorateError
from quorate.client.flows import Flow
from quorate.client.retrying import Retrying
from quorate.operations.common_responses import Outcome
from quorate.operations.operation import Effect
from quorate.operations.resources import resource_operations
from quorate.operations.table import OPERATIONS

if TYPE_CHECKING:
    from quorate.client.resources.any_resource import ResourceList
    from quorate.client.resources.fleet_resources import DomainInfo
    from quorate.client.resources.run_resources import RunInfo
    from quorate.client.run_document import Work

_WATCH_LOGS: Final = "watch-logs"
TERMINAL: Final = frozenset({"Completed", "Cancelled", "Failed"})
"""The phases of a run that is over."""


class Asking(Struct, frozen=True):
    """Makes flows; ``retrying`` decides how often each request is sent."""

    retrying: Retrying = Retrying()

    def answer(self, name: str, question: Struct) -> Flow[Any]:
        """Return the answer of an operation, decoded to the type in the table of operations."""
        operation = OPERATIONS[name]
        return flows.exchange(
            operation, question, self.retrying, lambda reply: wire.given_of(operation, reply)
        )

    def json(self, name: str, question: Struct) -> Flow[wire.Tree]:
        """Return the answer of an operation as decoded JSON; numbers are exact."""
        return flows.exchange(OPERATIONS[name], question, self.retrying, wire.tree_of)

    def json_and_notes(
        self, name: str, question: Struct, *, accept: str = wire.JSON
    ) -> Flow[tuple[wire.Tree, tuple[str, ...]]]:
        """Return the answer and all notes; if ``accept`` is not JSON, the answer is a string."""
        read = wire.tree_of if accept == wire.JSON else partial(wire.text_of, media=accept)
        return flows.exchange(
            OPERATIONS[name],
            question,
            self.retrying,
            lambda reply: (read(reply), wire.notes_of(reply)),
            accept=accept,
        )

    def text(self, name: str, question: Struct, *, wide: bool) -> Flow[wire.Told]:
        """Return the text of the answer that the service writes for people."""
        accept = f"{wire.TOLD}; wide=true" if wide else wire.TOLD
        return flows.exchange(
            OPERATIONS[name], question, self.retrying, wire.told_of, accept=accept
        )

    def every(self, name: str, question: resource_operations.ListThings) -> Flow[None]:
        """Emit all resources of a list; the flow requests page after page."""
        while True:
            page: ResourceList[Any] = yield from self.answer(name, question)
            for each in page.items:
                yield flows.Emit(each)
            if page.next is None:
                return
            question = msgspec.structs.replace(question, cursor=page.next)

    def stream(self, name: str, question: Struct) -> Flow[None]:
        """Emit the events of an operation that streams, or the lines of a long answer."""
        operation = OPERATIONS[name]
        if name == _WATCH_LOGS:
            return flows.log_pages(operation, question, self.retrying, lambda page: [page])
        if operation.effect is Effect.STREAM:
            return flows.follow(operation, question, self.retrying)
        return flows.lines(operation, question, lambda line: wire.line_of(operation, line))

    def lines(self, name: str, question: Struct) -> Flow[None]:
        """Emit the lines of an operation with a long answer."""
        return flows.lines(OPERATIONS[name], question, lambda line: line)

    def submit(
        self, document: Mapping[str, Any] | Work, key: str | None, *, dry_run: bool = False
    ) -> Flow[tuple[str, Outcome]]:
        """Return the name of the run or array that was submitted, and the result."""
        # Only the Python client takes keyword arguments instead of a document.
        from quorate.client import run_document  # noqa: PLC0415
        from quorate.operations.resources import run_operations  # noqa: PLC0415

        if isinstance(document, run_document.Work):
            work = document
            if not work.flavors:
                listing: ResourceList[DomainInfo] = yield from self.answer(
                    "list-domains", resource_operations.ListThings()
                )
                work = msgspec.structs.replace(
                    work, flavors=[run_document.only_flavor([s.status for s in listing.items])]
                )
            document = work.document()
        question = run_operations.SubmitRun(
            document=dict(document), idempotency_key=key, dry_run=dry_run
        )
        outcome: Outcome = yield from self.answer("submit-run", question)
        names = [each.name for each in outcome.changes if each.kind == "Run"]
        spec = document.get("spec", document)
        if isinstance(spec, Mapping) and spec.get("array") is not None:
            # The name of a task is the name of its array and its index.
            names = list(dict.fromkeys(name.rpartition("_")[0] for name in names))
        if len(names) != 1:
            raise NotQuorateError(f"the server says that {len(names)} runs were submitted, not one")
        return names[0], outcome

    def wait(self, run: str, timeout_s: float | None) -> Flow[RunInfo]:
        """Wait until the run is over, and return it."""
        return flows.until(
            lambda: self.answer("get-run", resource_operations.GetThing(name=run)),
            lambda found: found.status.phase in TERMINAL,
            what=f"run {run!r} is not over",
            timeout_s=timeout_s,
        )

    def logs(self, run: str, *, first: int, tail: int | None, follow: bool) -> Flow[None]:
        """Emit the run's output from line ``first`` on, or only its last ``tail`` lines."""
        # Imported here: commands that show no output do not need these requests.
        from quorate.operations.fleet.observe_operations import RunLogs, WatchLogs  # noqa: PLC0415

        return flows.log_lines(
            lambda number, last: self.answer("run-logs", RunLogs(run=run, from_=number, tail=last)),
            lambda number: flows.log_pages(
                OPERATIONS[_WATCH_LOGS],
                WatchLogs(run=run, first=number),
                self.retrying,
                lambda page: page.lines,
            ),
            first=first,
            tail=tail,
            follow=follow,
        )
