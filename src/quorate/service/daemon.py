"""The daemon: opens the ledger, listens, and ends cleanly on a signal.

The daemon holds the ledger's lock as long as it runs. Every acknowledged command is durable, so the
daemon may be killed at any instant: the next start continues from the ledger.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from threading import current_thread, main_thread
from typing import TYPE_CHECKING, Final

import uvicorn

from quorate.adapters.clock_guard import ClockGuard
from quorate.adapters.clock_system import SystemClock
from quorate.adapters.report_folder import ReportFolder
from quorate.adapters.stores.store_urls import (
    check_store_writable,
    has_leader,
    ledger_path,
    open_store,
    read_pages,
)
from quorate.loop.engine import Engine
from quorate.operations.caller import Caller
from quorate.operations.request_context import BesideLedger, Signer
from quorate.ports.clock_port import Clock, SteadyClock
from quorate.ports.executor_port import ServedExecutor
from quorate.service.accounting.accounting_link import record_news
from quorate.service.auth.authenticator import Authenticator, Trust, holder_of
from quorate.service.auth.code_sign_in import CodeSignIn
from quorate.service.config import Configuration
from quorate.service.config_values import Address
from quorate.service.descriptors import connections_within
from quorate.service.executor_choice import (
    check_job_users,
    check_kept,
    make_executor,
    make_logs,
    warn_of_root,
)
from quorate.service.http.accepting import Connections
from quorate.service.http.body_reader import BodyReader
from quorate.service.http.connection import GuardedProtocol
from quorate.service.http.event_stream import WatchRegistry
from quorate.service.http.guarded_server import GuardedServer
from quorate.service.http.listening import BACKLOG, bind, check_tls
from quorate.service.http.request_guard import Guard, Limits
from quorate.service.http.rest import Parts, application
from quorate.service.http.shedding import Shedding
from quorate.service.ledger_thread import LedgerThread
from quorate.service.limits.loop_rests import SWITCH_S
from quorate.service.metrics.registry import service_metrics
from quorate.service.opening import OpenStore, first_token, open_ledger
from quorate.service.quorum.advertising import GRPC_SCHEME, candidate_address
from quorate.service.quorum.leader_parts import Part, while_leading
from quorate.service.quorum.leader_role import ExecutorSupply
from quorate.service.receivers.notice_sink import Receiver
from quorate.service.receivers.receiver_threads import (
    mail_receivers,
    receivers_served,
    webhook_receivers,
)
from quorate.service.violations import guarded
from quorate.views.exits import CommandError, Exit

if TYPE_CHECKING:
    from quorate.service.quorum.http_forward import HttpForward

_LOG = logging.getLogger(__name__)

KEEP_ALIVE_S: Final = 75
_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)
ELECTED_S: Final = 15.0
"""How long a starting service waits until it leads itself or another service leads.

The time is several durations of a leader's lease.
"""

Surface = Callable[[LedgerThread, Authenticator], AsyncIterator[str]]
"""A part of the daemon besides REST: a context manager that yields the part's description."""


@dataclass(slots=True, kw_only=True)
class Extras:
    """Additions to the daemon: further surfaces, and replacements for its default parts.

    ``signer`` signs with the ledger's key. ``surfaces`` are entered when the ledger is open, and
    left before the ledger is closed; ``leader_surfaces`` are active while this service leads.
    ``open_store`` opens the ledger; ``clock`` is the clock of all parts; ``make_executor`` makes
    the executor.
    """

    signer: Signer | None = None
    open_store: OpenStore = open_store
    clock: Clock = field(default_factory=SystemClock)
    make_executor: Callable[[Configuration, Clock], ServedExecutor | None] = make_executor
    surfaces: Sequence[Surface] = field(default_factory=tuple)
    leader_surfaces: Sequence[Surface] = field(default_factory=tuple)


def _guard(clock: Clock, path: Path) -> ClockGuard | None:
    """Return the guard of ``clock``; None if a caller controls the time of ``clock``."""
    return ClockGuard(clock, path) if isinstance(clock, SteadyClock) else None


def _first_token(engine: Engine) -> str | None:
    """Return the first access token, if one is needed and the ledger accepts writes."""
    return None if engine.stopped else first_token(engine)


def _admitted(ledger_thread: LedgerThread, tell: Callable[[str], None]) -> Part:
    """Return a leader's part that passes the first access token to ``tell``, if one is needed.

    A service that leads when it starts may lose the leadership before its token is recorded. In
    that case the next leader issues the first token.
    """

    @asynccontextmanager
    async def admitted() -> AsyncIterator[None]:
        token = await ledger_thread.run(_first_token)
        if token is not None:
            tell(token)
        yield

    return admitted


