"""Reads the daemon's configuration file: the settings by key, and their faults."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from quorate.operations.caller import Role
from quorate.service.accounting.waldur_links import LINKS_KEY
from quorate.service.setting_table import SETTINGS
from quorate.views.exits import CommandError, Exit

FILE_BYTES_MAX: Final = 1024 * 1024
WEBHOOKS_KEY: Final = "webhooks"
MAIL_RECEIVERS_KEY: Final = "mail.receivers"
_ROLES_KEY: Final = "oidc.roles"
_EXECUTOR_KIND: Final = "executor.kind"
"""TOML cannot have a value and a table ``executor``; with the table, this key is the value."""


def settings_in_file(file: str | None) -> tuple[dict[str, object], dict[str, str], list[str]]:
    """Return the settings in ``file`` by key, the mapping of roles, and the faults.

    Raises ``CommandError`` if the file cannot be read as TOML.
    """
    if file is None:
        return {}, {}, []
    try:
        with Path(file).open("rb") as opened:
            data = opened.read(FILE_BYTES_MAX + 1)
        tree = tomllib.loads(data.decode("utf-8"))
    except OSError as error:
        raise CommandError(
            Exit.UNUSABLE,
            f"{file}: cannot be read: {error.strerror}; correct --config or QUORATE_SERVE_CONFIG",
        ) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise CommandError(Exit.INVALID, f"{file}: is not TOML: {error}") from None
    if len(data) > FILE_BYTES_MAX:
        raise CommandError(Exit.INVALID, f"{file}: is larger than {FILE_BYTES_MAX} bytes")
    flat = dict(_flattened(tree))
    if _EXECUTOR_KIND in flat:
        flat["executor"] = flat.pop(_EXECUTOR_KIND)
    roles = flat.pop(_ROLES_KEY, {})
    known = {WEBHOOKS_KEY, MAIL_RECEIVERS_KEY, LINKS_KEY, *(setting.key for setting in SETTINGS)}
    wrong = [
        f"{file}: {key}: is not a setting; see docs/reference/configuration.md"
        for key in flat
        if key not in known
    ]
    words = {role.value for role in Role}
    if not isinstance(roles, dict) or not set(map(str, roles.values())) <= words:
        wrong.append(f"{file}: {_ROLES_KEY}: must map words to {', '.join(sorted(words))}")
        roles = {}
    return flat, {str(key): str(value) for key, value in roles.items()}, wrong


def _flattened(tree: Mapping[str, object]) -> list[tuple[str, object]]:
    found: list[tuple[str, object]] = []
    for key, value in tree.items():
        if not isinstance(value, dict):
            found.append((key, value))
            continue
        found += [(f"{key}.{below}", each) for below, each in value.items()]
    return found
