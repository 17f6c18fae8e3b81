"""Several services of one ledger as one: a request goes to the next where one is away.

A request that never left this machine is sent to the next service at once. After any other failure
the next one is asked the next time; whether there is one is decided by the flow (``retrying.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from quorate.client.errors import QuorateClientError, UnreachableError, UntrustedError
from quorate.client.service_address import Place
from quorate.client.sync_runner import Opened, SyncRunner
from quorate.client.wire import Reply, Request

_AWAY: Final = (502, 503, 504)
"""Statuses after which another service may do better."""


class Turns:
    """Whose turn it is among ``services`` that are asked in a ring."""

    def __init__(self, services: int) -> None:
        self._services = services
        self.at = 0

    def after(self, reply: Reply) -> None:
        """Note what one has answered: where it could not do it, it is another's turn."""
        if reply.status in _AWAY:
            self._move()

    def goes_on(self, fault: QuorateClientError, tried: int) -> bool:
        """Note that one has failed; return whether the next is asked at once, ``tried`` so far."""
        self._move()
        is_unsent = isinstance(fault, UnreachableError) and not fault.maybe_done
        return is_unsent and not isinstance(fault, UntrustedError) and tried < self._services

    def _move(self) -> None:
        self.at = (self.at + 1) % self._services


def runner_of(place: Place, make: Callable[[Place], SyncRunner]) -> SyncRunner:
    """Return what carries requests to the service at ``place``, or to one of several there."""
    places = place.each()
    return make(place) if len(places) == 1 else FailoverRunner([make(each) for each in places])


class FailoverRunner(SyncRunner):
    """Carries out flows by one of several drivers, which this one closes."""

    def __init__(self, drivers: Sequence[SyncRunner]) -> None:
        self._drivers = drivers
        self._turns = Turns(len(drivers))

    def send(self, request: Request) -> Reply:
        """Return the whole answer to ``request``, of the first service that can be reached."""
        return self._asked(lambda driver: driver.send(request))

    def open(self, request: Request, opened: Opened) -> Reply:
        """Return the head of the answer to ``request``, whose body ``opened`` then has."""
        return self._asked(lambda driver: driver.open(request, opened))

    def fault_of(self, error: Exception) -> QuorateClientError | None:
        """Return the client error for ``error``; None where the request did not cause it."""
        if isinstance(error, QuorateClientError):
            return error
        # In the middle of an answer that was opened: the next time another one is asked.
        fault = self._drivers[self._turns.at].fault_of(error)
        if fault is not None:
            self._turns.goes_on(fault, 0)
        return fault

    def close(self) -> None:
        """Close all connections."""
        for driver in self._drivers:
            driver.close()

    def _asked(self, ask: Callable[[SyncRunner], Reply]) -> Reply:
        tried = 0
        while True:
            driver = self._drivers[self._turns.at]
            tried += 1
            try:
                reply = ask(driver)
            except Exception as error:
                fault = driver.fault_of(error)
                if fault is None:
                    raise
                if not self._turns.goes_on(fault, tried):
                    raise fault from error
                continue
            self._turns.after(reply)
            return reply
