"""Chooses the system user that runs the work of an owner or of one of its users.

A template builds the name of the system user from the owner's name, and optionally from the user's
name. A map names system users one by one, and takes precedence over the template. Owners and users
choose their own names. So a template must not give them a system user that has another purpose, or
the system user of another owner.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

MAP_MAX: Final = 10_000
_TEMPLATE: Final = re.compile(
    r"(?P<before>[A-Za-z0-9._-]*)\{(?P<first>owner|user)\}"
    r"(?:(?P<between>[A-Za-z0-9._-]*)\{(?P<second>owner|user)\})?(?P<after>[A-Za-z0-9._-]*)"
)
_FIELDS: Final = ("template", "map")


class RunAsError(ValueError):
    """The setting ``run_as`` is wrong; the message has the fault and the required form."""


@dataclass(frozen=True, slots=True)
class RunAs:
    """The setting ``run_as``. ``accounts`` maps ``owner`` or ``owner/user`` to system users.

    The template or the map may be empty. Raises ``RunAsError`` if both are empty, or if the
    template is wrong.
    """

    template: str = ""
    accounts: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.template and not self.accounts:
            raise RunAsError("must have a template, a map, or both")
        if self.template:
            _check_template(self.template)

    def __str__(self) -> str:
        count = len(self.accounts)
        mapped = [f"a map of {count} owner{'s' if count > 1 else ''} and users"] if count else []
        return ", else ".join([*mapped, *filter(None, [self.template])])

    def account(self, owner: str, user: str) -> tuple[str, str]:
        """Return a run's system user, and the owner or user to whom this system user belongs.

        Raises ``RunAsError``.
        """
        own = f"{owner}/{user}"
        if user and own in self.accounts:
            return self.accounts[own], f"user {user} of owner {owner}"
        if owner in self.accounts:
            return self.accounts[owner], f"owner {owner}"
        if not self.template:
            raise RunAsError(
                f"owner {owner} has no system user on this machine; add one to the map of "
                f"executor.run_as"
            )
        return self._made(owner, user)

    def _made(self, owner: str, user: str) -> tuple[str, str]:
        found = _TEMPLATE.fullmatch(self.template)
        assert found is not None, "the template was checked before"
        if found["second"] is None:
            return self.template.format(owner=owner), f"owner {owner}"
        if found["between"] in owner:
            # Otherwise owner `a` with user `b-c` would get the system user of owner `a-b` with user
            # `c`.
            raise RunAsError(
                f"owner {owner} has {found['between']!r} in its name, which separates owner and "
                f"user in the template {self.template!r} of executor.run_as; add the owner to the "
                f"map there"
            )
        if not user:
            raise RunAsError(
                f"a run of owner {owner} has no user, and the template {self.template!r} of "
                "executor.run_as needs a user; submit the run with a user's access token"
            )
        return self.template.format(owner=owner, user=user), f"user {user} of owner {owner}"


def run_as(value: object) -> RunAs:
    """Return the parsed setting: a template, or a table with a template, a map, or both.

    Raises ``RunAsError``.
    """
    if isinstance(value, str):
        return RunAs(value)
    if not isinstance(value, dict) or not set(value) <= set(_FIELDS):
        raise RunAsError("must be a template like q-{owner}, or a table with template or map")
    template, accounts = value.get("template", ""), value.get("map", {})
    if not isinstance(template, str):
        raise RunAsError("template must be text like q-{owner}")
    if not isinstance(accounts, dict) or len(accounts) > MAP_MAX:
        raise RunAsError(f"map must be a table of at most {MAP_MAX} owners and users")
    return RunAs(template, {key: _account(key, each) for key, each in accounts.items()})


def _account(key: str, value: object) -> str:
    """Return a system user of the map: a name, or a user id."""
    if isinstance(value, int) and not isinstance(value, bool) and value > 0:
        return str(value)
    if isinstance(value, str) and value and value.isprintable():
        return value
    raise RunAsError(f"map.{key} must be the name or the number of a system user, not {value!r}")


def _check_template(text: str) -> None:
    found = _TEMPLATE.fullmatch(text)
    if found is None or "owner" not in (found["first"], found["second"]):
        raise RunAsError(
            "a template must contain {owner} once, and may contain {user}, as in q-{owner}; "
            "{user} alone is not enough, because two owners may have users of the same name"
        )
    if found["first"] == found["second"]:
        raise RunAsError("a template must contain {owner} and {user} exactly once each")
    if found["second"] is not None and not found["between"]:
        raise RunAsError("a template must have text between {owner} and {user}")
    if not found["before"] and not found["after"]:
        raise RunAsError(
            "a template must begin or end with fixed text, as in q-{owner}: otherwise an "
            "owner could choose the name of a system user that has another purpose"
        )
