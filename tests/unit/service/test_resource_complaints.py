"""The operator's messages about failures."""

from __future__ import annotations

import logging

import pytest

from quorate.ports.errors import ClusterDownError
from quorate.service.custom_resources.resource_complaints import Complaints


def test_each_cause_is_logged_once_and_an_outage_lasts_until_all_of_it_works(
    caplog: pytest.LogCaptureFixture,
) -> None:
    complaints = Complaints("west")
    assert complaints.outage() == ""
    with caplog.at_level(logging.WARNING):
        for cause in ("away", "away", "refused"):
            complaints.note("Run a/b", ClusterDownError(cause))
        complaints.note("", ClusterDownError("full"))
    assert caplog.messages == [
        "cluster west: Run a/b: away; trying again",
        "cluster west: Run a/b: refused; trying again",
        "cluster west: full; trying again",
    ]
    text = complaints.outage()
    assert text.startswith("since 2")
    assert "Run a/b, and 1 more: refused; Quorate tries again" in text
    complaints.settled("Run a/b")
    assert "the ledger: full" in complaints.outage()
    complaints.settled("")
    assert complaints.outage() == ""