def _trust(configuration: Configuration, clock: Clock) -> Trust | None:
    """Return the verifier for tokens of the configured OIDC issuer; None if there is none."""
    if configuration.oidc is None:
        return None
    from quorate.service.auth.oidc import OidcTrust  # noqa: PLC0415 - slow import

    return OidcTrust(configuration.oidc, clock)


def _reports(configuration: Configuration) -> ReportFolder | None:
    """Return the reports that users may read; None if no folder is configured."""
    folder = configuration.reports_folder
    return ReportFolder(folder) if folder else None


def _code_sign_in(configuration: Configuration, clock: Clock) -> CodeSignIn | None:
    """Return the client for signing in at the issuer; None if sign-in is not configured."""
    if configuration.oidc is None or configuration.oidc_client is None:
        return None
    return CodeSignIn(configuration.oidc, configuration.oidc_client, clock)


class Daemon:
    """One ledger, served as ``configuration`` says."""

    def __init__(self, configuration: Configuration, extras: Extras | None = None) -> None:
        self._configuration = configuration
        self._extras = extras or Extras()
        self._guard = _guard(self._extras.clock, ledger_path(configuration.ledger))
        self._clock: Clock = self._guard or self._extras.clock
        self._server: _Server | None = None
        self.address: Address | None = None

    def stop(self) -> None:
        """Stop the service as a signal would. Any thread may call this."""
        if self._server is not None:
            self._server.should_exit = True

    async def run(self, tell: Callable[[Address, str | None], None]) -> None:
        """Serve until stopped; ``tell`` gets the address and the first access token, if any.

        If services elect a leader, ``tell`` gets the token later, from the first leader.
        """
        configuration = self._configuration
        sys.setswitchinterval(SWITCH_S)
        check_tls(configuration)
        check_job_users(configuration)
        warn_of_root(configuration)
        check_kept(configuration)
        receivers = [
            *webhook_receivers(configuration.webhooks),
            *mail_receivers(configuration.mail_server, configuration.mail_receivers),
        ]
        listening = await bind(configuration.listen)
        url, path = configuration.ledger, ledger_path(configuration.ledger)
        guard, clock = self._guard, self._clock
        supply: ExecutorSupply | None = None
        executor: ServedExecutor | None = None
        if has_leader(url):
            supply = ExecutorSupply(lambda: self._extras.make_executor(configuration, clock))
        else:
            executor = self._extras.make_executor(configuration, clock)
        ledger_thread = LedgerThread(
            lambda: guarded(
                open_ledger(url, executor, self._extras.open_store, clock), path, guard
            ),
            beside=BesideLedger(
                name=configuration.ledger,
                signer=self._extras.signer,
                logs=make_logs(configuration),
                reports=_reports(configuration),
                mail_domains=configuration.run_mail_domains,
            ),
            executor=executor,
            supply=supply,
            metrics=service_metrics(path),
            clock=clock,
            clock_guard=guard,
            reading=lambda: read_pages(url),
            ledger=url,
            check_writable=lambda: check_store_writable(url),
            bodies=BodyReader(
                memory_bytes_max=configuration.body_memory_bytes_max,
                body_bytes_max=configuration.body_bytes_max,
            ),
        )
        async with AsyncExitStack() as stack:
            stack.callback(listening.close)
            if executor is not None:
                executor.listen(ledger_thread.nudge)
                stack.callback(executor.close)
            await ledger_thread.start()
            stack.push_async_callback(ledger_thread.stop)
            host, port = listening.getsockname()[:2]
            self.address = Address(host=host, port=port)
            watchers = WatchRegistry(ledger_thread, configuration.heartbeat_s)
            authenticator = Authenticator(ledger_thread.token, clock, _trust(configuration, clock))
            forward: HttpForward | None = None
            if supply is not None:
                # This imports httpx, which only a service that shares its ledger needs.
                from quorate.service.quorum.http_forward import http_forward  # noqa: PLC0415

                forward = await stack.enter_async_context(
                    http_forward(ledger_thread, configuration.quorum_ca)
                )
            self._server = self._http(ledger_thread, authenticator, watchers, forward)
            grpc = ""
            for surface in self._extras.surfaces:
                where = await stack.enter_async_context(
                    asynccontextmanager(surface)(ledger_thread, authenticator)
                )
                grpc = grpc or where.removeprefix(GRPC_SCHEME) * where.startswith(GRPC_SCHEME)
                _LOG.info("beside REST: %s", where)
            parts = self._leader_parts(ledger_thread, authenticator, receivers)
            if supply is not None:
                own = candidate_address(configuration, self.address, grpc)
                await ledger_thread.stand(own, ELECTED_S)
            token = None if supply is not None else await ledger_thread.run(_first_token)
            for part in parts:
                await stack.enter_async_context(while_leading(ledger_thread, part))
            _LOG.info("serving %s at %s", configuration.ledger, self.address)
            tell(self.address, token)
            if supply is not None:
                await stack.enter_async_context(
                    while_leading(
                        ledger_thread, _admitted(ledger_thread, partial(tell, self.address))
                    )
                )
            await self._serve(self._server, listening, ledger_thread)
        _LOG.info("stopped; the ledger is closed")

    def _leader_parts(
        self,
        ledger_thread: LedgerThread,
        authenticator: Authenticator,
        receivers: Sequence[Receiver],
    ) -> list[Part]:
        """Return the parts that run only while this service leads."""
        configuration, extras = self._configuration, self._extras

        @asynccontextmanager
        async def news() -> AsyncIterator[None]:
            if not configuration.waldur_links and not ledger_thread.trouble:
                # No owner is linked, so no link runs. Therefore it is recorded here that owners
                # linked earlier use the ledger's own figures again.
                await ledger_thread.run(lambda engine: record_news(engine, (), {}))
            yield

        def entered(surface: Surface) -> Part:
            return lambda: asynccontextmanager(surface)(ledger_thread, authenticator)

        return [
            lambda: receivers_served(receivers, ledger_thread, configuration.ledger, self._clock),
            news,
            *map(entered, extras.leader_surfaces),
        ]

    async def _serve(
        self, server: _Server, listening: socket.socket, ledger_thread: LedgerThread
    ) -> None:
        """Answer requests until stopped; raises ``CommandError`` if the ledger thread has ended."""
        ending = asyncio.ensure_future(ledger_thread.ended.wait())
        ending.add_done_callback(lambda _: self.stop())
        try:
            await server.serve(sockets=[listening])
            has_died = ending.done() and not ending.cancelled()
        finally:
            ending.cancel()
        if has_died:
            raise CommandError(Exit.UNUSABLE, "a bug ended the ledger thread; see the log")

    def _http(
        self,
        ledger_thread: LedgerThread,
        authenticator: Authenticator,
        watchers: WatchRegistry,
        forward: HttpForward | None,
    ) -> _Server:
        configuration = self._configuration
        parts = Parts(
            ledger_thread=ledger_thread,
            authenticator=authenticator,
            requests_per_s_max=configuration.requests_per_s_max,
            concurrent_max=configuration.concurrent_max,
            watchers=watchers,
            has_public_metrics=configuration.metrics_public,
            code_sign_in=_code_sign_in(configuration, self._clock),
            forward=forward,
        )
        limits = Limits(
            body_bytes_max=configuration.body_bytes_max,
            header_bytes_max=configuration.header_bytes_max,
            concurrent_max=configuration.concurrent_max,
            slow_s_max=configuration.slow_s_max,
        )
        config = uvicorn.Config(
            Guard(application(parts), limits, ledger_thread.metrics),
            http=_protocol(configuration, ledger_thread),
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            backlog=BACKLOG,
            timeout_keep_alive=KEEP_ALIVE_S,
            timeout_graceful_shutdown=max(1, round(configuration.stop_s_max)),
            ssl_certfile=configuration.tls_cert or None,
            ssl_keyfile=configuration.tls_key or None,
        )
        surfaces = 1 + len(self._extras.surfaces) + len(self._extras.leader_surfaces)
        connections = connections_within(configuration.connections_max, surfaces)
        ledger_thread.connections = Connections(connections)
        watchers.fit(connections)
        return _Server(config, watchers, ledger_thread.connections, configuration.slow_s_max)


