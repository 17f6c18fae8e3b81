"""Updates the nodes in the ledger from the nodes of clusters, while the service runs.

Ledger and cluster are compared whenever one of them has changed, so a lost watch or a restart loses
no change. Without a change nothing is written. The service executes the same commands that an
operator would send, with the actor ``kubernetes/CLUSTER``.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import suppress
from dataclasses import dataclass, replace
from time import monotonic
from typing import Final

from quorate.adapters.kubernetes.node_health import Health, SeenNodes, Tolerance
from quorate.adapters.kubernetes.node_inventory import LeftOut
from quorate.adapters.kubernetes.node_taints import Taint, stays_beside
from quorate.adapters.kubernetes.node_watch import NodeWatch
from quorate.core.commands import Apply, Command, Drain, MarkNode
from quorate.loop.engine import Engine
from quorate.model.events import NodeStatus
from quorate.model.refusal import sentence
from quorate.model.specs import Node, PoolExecutor
from quorate.model.state.reads.fleet_reads import FleetView
from quorate.model.state.records import NodeMark
from quorate.model.state.state_view import StateView
from quorate.ports.errors import QuorateError
from quorate.service.auth.authenticator import Authenticator
from quorate.service.config import Configuration
from quorate.service.config_values import Clusters
from quorate.service.executor_choice import cluster_apis
from quorate.service.ledger_thread import LedgerThread
from quorate.views.exits import CommandError

_LOG = logging.getLogger(__name__)

LOOK_S: Final = 2.0
"""How often the ledger is checked for changes while the cluster does not change."""
TROUBLE_S: Final = 5.0
"""How long to wait after a failed commit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRules:
    """How the nodes of ``cluster`` are judged, and whether new nodes are declared."""

    cluster: str
    tolerance: Tolerance
    declares: bool = False

    @property
    def actor(self) -> str:
        """The actor of the recorded events: the name that pools use for the cluster's executor."""
        return f"{PoolExecutor.KUBERNETES}/{self.cluster}"


@dataclass(frozen=True, slots=True)
class NodeChanges:
    """The commands to execute on the ledger.

    ``due_s`` is when the next unready node will count as failed. ``moved`` has a sentence for each
    node whose labels differ from the ledger.
    """

    commands: tuple[Command, ...] = ()
    due_s: float | None = None
    left_out: tuple[LeftOut, ...] = ()
    moved: tuple[str, ...] = ()


def node_changes(view: StateView, rules: NodeRules, seen: SeenNodes, now_s: float) -> NodeChanges:
    """Return the commands that bring the ledger's nodes into agreement with the cluster.

    The number of GPUs that a node offers is compared only if ``rules.declares`` is true.
    """
    pools = {name for name, pool in view.pools.items() if pool.executor_name == rules.actor}
    commands: list[Command] = []
    due_s: list[float] = []
    for name, record in view.nodes.items():
        if record.island.pool not in pools:
            continue
        gpus = record.spec.gpus if rules.declares else 0
        found = seen.finding(name, now_s, rules.tolerance, gpus)
        if found.due_s is not None:
            due_s.append(found.due_s)
        status = view.node_status.get(name, NodeStatus.READY)
        wanted = wanted_status(found.health, status, view.node_marks.get(name), rules.actor)
        if status is not NodeStatus.FAILED and _has_to_go(view, name, found.taint):
            commands.append(Drain(name, found.why))
        elif wanted is not None:
            commands.append(MarkNode(name, wanted, found.why))
    new, left_out = _new_nodes(view, pools, rules, seen, now_s) if rules.declares else ([], [])
    commands += [Apply((node,)) for node in new]
    moved = _moved_nodes(view, pools, seen) if rules.declares else ()
    return NodeChanges(tuple(commands), min(due_s, default=None), tuple(left_out), moved)


def _moved_nodes(view: FleetView, pools: Collection[str], seen: SeenNodes) -> tuple[str, ...]:
    """Return a sentence for each node whose labels differ from the ledger.

    The node is not declared anew: an operator may have chosen other labels than the cluster has.
    """
    found: list[str] = []
    for name, record in view.nodes.items():
        node = seen.nodes.get(name)
        if record.island.pool not in pools or node is None or not isinstance(node.declared, Node):
            continue
        if _place_of(node.declared) != _place_of(record.spec):
            found.append(
                f"node {name} is {_place_text(record.spec)} in the ledger, but its labels say "
                f"{_place_text(node.declared)}; if the labels are right, declare the node again: "
                f"quorate node discover"
            )
    return tuple(found)


