"""An error as the end of a gRPC call: a status, a message, and details behind them."""

from __future__ import annotations

from typing import Final

import grpc

from quorate.operations.statuses import status_of
from quorate.service.grpc.grpc_codec import write_struct
from quorate.service.grpc.grpc_problem import cut, problem_of
from quorate.service.grpc.grpc_protocol import message_class
from quorate.views.exits import CommandError

DETAILS: Final = "grpc-status-details-bin"
"""Where clients of gRPC in every language look for details."""
MESSAGE_CHARS_MAX: Final = 300
"""How much of the first fault is the message: it is a header, too."""


def status_and_details(
    error: CommandError,
) -> tuple[grpc.StatusCode, str, tuple[tuple[str, bytes], ...]]:
    """Return the status code, the message and the trailing metadata for ``error``."""
    status = grpc.StatusCode[status_of(error.fault).grpc]
    message = cut(error.lines[0] if error.lines else error.fault, MESSAGE_CHARS_MAX)
    told = message_class("ErrorStatus")(code=status.value[0], message=message)
    told.details.add().Pack(write_struct(problem_of(error)))  # type: ignore[attr-defined]
    return status, message, ((DETAILS, told.SerializeToString()),)
