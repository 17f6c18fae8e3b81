"""When a request is sent again, and how long to wait before: pure but for its dice."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Final

import msgspec
from msgspec import Struct

from quorate.client.errors import (
    BusyError,
    FailedError,
    NotQuorateError,
    QuorateClientError,
    TimedOutError,
    UnknownHostError,
    UnreachableError,
    UntrustedError,
)
from quorate.operations.operation import DRY_RUN, Operation, Repeat

TRIES_MAX: Final = 6
WAIT_S_MIN: Final = 0.2
WAIT_S_MAX: Final = 20.0
KEY_BYTES: Final = 16
GATEWAY: Final = (502, 503, 504)
"""Statuses of a proxy that could not reach the service."""
_KEY: Final = "idempotency_key"
_DICE_BITS: Final = 53


def _dice() -> float:
    """Return a number from 0 to 1, without the import of ``random``, which every command paid."""
    return (int.from_bytes(os.urandom(8), "big") >> 64 - _DICE_BITS) / (1 << _DICE_BITS)


class Retrying(Struct, frozen=True, kw_only=True):
    """``tries`` bounds how often a request is sent; ``dice`` gives a number from 0 to 1.

    A request that got no answer in time is sent again only where the caller ``waits_again``.
    """

    tries: int = TRIES_MAX
    waits_again: bool = True
    wait_s_min: float = WAIT_S_MIN
    wait_s_max: float = WAIT_S_MAX
    dice: Callable[[], float] = _dice

    def goes_on(self, failures: int, error: QuorateClientError) -> bool:
        """Return whether there is another try after so many failures, the last one ``error``."""
        is_late = isinstance(error, TimedOutError)
        return failures < self.tries and (self.waits_again or not is_late)

    def wait_s(self, failures: int, error: QuorateClientError) -> float:
        """Return how long to wait after so many failures in a row, the last one ``error``.

        Twice as long each time, up to a bound, and by chance down to half of it, so that many
        clients do not come back at once. Never sooner than the service asked for.
        """
        doubled_s = min(self.wait_s_max, self.wait_s_min * 2.0 ** min(failures - 1, 30))
        own_s = doubled_s * (0.5 + self.dice() / 2)
        asked_s = error.retry_after_s if isinstance(error, BusyError) else None
        return own_s if asked_s is None else max(own_s, asked_s)


def keyed(operation: Operation, asked: Struct) -> Struct:
    """Return ``asked`` with an idempotency key, where it needs one to be asked twice."""
    if operation.repeat is not Repeat.KEYED or getattr(asked, DRY_RUN, False):
        return asked
    if getattr(asked, _KEY) is not None:
        return asked
    return msgspec.structs.replace(asked, **{_KEY: os.urandom(KEY_BYTES).hex()})


def is_retried(operation: Operation, asked: Struct, error: QuorateClientError) -> bool:
    """Return whether asking again may help, and can do no harm.

    A request that never left this machine may always be sent again. One that may have succeeded is
    sent again where a repetition changes nothing: not with a version that the first one has
    changed.
    """
    match error:
        case UnknownHostError() | UntrustedError():
            return False
        case UnreachableError(maybe_done=False) | BusyError():
            return True
        case UnreachableError():
            return _is_harmless(operation, asked)
        case NotQuorateError() | FailedError():
            return error.status in GATEWAY and _is_harmless(operation, asked)
        case _:
            return False


def _is_harmless(operation: Operation, asked: Struct) -> bool:
    if getattr(asked, DRY_RUN, False) or getattr(asked, _KEY, None) is not None:
        return True
    is_same = operation.repeat in (Repeat.SAFE, Repeat.SAME)
    return is_same and getattr(asked, "if_match", None) is None
