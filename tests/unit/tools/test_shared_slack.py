"""The count of shared slack: brief histories are played, and their counts are added up."""

from __future__ import annotations

import pytest

from quorate.testing.brief_history import BriefHistory
from tools.shared_slack import Slack, counted, report

SHARED_IN = 18
"""A seed in whose history a younger lease shares the slack."""


@pytest.mark.heavy
def test_slack_that_is_shared_in_a_history_is_counted() -> None:
    found = counted([BriefHistory(SHARED_IN)])
    assert found.faults == []
    assert (found.histories, found.histories_moved, found.histories_shared) == (1, 1, 1)
    assert found.moved >= found.shared >= 1


@pytest.mark.heavy
def test_in_an_honest_history_no_firm_start_moves_and_no_slack_is_shared() -> None:
    found = counted([BriefHistory(SHARED_IN, is_honest=True)])
    assert found.firm > 0
    assert (found.moved, found.shared, found.faults) == (0, 0, [])


@pytest.mark.heavy
def test_a_seed_is_one_history() -> None:
    once, again = (counted([BriefHistory(SHARED_IN)]) for _ in range(2))
    assert once == again


class Broken(BriefHistory):
    """A history in which a firm start is broken at once."""

    def play(self) -> None:
        message = "run00@1 cannot be kept"
        raise AssertionError(message)


def test_faults_are_printed_with_their_seeds_and_fail(capsys: pytest.CaptureFixture[str]) -> None:
    found = counted([Broken(3), Broken(4)])
    assert report(found) == 1
    assert capsys.readouterr().out.splitlines()[-2:] == [
        "seed 3: run00@1 cannot be kept",
        "seed 4: run00@1 cannot be kept",
    ]
    assert report(counted([])) == 0


def test_histories_are_added_up() -> None:
    found = Slack()
    for moved, shared in [(3, 2), (1, 0), (0, 0)]:
        history = BriefHistory(0)
        history.events, history.firm = 10, 4
        history.books.moved_later, history.books.shared_slack = moved, shared
        found.add(history)
    assert str(found) == (
        "3 histories, 30 events, 12 firm starts\n"
        "moved later: 4 times, in 2 histories\n"
        "slack shared by a younger lease: 2 times, in 1 histories"
    )
