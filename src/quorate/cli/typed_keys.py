"""The idempotency keys of a command's requests, from ``--idempotency-key`` or new."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Final

import click
from msgspec import Struct
from msgspec.structs import replace

from quorate.cli.settings import Settings
from quorate.operations.operation import DRY_RUN, KEY, Effect, Operation, Repeat
from quorate.views.exits import KEY_OPTION

_KEY_BYTES: Final = 16


def new_key() -> str:
    """Return a random key."""
    return os.urandom(_KEY_BYTES).hex()


def with_keys(
    settings: Settings, operation: Operation, questions: Sequence[Struct]
) -> tuple[list[Struct], str | None]:
    """Return ``questions`` with their keys, and the key with which the command can be repeated.

    The key is the value of ``--idempotency-key``. Without this option, the key is new for a
    service, and None for a ledger's file. If there are several requests, each has this key followed
    by the request's number. A dry run gets no key. An operation whose repetition changes nothing
    gets no key, either. Raises ``UsageError`` if the option is given for a command that cannot be
    repeated under a key.
    """
    typed = settings.idempotency_key()
    if typed is not None and operation.repeat is Repeat.ANEW:
        raise click.UsageError(f"{KEY_OPTION}: this command cannot be repeated under a key")
    is_keyed = operation.effect is Effect.WRITE and operation.repeat is Repeat.KEYED
    if not is_keyed or getattr(questions[0], DRY_RUN, False):
        return [*questions], None
    if typed is None and settings.service() is None:
        return [*questions], None
    key = new_key() if typed is None else typed
    if len(questions) == 1:
        return [replace(questions[0], **{KEY: key})], key
    numbered = enumerate(questions, 1)
    return [replace(each, **{KEY: f"{key}.{number}"}) for number, each in numbered], key
