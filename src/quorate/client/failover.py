"""Failover between several services of one ledger.

A request that never left this machine goes to the next service at once. After any other failure the
next request goes to the next service; the flow decides whether to send the request again
(``retrying.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from quorate.client.errors import QuorateClientError, UnreachableError, UntrustedError
from quorate.client.service_address import Place
from quorate.client.sync_runner import Opened, SyncRunner
from quorate.client.wire import Reply, Request

_AWAY: Final = (502, 503, 504)
"""Statuses after which the next request goes to another service."""


class ServiceRing:
    """Chooses one of several services, and after a failure the next service in a circle."""

    def __init__(self, services: int) -> None:
        self._services = services
        self.at = 0

    def after(self, reply: Reply) -> None:
        """Choose the next service if the status of ``reply`` says that this one is unavailable."""
        if reply.status in _AWAY:
            self._move()

    def goes_on(self, fault: QuorateClientError, tried: int) -> bool:
        """Choose the next service after ``fault``; return whether to ask that service at once.

        ``tried`` services have failed so far.
        """
        self._move()
        is_unsent = isinstance(fault, UnreachableError) and not fault.maybe_done
        return is_unsent and not isinstance(fault, UntrustedError) and tried < self._services

    def _move(self) -> None:
        self.at = (self.at + 1) % self._services


def runner_of(place: Place, make: Callable[[Place], SyncRunner]) -> SyncRunner:
    """Return the runner for the service, or the several services, at ``place``."""
    places = place.each()
    return make(place) if len(places) == 1 else FailoverRunner([make(each) for each in places])


class FailoverRunner(SyncRunner):
    """Runs flows with one of several drivers, and closes all of them."""

    def __init__(self, drivers: Sequence[SyncRunner]) -> None:
        self._drivers = drivers
        self._ring = ServiceRing(len(drivers))

    def send(self, request: Request) -> Reply:
        """Return the complete response to ``request`` of the first service that is reachable."""
        return self._asked(lambda driver: driver.send(request))

    def open(self, request: Request, opened: Opened) -> Reply:
        """Return the status and the headers of the response; ``opened`` then gives its body."""
        return self._asked(lambda driver: driver.open(request, opened))

    def fault_of(self, error: Exception) -> QuorateClientError | None:
        """Return the client error for ``error``; None if the request did not cause ``error``."""
        if isinstance(error, QuorateClientError):
            return error
        # The connection failed while the body was read: the next request goes to the next service.
        fault = self._drivers[self._ring.at].fault_of(error)
        if fault is not None:
            self._ring.goes_on(fault, 0)
        return fault

    def close(self) -> None:
        """Close all connections."""
        for driver in self._drivers:
            driver.close()

    def _asked(self, ask: Callable[[SyncRunner], Reply]) -> Reply:
        tried = 0
        while True:
            driver = self._drivers[self._ring.at]
            tried += 1
            try:
                reply = ask(driver)
            except Exception as error:
                fault = driver.fault_of(error)
                if fault is None:
                    raise
                if not self._ring.goes_on(fault, tried):
                    raise fault from error
                continue
            self._ring.after(reply)
            return reply
