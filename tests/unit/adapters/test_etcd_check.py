"""The checks of an etcd before a ledger is created in it."""

from __future__ import annotations

from pathlib import Path

import pytest

from quorate.adapters.etcd.etcd_address import parse_address
from quorate.adapters.etcd.etcd_client import MemberStatus
from quorate.adapters.stores.etcd_check import cautions_of, faults_of

THREE = "//a:1,b:1,c:1/fleet"


def member(
    endpoint: str, number: int, *, version: str = "3.5.16", cluster: int = 7, trouble: str = ""
) -> MemberStatus:
    return MemberStatus(
        endpoint=endpoint,
        cluster=cluster,
        member=number,
        version=version,
        revision=1,
        bytes_taken=0,
        bytes_used=0,
        troubles=(trouble,) if trouble else (),
    )


def test_three_sound_members_of_one_etcd_have_no_fault() -> None:
    assert faults_of([member("a:1", 1), member("b:1", 2), member("c:1", 3)]) == []


@pytest.mark.parametrize(
    ("version", "is_sound"),
    [
        *(("3.3.27", False), ("3.4.21", False), ("3.4.22", True), ("3.5.5", False)),
        *(("3.5.6", True), ("3.6.0", True), ("4.0.0", True), ("", False)),
    ],
)
def test_a_version_that_may_lose_consistency_is_a_fault(version: str, *, is_sound: bool) -> None:
    found = faults_of([member("a:1", 1, version=version)])
    assert (found == []) == is_sound
    assert is_sound or "a:1 runs etcd" in found[0]


def test_all_faults_are_told_together() -> None:
    found = faults_of(
        [
            member("a:1", 1, trouble="memberID:1 alarm:NOSPACE "),
            member("b:1", 1),
            member("c:1", 3, cluster=8),
        ]
    )
    assert found == [
        "a:1 reports: memberID:1 alarm:NOSPACE ",
        "a:1 and b:1 are the same member; name it only once",
        "a:1 and c:1 belong to two etcd clusters",
        "b:1 and c:1 belong to two etcd clusters",
    ]


def test_what_a_cluster_would_not_survive_is_said(tmp_path: Path) -> None:
    few, own = cautions_of(parse_address(f"//a:1,b:1/fleet?local={tmp_path / 'fleet'}"))
    assert "2 members of etcd" in few
    assert str(tmp_path / "fleet.segments") in own
    assert cautions_of(parse_address(f"{THREE}?archive=/srv/quorate")) == []
