"""The requests of a client and their answers, in a file that remains readable after a kill.

An ``S`` line is written before a request is sent, an ``A`` line when its answer has arrived.
Instants are those of the machine's monotonic clock, which all its processes share.
"""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final, Self

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

_TAIL_BYTES: Final = 16_384


class HistoryFile:
    """Appends the operations of ``client`` to ``path``, each line in one write."""

    def __init__(self, path: Path, client: str) -> None:
        self._file = os.open(path, os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o600)
        self._client = client
        self._number = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        os.close(self._file)

    def sent(self, run: str, request: Request) -> None:
        """Write the next request, just before it is sent."""
        self._number += 1
        fields: dict[str, Any] = {"client": self._client, "run": run, "sent": time.monotonic_ns()}
        match request:
            case Submit(nonce):
                fields["submit"] = nonce
            case Read(may_lag):
                fields["read"] = may_lag
            case Cancel():
                fields["cancel"] = True
        self._write("S", fields)

    def answered(self, answer: Answer) -> None:
        """Write the answer to the last request."""
        fields: dict[str, Any] = {"answered": time.monotonic_ns(), "seq": answer.seq}
        if isinstance(answer, Written):
            fields["verdict"] = answer.verdict.value
        elif answer.copy is not None:
            fields["nonce"], fields["is_over"] = answer.copy.nonce, answer.copy.is_over
        self._write("A", fields)

    def _write(self, mark: str, fields: dict[str, Any]) -> None:
        os.write(self._file, f"{mark} {self._number} {json.dumps(fields)}\n".encode())


def read_histories(paths: Iterable[Path]) -> list[Operation]:
    """Return the operations of all clients."""
    found: list[Operation] = []
    for path in paths:
        sent: dict[str, dict[str, Any]] = {}
        answers: dict[str, dict[str, Any]] = {}
        # A line that is incomplete because of a kill is no answer.
        for line in path.read_text("utf-8").split("\n")[:-1]:
            mark, number, fields = line.split(" ", 2)
            (sent if mark == "S" else answers)[number] = json.loads(fields)
        found += [_operation(fields, answers.get(number)) for number, fields in sent.items()]
    return found


def has_recorded_after(path: Path, now: int) -> bool:
    """Return whether the last lines have a recorded request that was sent after ``now``."""
    with path.open("rb") as file:
        end = file.seek(0, os.SEEK_END)
        file.seek(max(0, end - _TAIL_BYTES))
        # The first and the last line may be incomplete.
        lines = file.read().decode().split("\n")[1:-1]
    sent: set[str] = set()
    for line in lines:
        mark, number, text = line.split(" ", 2)
        fields: dict[str, Any] = json.loads(text)
        if mark == "S" and fields["sent"] > now:
            sent.add(number)
        elif number in sent and "verdict" in fields and fields["seq"] is not None:
            return True
    return False


def counts_of(operations: Iterable[Operation]) -> Counter[str]:
    """Return the number of each kind of answer; ``unknown`` counts requests without an answer."""
    return Counter(
        "unknown"
        if each.answer is None
        else each.answer.verdict.value
        if isinstance(each.answer, Written)
        else "read"
        for each in operations
    )


def _operation(sent: dict[str, Any], answer: dict[str, Any] | None) -> Operation:
    request: Request
    if "submit" in sent:
        request = Submit(sent["submit"])
    elif "read" in sent:
        request = Read(sent["read"])
    else:
        request = Cancel()
    said: Answer | None = None
    if answer is not None and "verdict" in answer:
        said = Written(Verdict(answer["verdict"]), answer["seq"])
    elif answer is not None:
        nonce = answer.get("nonce")
        said = Found(None if nonce is None else Copy(nonce, answer["is_over"]), answer["seq"])
    return Operation(
        client=sent["client"],
        run=sent["run"],
        request=request,
        sent=sent["sent"],
        answered=None if answer is None else answer["answered"],
        answer=said,
    )
