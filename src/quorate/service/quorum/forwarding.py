"""Forwards the commands of a following service to the leader, over one hop at most.

The leader authenticates the caller by the caller's own token, and decides at its own head. The
forwarding service answers when its own state has the events that the leader recorded. So a caller
can read its own writes at that service (docs/adr/0051).
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, Final, TypeVar

from quorate.ports.leader_port import LeaderRecord
from quorate.service.ledger_thread import NOT_LEADING, LedgerThread
from quorate.service.request_queue import unavailable, unsure
from quorate.views.exits import CommandError, Exit
from quorate.views.statuses import USAGE

T = TypeVar("T")

FORWARDED_BY: Final = "quorate-forwarded-by"
"""Names the service that forwarded a command; such a command is not forwarded again."""
SEQUENCE: Final = "quorate-sequence"
"""The header, or trailing metadata, with the sequence number of the last event that an answer
includes."""
LAG_MS: Final = "quorate-lag-ms"
"""The header, or trailing metadata, with the greatest possible age of the state from which a
following service answers."""
MIN_SEQUENCE: Final = "quorate-min-sequence"
"""The header in which a caller states the number of an event that the answer must include."""
CONNECT_S: Final = 2.0
"""How long connecting to the leader may take."""
ANSWER_S: Final = 60.0
"""How long the leader may take to answer."""
CAUGHT_UP_S: Final = 10.0
"""The longest wait of an answer for the event that its caller requires in ``MIN_SEQUENCE``."""
_SEQ_CHARS_MAX: Final = 18


def leader_for(ledger_thread: LedgerThread, forwarded_by: str) -> LeaderRecord:
    """Return the leader to which a command is forwarded; raises ``CommandError`` if none is known.

    ``forwarded_by`` is the service that sent the command here; it is empty if a caller sent the
    command.
    """
    found = ledger_thread.leadership
    if forwarded_by:
        raise unavailable(
            f"{NOT_LEADING} any longer, although {forwarded_by} forwarded the command here; "
            f"nothing was recorded: ask again in a moment"
        )
    if found.leads:
        raise unavailable(
            "this service no longer leads: it could not reach etcd before its lease expired, and "
            "knows of no other leader; nothing was recorded: ask again in a moment, or ask "
            "another service"
        )
    if found.leader is None and ledger_thread.away:
        raise unavailable(
            f"this service does not lead, and does not know which service does, because it does "
            f"not reach etcd ({ledger_thread.away}); nothing was recorded: ask another service"
        )
    if found.leader is None:
        why = f": {found.why_not}" if found.why_not else ""
        raise unavailable(
            f"no service leads at this moment; an election is under way{why}; nothing was "
            f"recorded: ask again in a moment"
        )
    return found.leader


def unreached(leader: LeaderRecord, why: str) -> CommandError:
    """Return the error for a command that could not be sent to ``leader``."""
    return unavailable(
        f"the leader, {leader.name}, cannot be reached ({why}); nothing was recorded: ask again "
        "in a moment"
    )


def untrusted(leader: LeaderRecord, address: str, why: str, ca_file: str) -> CommandError:
    """Return the error for a command that was not sent, because ``leader`` cannot prove its name.

    ``address`` is the leader's address. ``ca_file`` has the authorities that this service trusts;
    empty means the machine's authorities.
    """
    trusts = f"quorum.ca, {ca_file}" if ca_file else "this machine, because quorum.ca is not set"
    return unavailable(
        f"the certificate of the leader, {leader.name}, is not accepted ({why}); nothing was sent "
        f"or recorded. It was checked with {trusts}: set quorum.ca to a file with the authority "
        f"that signed the leader's tls.cert, and let that certificate name the host of {address}"
    )


def unanswered(leader: LeaderRecord, why: str) -> CommandError:
    """Return the error for a command that was sent to ``leader``, and got no complete answer."""
    return unsure(f"the leader, {leader.name}, has not answered ({why})")


async def while_it_leads(
    ledger_thread: LedgerThread, leader: LeaderRecord, asking: Coroutine[Any, Any, T]
) -> T:
    """Return the leader's answer; raises ``CommandError`` if ``leader`` stops leading first.

    If the leader hangs, callers wait at most until its lease ends.
    """
    answering = asyncio.ensure_future(asking)
    leaving = asyncio.ensure_future(
        ledger_thread.led_until(lambda found: found.leader is None or found.leader != leader)
    )
    try:
        await asyncio.wait({answering, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if not answering.done():
            raise unanswered(leader, "it no longer leads")
        return answering.result()
    finally:
        answering.cancel()
        leaving.cancel()


async def catch_up(ledger_thread: LedgerThread, seq: str) -> None:
    """Wait, for a limited time, until this service has the events that the leader recorded.

    If the time runs out, this is no error: the leader has recorded the command, so the leader's
    answer is returned. A caller whose next read has to include the command sends the sequence
    number of the leader's answer with the read.
    """
    if seq.isascii() and seq.isdecimal() and len(seq) <= _SEQ_CHARS_MAX:
        await ledger_thread.reached(int(seq), CAUGHT_UP_S)


async def wait_for_sequence(ledger_thread: LedgerThread, asked: str) -> None:
    """Wait until the state has the last event that a caller requires; raises ``CommandError``."""
    if not (asked.isascii() and asked.isdecimal() and len(asked) <= _SEQ_CHARS_MAX):
        raise CommandError(
            Exit.USAGE,
            f"{MIN_SEQUENCE}: must be the sequence of an event, got {asked!r}",
            fault=USAGE,
        )
    if not await ledger_thread.reached(int(asked), CAUGHT_UP_S):
        raise unavailable(
            f"{MIN_SEQUENCE}: this service has read up to sequence {ledger_thread.recorded_seq}, "
            f"and did not receive sequence {asked} within {CAUGHT_UP_S:g} s; ask again, or ask "
            f"another service"
        )
