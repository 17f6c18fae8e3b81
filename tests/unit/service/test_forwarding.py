"""Commands at a following service: where they are forwarded, and the errors without a leader.

The ledger thread is not started here: only its record of the leader matters.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from quorate.ports.leader_port import LeaderRecord
from quorate.service.ledger_thread import LedgerThread
from quorate.service.quorum.forwarding import (
    catch_up,
    leader_for,
    unanswered,
    unreached,
    wait_for_sequence,
    while_it_leads,
)
from quorate.service.quorum.leader_role import Leadership
from quorate.service.quorum.leader_trust import trusted
from quorate.views.exits import CommandError
from quorate.views.statuses import status_of
from tests.service.worlds import small_ledger

LEADER = LeaderRecord(name="one", address="http://one:1", term=3)
OTHER = LeaderRecord(name="two", address="http://two:1", term=4)


def following(leader: LeaderRecord | None, why_not: str = "") -> LedgerThread:
    found = LedgerThread(small_ledger)
    found.leadership = Leadership(leads=False, leader=leader, why_not=why_not)
    return found


def test_command_goes_to_the_leader_that_is_known() -> None:
    assert leader_for(following(LEADER), "") == LEADER


def test_without_a_leader_the_caller_is_asked_to_come_back() -> None:
    with pytest.raises(CommandError, match="no service leads at this moment") as raised:
        leader_for(following(None, "it cannot lead: its folder is gone"), "")
    assert status_of(raised.value.fault).http == 503
    assert "its folder is gone" in str(raised.value)


def test_service_that_does_not_reach_etcd_says_so_instead_of_speaking_of_an_election() -> None:
    class CutOff(LedgerThread):
        away = "no member answers"

    cut_off = CutOff(small_ledger)
    cut_off.leadership = Leadership(leads=False)
    with pytest.raises(CommandError, match=r"does not reach etcd \(no member answers\)") as raised:
        leader_for(cut_off, "")
    assert status_of(raised.value.fault).http == 503
    assert "ask another service" in str(raised.value)


def test_command_is_forwarded_once_whatever_two_services_believe_of_each_other() -> None:
    with pytest.raises(CommandError, match="although three forwarded the command here") as raised:
        leader_for(following(LEADER), "three")
    assert status_of(raised.value.fault).http == 503


def test_what_was_not_sent_is_unavailable_and_what_was_sent_is_timed_out() -> None:
    assert status_of(unreached(LEADER, "refused").fault).http == 503
    found = unanswered(LEADER, "cut off")
    assert status_of(found.fault).http == 504
    assert "Idempotency-Key" in str(found)


def test_leader_that_hangs_is_waited_for_no_longer_than_it_leads() -> None:
    async def asked() -> None:
        hanging = asyncio.Event()
        with pytest.raises(CommandError, match="it no longer leads"):
            await while_it_leads(following(OTHER), LEADER, hanging.wait())
        answer = await while_it_leads(following(LEADER), LEADER, asyncio.sleep(0, "answer"))
        assert answer == "answer"

    asyncio.run(asked())


@pytest.mark.parametrize("asked", ["", "-1", "1.0", "x", "٣", "9" * 19])
def test_least_sequence_that_is_none_is_refused(asked: str) -> None:
    with pytest.raises(CommandError, match="must be the sequence of an event") as raised:
        asyncio.run(wait_for_sequence(following(LEADER), asked))
    assert status_of(raised.value.fault).http == 400


def test_certificates_that_cannot_be_used_name_their_setting(tmp_path: Path) -> None:
    wrong = tmp_path / "ca.pem"
    wrong.write_text("no certificate", "utf-8")
    for path in (wrong, tmp_path / "absent.pem"):
        with pytest.raises(CommandError, match=r"quorum\.ca: .*certificates in PEM"):
            trusted(str(path))


def test_sequence_that_is_there_is_not_waited_for() -> None:
    found = following(LEADER)
    found.recorded_seq = 7
    asyncio.run(wait_for_sequence(found, "7"))
    asyncio.run(catch_up(found, "7"))
    asyncio.run(catch_up(found, ""))
