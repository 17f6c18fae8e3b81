"""A REST client of several services, which records its requests and answers as a history."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from random import Random
from threading import Event, Thread
from typing import Any, Final

import httpx

from quorate.testing.client_history import (
    Answer,
    Cancel,
    Copy,
    Found,
    Operation,
    Read,
    Request,
    Submit,
    Verdict,
    Written,
)
from tests.bounds import WAIT_S
from tests.etcd.fault_world import pick, tree_of
from tests.service.program import client

ANSWER_S: Final = 15.0
"""How long a client waits for an answer."""
PAUSE_S: Final = 0.2
"""How long a client waits after an error, as clients do."""
NEXT_S: Final = 0.04
"""How long a client waits after an answer, so that four clients do not keep the machine busy."""
_VERDICTS: Final = {
    "already-exists": Verdict.TAKEN,
    "unknown-name": Verdict.MISSING,
    "max-nodes": Verdict.REFUSED,
    "max-concurrent-runs": Verdict.REFUSED,
}
_LAST: Final = 50
"""The number of last operations that are searched for a recorded one."""
_OVER: Final = ("Completed", "Cancelled", "Failed")


class RestClient:
    """Sends requests to one service after the other, on a separate thread, until it is stopped.

    A read that may lag requires everything that this client was answered before. Other reads
    require nothing, and their answers count if the service does not say that it lags.
    """

    def __init__(
        self,
        name: str,
        addresses: Sequence[str],
        token: str,
        seed: int,
        *,
        answer_s: float = ANSWER_S,
        next_s: float = NEXT_S,
        way_s: float = 0.0,
        tree_of: Callable[[str, str], dict[str, Any]] = tree_of,
    ) -> None:
        self.name = name
        self.operations: list[Operation] = []
        self.trouble = ""
        self._addresses, self._token = addresses, token
        self._answer_s, self._next_s, self._tree_of = answer_s, next_s, tree_of
        self._way_s = way_s
        self._chance = Random(f"{seed} {name}")
        self._seen = 0
        self._stopping = Event()
        self._thread = Thread(target=self._run, name=name)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join(4 * WAIT_S)
        assert not self._thread.is_alive(), f"{self.name} has not ended"

    def recorded_after(self, now: int) -> bool:
        """Return whether a request that it sent after ``now`` was recorded."""
        return any(
            each.sent > now and isinstance(each.answer, Written) and each.answer.seq is not None
            for each in reversed(self.operations[-_LAST:])
        )

    def _run(self) -> None:
        try:
            while not self._stopping.is_set():
                with client(f"{self._chance.choice(self._addresses)}/api/v1", self._token) as http:
                    for _ in range(10):
                        if not self._stopping.is_set():
                            self.ask(http, *pick(self._chance, self.name))
        except Exception as error:  # noqa: BLE001 - the top frame of its thread: the test shows it
            self.trouble = repr(error)

    def ask(self, http: httpx.Client, run: str, request: Request) -> Operation:
        """Return the outcome of ``request``, which is one of ``operations`` from then on."""
        sent = time.monotonic_ns()
        request, answer = self._answer(http, run, request)
        answered = None if answer is None else time.monotonic_ns()
        if answer is not None:
            self._seen = max(self._seen, answer.seq or 0)
        done = Operation(
            client=self.name,
            run=run,
            request=request,
            sent=sent,
            answered=answered,
            answer=answer,
        )
        self.operations.append(done)
        is_failed = answer is None or answer == Written(Verdict.FAILED)
        took_s = (time.monotonic_ns() - sent) / 1e9
        self._stopping.wait(max(PAUSE_S if is_failed else self._next_s, min(took_s, self._way_s)))
        return done

    def _answer(
        self, http: httpx.Client, run: str, request: Request
    ) -> tuple[Request, Answer | None]:
        """Return the request and its answer, which is None if the outcome is unknown."""
        is_read = isinstance(request, Read)
        try:
            reply = self._sent(http, run, request)
        except httpx.ConnectError:
            return request, None if is_read else Written(Verdict.FAILED)
        except httpx.TransportError:
            return request, None
        if not isinstance(request, Read):
            return request, _written(reply)
        lags = "quorate-lag-ms" in reply.headers
        if lags and not request.may_lag:
            return request, None
        return replace(request, may_lag=lags), _found(reply)

    def _sent(self, http: httpx.Client, run: str, request: Request) -> httpx.Response:
        match request:
            case Submit(nonce):
                document = self._tree_of(run, nonce)
                return http.post("/runs", json={"document": document}, timeout=self._answer_s)
            case Cancel():
                return http.post(f"/runs/{run}/cancel", json={}, timeout=self._answer_s)
            case Read(may_lag):
                least = {"Quorate-Min-Sequence": str(self._seen)} if may_lag and self._seen else {}
                return http.get(f"/runs/{run}", headers=least, timeout=self._answer_s)


def _written(reply: httpx.Response) -> Written | None:
    if reply.status_code == httpx.codes.SERVICE_UNAVAILABLE:
        return Written(Verdict.FAILED)
    if reply.is_server_error:
        return None
    tree: dict[str, Any] = reply.json()
    if not reply.is_success:
        assert tree["code"] in _VERDICTS, reply.text
        return Written(_VERDICTS[tree["code"]])
    if any(each["change"] == "unchanged" for each in tree["changes"]):
        return Written(Verdict.UNCHANGED)
    return Written(Verdict.DONE, tree["events"][0]["seq"])


def _found(reply: httpx.Response) -> Found | None:
    """Return the result of a read, or None if there is no answer."""
    if reply.status_code == httpx.codes.NOT_FOUND:
        return Found(None, int(reply.headers["quorate-sequence"]))
    if not reply.is_success:
        return None
    tree: dict[str, Any] = reply.json()
    copy = Copy(tree["spec"]["nonce"], tree["status"]["phase"] in _OVER)
    return Found(copy, int(reply.headers["quorate-sequence"]))
