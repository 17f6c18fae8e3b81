"""The system users that a run may become."""

from __future__ import annotations

import pwd

import pytest

from quorate.keeper.system_users import ID_MAX, AccountError, account

ABSENT = 3_000_007


def test_a_number_needs_no_entry() -> None:
    found = account(str(ABSENT))
    assert (found.uid, found.gid, found.groups, found.name) == (ABSENT, ABSENT, (ABSENT,), "")
    assert str(found) == f"uid {ABSENT}"


def test_a_name_and_the_number_of_it_are_the_same_user() -> None:
    entry = next(each for each in pwd.getpwall() if each.pw_uid and each.pw_gid)
    found = account(entry.pw_name)
    assert (found.uid, found.gid, found.home) == (entry.pw_uid, entry.pw_gid, entry.pw_dir)
    assert found.gid in found.groups
    assert account(str(pwd.getpwnam(entry.pw_name).pw_uid)).uid == found.uid


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("root", "is root; name another user"),
        ("0", "is root; name another user"),
        ("no-such-user-here", "create it (useradd --system no-such-user-here)"),
        (str(ID_MAX + 1), "is not a user id"),
        ("9" * 5_000, "is not a user id"),
    ],
)
def test_what_no_run_may_become_is_refused(text: str, told: str) -> None:
    with pytest.raises(AccountError) as caught:
        account(text)
    assert told in str(caught.value)
