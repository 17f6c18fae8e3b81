"""Makes the configured executor, and checks it before the service listens."""

from __future__ import annotations

import logging
import os
import stat
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from quorate.adapters.executors.exec_local import LocalExecutor
from quorate.adapters.executors.executors_by_pool import OWN, ExecutorsByPool, NoExecutor
from quorate.adapters.executors.keepers import kept_runs, work_folder
from quorate.adapters.executors.local_isolation import JobUsers, faults_of
from quorate.adapters.executors.logs_local import LocalLogs
from quorate.adapters.run_as import RunAs
from quorate.adapters.stores.store_urls import ledger_path
from quorate.model.specs import PoolExecutor
from quorate.ports.clock_port import Clock
from quorate.ports.errors import ClusterAccessError
from quorate.ports.executor_port import ServedExecutor
from quorate.ports.log_port import Logs
from quorate.service.config import Configuration
from quorate.service.config_values import Clusters
from quorate.service.simulated_room import SimulatedRoom
from quorate.views.exits import CommandError, Exit

if TYPE_CHECKING:
    from quorate.adapters.kubernetes.kube_api import KubeApi

_LOG = logging.getLogger(__name__)

_SUFFIXES: Final = ("", "-wal", "-shm", "-journal")
"""The suffixes of the files that SQLite keeps beside the ledger."""
IN_CLUSTER: Final = "in-cluster"
"""The value used instead of a kubeconfig if the service runs in the cluster itself."""
_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO


def make_executor(configuration: Configuration, clock: Clock) -> ServedExecutor | None:
    """Return the executor; None if this service runs no work.

    Pools choose among ``local`` and the configured clusters. A simulated executor runs the work of
    all pools. Raises ``CommandError`` if a kubeconfig cannot be used.
    """
    if configuration.executor == "simulated":
        return SimulatedRoom(clock)
    executors: dict[str, ServedExecutor] = {}
    if configuration.executor == "local":
        own = LocalExecutor(_work_folder(configuration), _job_users(configuration))
        executors = {OWN: own, PoolExecutor.LOCAL: own}
    if isinstance(configuration.clusters, Clusters):
        executors.setdefault(OWN, NoExecutor())
        executors |= _in_clusters(configuration, configuration.clusters)
    return ExecutorsByPool(executors) if executors else None


def _in_clusters(configuration: Configuration, clusters: Clusters) -> dict[str, ServedExecutor]:
    """Return the executor of each cluster, by the name that pools use for it."""
    from quorate.adapters.kubernetes.exec_kubernetes import (  # noqa: PLC0415 - only with clusters
        KubernetesExecutor,
    )
    from quorate.adapters.kubernetes.object_names import Namespaces  # noqa: PLC0415 - as above

    namespaces = Namespaces(
        template=configuration.kubernetes_namespace, home=configuration.kubernetes_home
    )
    tolerated = configuration.tolerated_taint_keys
    return {
        f"{PoolExecutor.KUBERNETES}/{name}": KubernetesExecutor(
            api,
            namespaces,
            cluster=name,
            tolerated=tolerated,
            pods_ready_s=configuration.pods_ready_s,
        )
        for name, api in cluster_apis(clusters).items()
    }


def cluster_apis(clusters: Clusters) -> dict[str, KubeApi]:
    """Return a connection to each cluster, by the cluster's name; the caller closes them all.

    Raises ``CommandError`` if a kubeconfig cannot be used.
    """
    # A service without clusters does not load these modules.
    from quorate.adapters.kubernetes.cluster_access import (  # noqa: PLC0415
        from_kubeconfig,
        in_cluster,
    )
    from quorate.adapters.kubernetes.kube_api import KubeApi  # noqa: PLC0415

    found: dict[str, KubeApi] = {}
    for name, where in clusters.kubeconfigs.items():
        path, _, context = where.partition("#")
        try:
            access = (
                in_cluster()
                if where == IN_CLUSTER
                else from_kubeconfig(Path(path), context or None)
            )
        except ClusterAccessError as error:
            raise CommandError(Exit.INVALID, f"kubernetes.clusters: {name}: {error}") from None
        found[name] = KubeApi(access)
    return found


def make_logs(configuration: Configuration) -> Logs | None:
    """Return the logs of runs; None if no run ever ran on this machine."""
    folder = _work_folder(configuration)
    has_any = configuration.executor == "local" or folder.is_dir()
    return LocalLogs(folder) if has_any else None


def _work_folder(configuration: Configuration) -> Path:
    if configuration.work_folder:
        return Path(configuration.work_folder)
    return work_folder(ledger_path(configuration.ledger))


def _job_users(configuration: Configuration) -> JobUsers | None:
    """Return the system users of work; None if all work runs as the service's own user."""
    if not isinstance(configuration.run_as, RunAs):
        return None
    return JobUsers(
        configuration.run_as,
        memory_bytes=configuration.run_memory_bytes,
        processes=configuration.run_processes_max,
    )


def check_kept(configuration: Configuration) -> None:
    """Raise ``CommandError`` if local runs still work, but ``local`` is not the executor now."""
    kept = kept_runs(_work_folder(configuration))
    if kept and configuration.executor != "local":
        raise CommandError(
            Exit.REFUSED,
            f"executor: runs of the executor `local` still work on this machine "
            f"({', '.join(kept)}); set executor to `local` "
            "until they have ended",
        )


def check_job_users(configuration: Configuration) -> None:
    """Raise ``CommandError`` if ``run_as`` is unusable, or if work would run as root.

    Work may run as root if ``executor.allow_root`` says so.
    """
    if configuration.executor != "local":
        return
    is_root = os.geteuid() == 0
    if isinstance(configuration.run_as, RunAs):
        _check_run_as(configuration.run_as, is_root=is_root)
        _check_shut(ledger_path(configuration.ledger))
    elif is_root and not configuration.allow_root:
        raise CommandError(
            Exit.REFUSED,
            "executor: this service runs as root, so its work would run as root too: every run "
            "could read the "
            "signing key and every tenant's output, and change this machine",
            "give each owner a system user with executor.run_as (docs/jobs.md), or start the "
            "service as another user",
            "if all users who submit runs may have root rights here, confirm it with: "
            "--executor-allow-root",
        )


def warn_of_root(configuration: Configuration) -> None:
    """Log a warning if work runs as root."""
    if configuration.executor == "local" and configuration.allow_root and os.geteuid() == 0:
        _LOG.warning(
            "work runs as root, because executor.allow_root is set: every run can read the "
            "signing key and other tenants' output, and change this machine"
        )


def _check_run_as(run_as: RunAs, *, is_root: bool) -> None:
    if sys.platform != "linux":
        raise CommandError(
            Exit.REFUSED, "executor.run_as: works on Linux only; leave it out on this machine"
        )
    if not is_root:
        raise CommandError(
            Exit.REFUSED,
            f"executor.run_as: only root can start work as another user, but this service has uid "
            f"{os.geteuid()}; start it as root, or leave executor.run_as out",
        )
    wrong = faults_of(run_as)
    if wrong:
        raise CommandError(Exit.INVALID, *wrong)


def _check_shut(ledger: Path) -> None:
    """Raise ``CommandError`` if other users may read or change the ledger's own files."""
    names = [ledger.with_name(ledger.name + suffix) for suffix in _SUFFIXES]
    wide = [path for path in names if path.exists() and path.stat().st_mode & _OTHERS]
    if wide:
        files = " ".join(map(str, wide))
        raise CommandError(
            Exit.REFUSED,
            f"executor.run_as: {files}: other users, and so jobs, may read or change them; run: "
            f"chmod 600 {files}",
        )