def _place_of(node: Node) -> tuple[str | None, ...]:
    return node.flavor, node.region, node.cluster, node.domain, node.rack


def _place_text(node: Node) -> str:
    rack = "" if node.rack is None else f" in rack {node.rack}"
    return f"{node.flavor} in {node.domain_key}{rack}"


def _has_to_go(view: StateView, node: str, taint: Taint | None) -> bool:
    """Return whether a run has to leave ``node`` because of ``taint``.

    Sensitive runs and runs that tolerate the taint stay. The cluster deletes the pods of all other
    runs. As long as such a run has leases, the executor would create new pods for it, so the run
    has to leave.
    """
    if taint is None:
        return False
    for name in view.node_leases.get(node, ()):
        lease = view.leases[name]
        run = view.runs[lease.fact.run].spec
        if lease.ending is None and not run.sensitive and not stays_beside(run.pod_template, taint):
            return True
    return False


def wanted_status(
    health: Health, status: NodeStatus, mark: NodeMark | None, actor: str
) -> NodeStatus | None:
    """Return the new status of a node with ``status`` and ``mark``; None if it does not change.

    A failure or a cordon is undone only if ``actor`` itself has recorded it.
    """
    if health is Health.UNSURE:
        return None
    if health is Health.FAILED:
        return None if status is NodeStatus.FAILED else NodeStatus.FAILED
    if status is NodeStatus.READY:
        return NodeStatus.CORDONED if health is Health.CORDONED else None
    assert mark is not None, status
    is_cordoned = health is Health.CORDONED or mark.cordoned_by not in ("", actor)
    if status is NodeStatus.CORDONED:
        return None if is_cordoned else NodeStatus.READY
    if mark.actor != actor:
        return None
    return NodeStatus.CORDONED if is_cordoned else NodeStatus.READY


def _new_nodes(
    view: FleetView, pools: Collection[str], rules: NodeRules, seen: SeenNodes, now_s: float
) -> tuple[list[Node], list[LeftOut]]:
    """Return the ready GPU nodes to declare in the ledger, and nodes left out, with the reasons.

    A node to which the cluster admits no new pods is not declared yet, because the ledger would
    place work on it at once.
    """
    found: list[Node] = []
    left_out: list[LeftOut] = []
    for name in sorted(seen.nodes.keys() - view.nodes.keys()):
        node = seen.nodes[name]
        if isinstance(node.declared, LeftOut):
            left_out.append(node.declared)
        elif node.declared is not None and node.is_ready:
            health = seen.finding(name, now_s, rules.tolerance)
            if view.pool_of(node.declared) not in pools:
                left_out.append(LeftOut(name, "no pool of this cluster selects this node"))
            elif health.health is Health.READY:
                found.append(node.declared)
            else:
                left_out.append(LeftOut(name, health.why))
    return found, left_out


def nodes_surface(
    made: Configuration,
) -> Callable[[LedgerThread, Authenticator], AsyncIterator[str]]:
    """Return a context manager that watches the nodes of all clusters while the service runs."""
    assert isinstance(made.clusters, Clusters), "only called if there are clusters"
    clusters, declaring = made.clusters, made.declare_nodes.split(",")
    tolerance = Tolerance(
        not_ready_s=made.node_not_ready_s, taints=frozenset(made.tolerated_taint_keys)
    )

    async def surface(
        ledger_thread: LedgerThread, authenticator: Authenticator
    ) -> AsyncIterator[str]:
        del authenticator
        keepers = []
        for name, api in cluster_apis(clusters).items():
            rules = NodeRules(cluster=name, tolerance=tolerance, declares=name in declaring)
            keeper = NodeKeeper(ledger_thread, rules)
            keeper.start(NodeWatch(api, name, keeper.changed))
            keepers.append(keeper)
            ledger_thread.outage_sources.append(keeper.outages)
        try:
            yield f"the nodes of {', '.join(clusters.kubeconfigs)} are watched"
        finally:
            for keeper in keepers:
                ledger_thread.outage_sources.remove(keeper.outages)
            await asyncio.gather(*(keeper.stop() for keeper in keepers))

    return surface


