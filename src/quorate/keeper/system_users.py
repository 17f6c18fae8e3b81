"""Looks up the system user of a run's processes, anew at each start of the processes."""

from __future__ import annotations

import grp
import os
import pwd
from dataclasses import dataclass
from typing import Final

ID_MAX: Final = 2**32 - 2
"""The largest user id; the next number means "unchanged" to the kernel."""


class AccountError(Exception):
    """Runs may not use this system user; the error's text names the cause and the remedy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """A system user; ``name`` and ``home`` are empty if only the user's number is known."""

    uid: int
    gid: int
    groups: tuple[int, ...]
    name: str
    home: str
    login_shell: str

    def __str__(self) -> str:
        return f"{self.name} (uid {self.uid})" if self.name else f"uid {self.uid}"


def account(text: str) -> Account:
    """Return the system user with the name or number ``text``; a number needs no passwd entry.

    Raises ``AccountError`` for a user that does not exist, for root, which cannot be confined, and
    for a user in root's group.
    """
    found = _numbered(text) if is_number(text) else _named(text)
    if found.uid == 0:
        raise AccountError(f"system user {text!r} is root; name another user")
    if 0 in (found.gid, *found.groups):
        raise AccountError(
            f"system user {text!r} is in the group {_group_name(0)!r}; remove it from that group, "
            "or name another user"
        )
    return found


def is_number(text: str) -> bool:
    """Return whether a text is the number of a user, and not a name."""
    return text.isascii() and text.isdecimal()


def _named(name: str) -> Account:
    try:
        entry = pwd.getpwnam(name)
    except KeyError:
        raise AccountError(
            f"there is no system user {name!r}; create it (useradd --system {name}), or name "
            "another one in executor.run_as"
        ) from None
    return _entered(entry)


def _numbered(text: str) -> Account:
    if len(text) > len(str(ID_MAX)) or int(text) > ID_MAX:
        raise AccountError(f"{text} is not a user id; name an id up to {ID_MAX}")
    uid = int(text)
    try:
        return _entered(pwd.getpwuid(uid))
    except KeyError:
        # In a container, ids often have no entry. The group then has the number of the user, as
        # useradd would make it.
        return Account(uid=uid, gid=uid, groups=(uid,), name="", home="", login_shell="/bin/sh")


def _entered(entry: pwd.struct_passwd) -> Account:
    return Account(
        uid=entry.pw_uid,
        gid=entry.pw_gid,
        groups=tuple(os.getgrouplist(entry.pw_name, entry.pw_gid)),
        name=entry.pw_name,
        home=entry.pw_dir,
        login_shell=entry.pw_shell or "/bin/sh",
    )


def _group_name(gid: int) -> str:
    try:
        return grp.getgrgid(gid).gr_name
    except KeyError:
        return str(gid)