class _Server(GuardedServer):
    """A server that closes the connections of watchers when it stops, because watches never end."""

    def __init__(
        self,
        config: uvicorn.Config,
        watchers: WatchRegistry,
        connections: Connections,
        handshake_s_max: float,
    ) -> None:
        super().__init__(config, connections, handshake_s_max)
        self._watchers = watchers

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Stop on a signal; raise nothing, because the ledger must still be closed."""
        if current_thread() is not main_thread():
            yield
            return
        loop = asyncio.get_running_loop()
        for number in _SIGNALS:
            loop.add_signal_handler(number, self.handle_exit, number, None)
        try:
            yield
        finally:
            for number in _SIGNALS:
                loop.remove_signal_handler(number)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Accept no more connections, and let the open connections finish."""
        _LOG.info("stopping: accepting no more requests, and finishing those under way")
        self._watchers.close()
        await super().shutdown(sockets)


def _protocol(configuration: Configuration, ledger_thread: LedgerThread) -> type[GuardedProtocol]:
    """Return the protocol with the configured limits."""

    def holder(token: str) -> Caller | None:
        record = ledger_thread.token(token)
        return None if record is None else holder_of(record)

    return type(
        "ConfiguredProtocol",
        (GuardedProtocol,),
        {
            "header_bytes_max": configuration.header_bytes_max,
            "slow_s_max": configuration.slow_s_max,
            "shedding": Shedding(ledger_thread.admission, holder),
        },
    )