class NodeKeeper:
    """Updates the ledger's nodes from one cluster, as a task of the event loop."""

    def __init__(self, ledger_thread: LedgerThread, rules: NodeRules) -> None:
        self._ledger_thread = ledger_thread
        self._rules = rules
        self._loop = asyncio.get_running_loop()
        self._changed = asyncio.Event()
        self._watch: NodeWatch | None = None
        self._task: asyncio.Task[None] | None = None
        self._compared_seq = -1
        self._trouble = ""
        self._left_out: frozenset[LeftOut] = frozenset()
        self._moved: frozenset[str] = frozenset()

    def outages(self) -> dict[str, str]:
        """Return why the nodes of the cluster cannot be followed; empty if they can be."""
        unseen = "" if self._watch is None else self._watch.trouble
        trouble = unseen or self._trouble
        return {f"{self._rules.actor} nodes": trouble} if trouble else {}

    def changed(self) -> None:
        """Request a comparison of cluster and ledger; may be called from any thread."""
        with suppress(RuntimeError):  # The event loop has ended, so there is no ledger to change.
            self._loop.call_soon_threadsafe(self._changed.set)

    def start(self, watch: NodeWatch) -> None:
        """Start watching."""
        self._watch = watch
        watch.start()
        self._task = asyncio.create_task(self._keep(watch))

    async def stop(self) -> None:
        """Stop; wait until watching and recording have ended."""
        assert self._task is not None, "started first"
        assert self._watch is not None, "started first"
        await asyncio.to_thread(self._watch.close)
        self._task.cancel()
        with suppress(asyncio.CancelledError):
            await self._task

    async def _keep(self, watch: NodeWatch) -> None:
        due_s: float | None = None
        while True:
            wait_s = LOOK_S if due_s is None else min(LOOK_S, max(0.0, due_s - monotonic()))
            with suppress(TimeoutError):
                await asyncio.wait_for(self._changed.wait(), wait_s)
            is_due = due_s is not None and monotonic() >= due_s
            is_old = self._ledger_thread.recorded_seq != self._compared_seq
            seen = watch.seen()
            if seen is None:
                due_s = None
                self._changed.clear()
                # The nodes are compared as soon as they are seen again.
                continue
            if not (self._changed.is_set() or is_due or is_old):
                continue
            self._changed.clear()
            due_s = await self._compare(seen)

    async def _compare(self, seen: SeenNodes) -> float | None:
        """Record changes; return the time of the next comparison if nothing changes until then.

        Return None if only a change requires the next comparison.
        """
        rules = self._rules
        try:
            found, seq = await self._ledger_thread.run(
                lambda engine: record_nodes(engine, rules, seen, monotonic())
            )
        except (CommandError, QuorateError) as error:
            if self._trouble != str(error):
                self._trouble = str(error)
                _LOG.warning(
                    "cluster %s: its nodes could not be recorded: %s", rules.cluster, error
                )
            return monotonic() + TROUBLE_S
        except Exception:  # noqa: BLE001 - the top frame of this task
            _LOG.exception("cluster %s: a bug keeps its nodes from being recorded", rules.cluster)
            return monotonic() + LOOK_S
        self._trouble, self._compared_seq = "", seq
        for each in found.left_out:
            if each not in self._left_out:
                _LOG.warning(
                    "cluster %s: node %s is not declared: %s", rules.cluster, each.name, each.why
                )
        self._left_out = frozenset(found.left_out)
        for told in found.moved:
            if told not in self._moved:
                _LOG.warning("cluster %s: %s", rules.cluster, told)
        self._moved = frozenset(found.moved)
        return found.due_s


def record_nodes(
    engine: Engine, rules: NodeRules, seen: SeenNodes, now_s: float
) -> tuple[NodeChanges, int]:
    """Record the differences between a cluster and the ledger, on the ledger thread.

    Returns the changes, and the sequence number of the ledger's last event afterwards. A node whose
    command is refused is returned as left out, with the reason.
    """
    found = node_changes(engine.view, rules, seen, now_s)
    refused: list[LeftOut] = []
    if found.commands:
        receipts = engine.execute_all(found.commands, actor=rules.actor)
        for command, receipt in zip(found.commands, receipts, strict=True):
            refused += [
                LeftOut(_node_of(command), sentence(each)) for each in receipt.decision.refusals
            ]
    return replace(found, left_out=(*found.left_out, *refused)), engine.head.seq


def _node_of(command: Command) -> str:
    """Return the name of the node that a command of this module concerns."""
    if isinstance(command, MarkNode | Drain):
        return command.node
    assert isinstance(command, Apply), command
    (spec,) = command.specs
    assert isinstance(spec, Node), spec
    return spec.name
