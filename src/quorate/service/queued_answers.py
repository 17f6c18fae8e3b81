"""Converts queued requests and their results, and delivers responses to the event loop."""

from __future__ import annotations

import asyncio
from time import thread_time
from typing import Any

from quorate.core.decision_log import GoOn
from quorate.operations.answer_types import Answer
from quorate.operations.caller import Caller
from quorate.operations.group_commit import Asking
from quorate.operations.request_context import RequestContext
from quorate.service.reply import reply_of
from quorate.service.request_queue import QueuedRequest

Response = tuple["asyncio.Future[Any]", Any, BaseException | None]
"""The ``Future`` on which a caller waits, and the result or exception to set in it."""


def caller_of(queued: QueuedRequest) -> Caller:
    """Return the caller of a request."""
    assert queued.caller is not None, queued
    return queued.caller


def asking_of(context: RequestContext, queued: QueuedRequest) -> Asking:
    """Return ``queued`` in the form for requests that are decided together."""
    assert queued.operation is not None, queued
    assert queued.asked is not None, queued
    return Asking(context, queued.operation, queued.asked)


def response_of(queued: QueuedRequest, found: Answer | Exception) -> Response:
    """Return ``found`` in the requested form, or the error if that form cannot be made."""
    if isinstance(found, Exception):
        return queued.done, None, found
    assert queued.operation is not None, queued
    try:
        return queued.done, reply_of(found, queued.operation, queued.form), None
    except Exception as error:  # noqa: BLE001 - told to who asked, who is one of many
        return queued.done, None, error


def deliver(responses: list[Response]) -> None:
    """Set the results of the futures of ``responses``; runs in the event loop."""
    for done, found, error in responses:
        if done.done():
            continue  # The caller has disconnected.
        if error is None:
            done.set_result(found)
        else:
            done.set_exception(error)


def within_cpu(seconds: float) -> GoOn:
    """Return a function that is true until this thread has used ``seconds`` more CPU seconds."""
    end_s = thread_time() + seconds
    return lambda: thread_time() < end_s
