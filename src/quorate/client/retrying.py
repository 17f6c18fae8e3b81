"""Decides whether and when a request is sent again. Pure, except for the random number."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Final

import msgspec
from msgspec import Struct

from quorate.client.errors import (
    BusyError,
    FailedError,
    ForbiddenError,
    NotQuorateError,
    QuorateClientError,
    RefusedError,
    TimedOutError,
    UnauthenticatedError,
    UncertainError,
    UnknownHostError,
    UnreachableError,
    UntrustedError,
)
from quorate.operations.operation import DRY_RUN, KEY, Effect, Operation, Repeat

TRIES_MAX: Final = 6
WAIT_S_MIN: Final = 0.2
WAIT_S_MAX: Final = 20.0
KEY_BYTES: Final = 16
GATEWAY: Final = (502, 503, 504)
"""Statuses of a proxy that could not reach the service."""
_UNDECIDED: Final = frozenset({"not-found", "method-not-allowed", "too-many-requests", "unsound"})
"""Refusals that do not depend on the state.

They do not show whether an earlier try was recorded.
"""
_DICE_BITS: Final = 53


def _dice() -> float:
    """Return a random number from 0 to 1. Importing ``random`` would slow down every command."""
    return (int.from_bytes(os.urandom(8), "big") >> 64 - _DICE_BITS) / (1 << _DICE_BITS)


class Retrying(Struct, frozen=True, kw_only=True):
    """The rules for the retries of a request, which is tried at most ``tries`` times.

    A request that timed out is sent again only if ``waits_again`` is true. ``dice`` returns a
    random number from 0 to 1.
    """

    tries: int = TRIES_MAX
    waits_again: bool = True
    wait_s_min: float = WAIT_S_MIN
    wait_s_max: float = WAIT_S_MAX
    dice: Callable[[], float] = _dice

    def goes_on(self, failures: int, error: QuorateClientError) -> bool:
        """Return whether to try again after ``failures`` failures; ``error`` is the last error."""
        is_late = isinstance(error, TimedOutError)
        return failures < self.tries and (self.waits_again or not is_late)

    def wait_s(self, failures: int, error: QuorateClientError) -> float:
        """Return the wait after ``failures`` failures in a row; ``error`` is the last error.

        The wait doubles each time, up to a limit. It is shortened at random, by half at most, so
        that clients do not retry all at once. If the service asked for a wait, the wait is at least
        as long as that.
        """
        doubled_s = min(self.wait_s_max, self.wait_s_min * 2.0 ** min(failures - 1, 30))
        own_s = doubled_s * (0.5 + self.dice() / 2)
        asked_s = error.retry_after_s if isinstance(error, BusyError) else None
        return own_s if asked_s is None else max(own_s, asked_s)


def keyed(operation: Operation, asked: Struct) -> Struct:
    """Return ``asked`` with an idempotency key, if a retry of the operation needs one."""
    if operation.repeat is not Repeat.KEYED or getattr(asked, DRY_RUN, False):
        return asked
    if getattr(asked, KEY) is not None:
        return asked
    return msgspec.structs.replace(asked, **{KEY: os.urandom(KEY_BYTES).hex()})


def is_retried(operation: Operation, asked: Struct, error: QuorateClientError) -> bool:
    """Return whether a retry may help, and is safe.

    A request that never left this machine may always be sent again. A request that may have
    succeeded is sent again only if a repetition changes nothing. So a request that requires a
    version is not sent again, because the first try may have changed the version.
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
    if getattr(asked, DRY_RUN, False) or getattr(asked, KEY, None) is not None:
        return True
    is_same = operation.repeat in (Repeat.SAFE, Repeat.SAME)
    return is_same and getattr(asked, "if_match", None) is None


def is_uncertain(operation: Operation, asked: Struct, error: QuorateClientError) -> bool:
    """Return whether the try that ended with ``error`` may have recorded something."""
    if operation.effect is not Effect.WRITE or getattr(asked, DRY_RUN, False):
        return False
    match error:
        case UnreachableError():
            return error.maybe_done
        case NotQuorateError():
            return error.status in GATEWAY
        case _:
            return isinstance(error, FailedError)


def conclusion(
    operation: Operation,
    asked: Struct,
    uncertain: QuorateClientError | None,
    last: QuorateClientError,
) -> QuorateClientError:
    """Return the error of a request that is not sent again.

    ``uncertain`` is the error of the first try that may have recorded something, ``last`` the error
    of the last try. If the ledger refused a later try, nothing was recorded. If a later try failed
    in another way, its text may say "nothing was recorded", but this is true of that try alone, and
    proves nothing about earlier tries.
    """
    if uncertain is None or (last is not uncertain and _is_decided(last)):
        return last
    return UncertainError(
        uncertain,
        last,
        idempotency_key=getattr(asked, KEY, None),
        is_repeatable=_is_harmless(operation, asked),
    )


def _is_decided(error: QuorateClientError) -> bool:
    """Return whether ``error`` shows that the ledger refused the request: no try was recorded."""
    undecided = BusyError | FailedError | UnauthenticatedError | ForbiddenError
    if not isinstance(error, RefusedError) or isinstance(error, undecided):
        return False
    return error.code not in _UNDECIDED
