"""The operator in the daemon: one for each cluster whose custom resources are followed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from threading import Lock

from quorate.adapters.kubernetes.cluster_owner import ClusterOwner
from quorate.adapters.kubernetes.object_names import object_name
from quorate.service.auth.authenticator import Authenticator
from quorate.service.config import Configuration
from quorate.service.config_values import Clusters
from quorate.service.custom_resources.resource_operator import OperatorRules, ResourceOperator
from quorate.service.executor_choice import cluster_apis
from quorate.service.ledger_thread import LedgerThread


def resources_surface(
    made: Configuration,
) -> Callable[[LedgerThread, Authenticator], AsyncIterator[str]]:
    """Return a context manager that runs the operators while the service runs."""
    assert isinstance(made.clusters, Clusters), "only called if there are clusters"
    clusters, named = made.clusters, made.kubernetes_resources.split(",")

    async def surface(
        ledger_thread: LedgerThread, authenticator: Authenticator
    ) -> AsyncIterator[str]:
        del authenticator
        ledger_id = await ledger_thread.run(lambda engine: engine.view.ledger_id)
        operators = []
        for name, api in cluster_apis(clusters).items():
            if name not in named:
                api.close()
                continue
            rules = OperatorRules(
                cluster=name, template=made.kubernetes_namespace, ledger=object_name(ledger_id)
            )
            operator = ResourceOperator(ledger_thread, rules, api)
            home = ClusterOwner(api, made.kubernetes_home, name)
            operator.start(before=_check_of(home, ledger_id))
            operators.append(operator)
            ledger_thread.outage_sources.append(operator.outages)
            ledger_thread.work_listeners.append(operator.changed)
        try:
            yield f"the custom resources of {', '.join(named)} are followed"
        finally:
            for operator in operators:
                ledger_thread.outage_sources.remove(operator.outages)
                ledger_thread.work_listeners.remove(operator.changed)
            await asyncio.gather(*(each.stop() for each in operators))

    return surface


def _check_of(home: ClusterOwner, ledger_id: str) -> Callable[[], None]:
    """Return the check that a cluster belongs to this ledger; several watches may call it."""
    lock = Lock()

    def check() -> None:
        with lock:
            home.check(ledger_id)

    return check
