"""One gRPC call from start to end: counted, answered with its status, and logged."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from time import monotonic
from typing import Any, Final

import grpc

from quorate.operations.caller import Caller
from quorate.operations.operation import Effect
from quorate.service.grpc.grpc_codec import write_struct
from quorate.service.grpc.grpc_problem import cut, problem_of
from quorate.service.grpc.grpc_protocol import message_class
from quorate.service.grpc.grpc_schema import Method
from quorate.service.metrics.registry import Metrics, Request
from quorate.service.request_log import Handled, request_id_of
from quorate.views.exits import CommandError, Exit
from quorate.views.failures import as_command_error
from quorate.views.statuses import BUG, TIMED_OUT, http_status_of, status_of

_LOG = logging.getLogger(__name__)

AUTHORIZATION: Final = "authorization"
REQUEST_ID: Final = "x-request-id"
GRPC: Final = "GRPC"
"""The text that the log shows for a gRPC call in place of the HTTP method."""
DONE: Final = 200
DETAILS: Final = "grpc-status-details-bin"
"""The trailing metadata in which gRPC clients of every language look for details."""
MESSAGE_CHARS_MAX: Final = 300
"""The longest message of a status.

The message is the beginning of the first fault, and must be short because it is sent as a header.
"""
_GONE: Final = 499
"""A call whose caller disconnected is counted under this status, as in REST."""


Metadata = tuple[tuple[str, str | bytes], ...]


class LeaderRefusedError(Exception):
    """The leader has refused a forwarded command; the caller gets the same refusal."""

    def __init__(self, code: grpc.StatusCode, text: str, details: Metadata) -> None:
        super().__init__(text)
        self.code = code
        self.text = text
        self.details = details


@dataclass(frozen=True, slots=True)
class Call:
    """A call that is being answered."""

    method: Method
    context: Any
    counted: Request
    handled: Handled

    def admitted(self, caller: Caller) -> None:
        """Record the caller."""
        self.handled.caller = caller.shown

    def metadata(self, name: str) -> list[str]:
        """Return the metadata that the caller sent under ``name``."""
        return _sent(self.context, name)

    def authorization(self) -> str | None:
        """Return the caller's credentials; raises ``CommandError`` if they are sent twice."""
        sent = self.metadata(AUTHORIZATION)
        if len(sent) > 1:
            raise CommandError(
                Exit.REFUSED, f"{AUTHORIZATION}: is given more than once", fault="unauthenticated"
            )
        return sent[0] if sent else None

    def address(self) -> str:
        """Return the caller's address, without its port: ``ipv4:127.0.0.1``."""
        address, _, _ = str(self.context.peer()).rpartition(":")
        return address


def _sent(context: Any, name: str) -> list[str]:
    return [str(value) for key, value in context.invocation_metadata() if key == name]


@contextmanager
def called(metrics: Metrics, method: Method, context: Any) -> Iterator[Call]:
    """Yield a call while it is answered; count and log it when it ends."""
    request_id = request_id_of("".join(_sent(context, REQUEST_ID)))
    handled = Handled(
        request_id=request_id,
        method=GRPC,
        path=method.path,
        operation=method.operation.name,
        began_s=monotonic(),
    )
    with metrics.request("grpc", method.operation.name) as counted:
        try:
            yield Call(method, context, counted, handled)
        finally:
            handled.status = counted.status
            handled.took_s = monotonic() - handled.began_s
            _LOG.info("request", extra={"handled": handled})


async def told(call: Call, do: Callable[[], Awaitable[bytes | None]]) -> bytes | None:
    """Return the result of ``do``; if ``do`` raises, end the call with the error.

    This is the outermost frame of a call, so that no failure of a call ends the service.
    """
    counted = call.counted
    try:
        done = await do()
    except asyncio.CancelledError:
        if counted.answered_s is None:
            counted.status = _GONE
        raise
    except TimeoutError:
        error = _timed_out(call.method)
    except LeaderRefusedError as refusal:
        counted.status = http_status_of(refusal.code.name)
        await call.context.abort(refusal.code, refusal.text, refusal.details)
        raise AssertionError("abort raises") from refusal
    except Exception as raised:  # noqa: BLE001 - the outermost frame of a call
        error = as_command_error(raised) or _bug(call, raised)
    else:
        counted.status = DONE
        return done
    counted.status = status_of(error.fault).http
    status, message, details = status_and_details(error)
    await call.context.abort(status, message, (*details, *call.handled.said))
    raise AssertionError("abort raises")


def _timed_out(method: Method) -> CommandError:
    name = method.operation.name
    if method.operation.effect is Effect.WRITE:
        text = (
            f"{name}: no answer in time; the command may still be recorded: check before you "
            "repeat it"
        )
    else:
        text = f"{name}: no answer in time; request less, or set a later deadline"
    return CommandError(Exit.UNUSABLE, text, fault=TIMED_OUT)


def _bug(call: Call, error: Exception) -> CommandError:
    name, request_id = call.method.operation.name, call.handled.request_id
    _LOG.error("request %s failed: this is a bug in Quorate", request_id, exc_info=error)
    return CommandError(
        Exit.UNUSABLE,
        f"{name}: request {request_id} failed because of a bug in Quorate; see the log of the "
        f"service",
        fault=BUG,
    )


def status_and_details(
    error: CommandError,
) -> tuple[grpc.StatusCode, str, tuple[tuple[str, bytes], ...]]:
    """Return the status code, the message and the trailing metadata for ``error``."""
    status = grpc.StatusCode[status_of(error.fault).grpc]
    message = cut(error.lines[0] if error.lines else error.fault, MESSAGE_CHARS_MAX)
    told = message_class("ErrorStatus")(code=status.value[0], message=message)
    told.details.add().Pack(write_struct(problem_of(error)))  # type: ignore[attr-defined]
    return status, message, ((DETAILS, told.SerializeToString()),)
