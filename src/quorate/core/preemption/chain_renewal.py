"""Commits the lottery's next chain, and records sealed secrets, before the present chain ends.

A party that knows which runs a chain will draw must not choose the chain. So the next chain is
committed while the present chain still has links, and is used when the present chain has no links
left (docs/adr/0052).
"""

from __future__ import annotations

from typing import Final

from quorate.core.commands import Decision, SealLottery
from quorate.core.decision_log import DecisionLog
from quorate.core.preemption.lottery import link_of
from quorate.model.events import LotterySealed
from quorate.model.refusal import Refusal, RefusalCode
from quorate.model.state.records import Lottery

RENEW_LINKS: Final = 1_000
"""The next chain is committed when this many links are left: enough for a busy month."""


def renewal_due(lottery: Lottery) -> bool:
    """Return whether the next chain has to be committed now."""
    return lottery.next_chain is None and 0 < lottery.links_left <= RENEW_LINKS


def seal_chain(log: DecisionLog, command: SealLottery) -> Decision:
    """Record the sealed secret of the present chain, or the next chain with its sealed secret."""
    refusal = _refusal(log.view.lottery, command)
    if refusal is not None:
        return Decision(refusals=(refusal,))
    log.write(
        LotterySealed(
            at_ms=log.now_ms,
            actor=log.actor,
            commitment=command.commitment,
            length=command.length,
            sealed=command.sealed,
        )
    )
    return Decision()


def _refusal(lottery: Lottery, command: SealLottery) -> Refusal | None:
    """Return a refusal if ``command`` must not be carried out, else None."""
    why = _fault(lottery, command)
    return Refusal(code=RefusalCode.CONFLICT, subject=why, remedy="") if why else None


def _fault(lottery: Lottery, command: SealLottery) -> str:
    if not lottery.commitment:
        return "this ledger has no lottery"
    if link_of(command.commitment) is None or command.length < 1 or not command.sealed:
        return "a chain needs a commitment of 32 bytes, a length of 1 or more and a sealed secret"
    if command.commitment == lottery.commitment:
        if command.length != lottery.length:
            return (
                f"the present chain has {lottery.length} links, but the request names "
                f"{command.length}"
            )
        return "the secret of the present chain is already sealed" if lottery.sealed else ""
    if not renewal_due(lottery):
        waits = "" if lottery.next_chain is None else ", and the next chain is committed already"
        return f"the present chain has {max(0, lottery.links_left)} links left{waits}"
    return ""
