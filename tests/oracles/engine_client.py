"""The answers of an engine to its own client, in the form of ``testing/client_history.py``."""

from __future__ import annotations

from quorate.core import commands
from quorate.core.commands import Change
from quorate.loop.commit_types import Receipt
from quorate.loop.engine import Engine
from quorate.model.refusal import RefusalCode
from quorate.model.specs import Run
from quorate.model.state.records import TERMINAL
from quorate.testing.client_history import (
    Answer,
    Cancel,
    Copy,
    Found,
    Read,
    Request,
    Submit,
    Verdict,
    Written,
)


def ask(engine: Engine, spec: Run, request: Request) -> Answer:
    """Return the answer of ``engine`` to ``request`` about the run in ``spec``.

    The nonce of ``spec`` must be the nonce of the client's submission. Before a read that may not
    lag, the engine reads new blocks.
    """
    match request:
        case Read():
            if not request.may_lag:
                engine.follow()
            return Found(seen(engine, spec.name), engine.head.seq)
        case Submit(nonce):
            assert nonce == spec.nonce, (nonce, spec.nonce)
            return _verdict(engine.execute(commands.Submit(spec), actor="test"))
        case Cancel():
            return _verdict(engine.execute(commands.Cancel(spec.name), actor="test"))


def seen(engine: Engine, name: str) -> Copy | None:
    """Return the run in the state of ``engine``; None if there is no such run."""
    record = engine.view.runs.get(name)
    return None if record is None else Copy(record.spec.nonce, record.phase in TERMINAL)


def _verdict(receipt: Receipt) -> Written:
    decision = receipt.decision
    codes = {each.code for each in decision.refusals}
    if RefusalCode.ALREADY_EXISTS in codes:
        return Written(Verdict.TAKEN)
    if RefusalCode.UNKNOWN_NAME in codes:
        return Written(Verdict.MISSING)
    if codes:
        return Written(Verdict.REFUSED)
    if any(change is Change.UNCHANGED for _, _, change in decision.changes):
        return Written(Verdict.UNCHANGED)
    return Written(Verdict.DONE, receipt.first_seq)
