"""Requests and responses of operations on the services that share one ledger."""

from __future__ import annotations

from typing import Final

from quorate.operations import common_requests
from quorate.operations.caller import ADMINS, OVERSEERS
from quorate.operations.common_responses import Given
from quorate.operations.operation import Area, Operation


class ClusterStatus(Given, kw_only=True, frozen=True):
    """The service that answers, and the leader of the services that share its ledger.

    ``role`` is leader or follower. A service that does not share its ledger is leader, and its
    ``term`` is 0. ``leader`` is the name of the leader, and empty while there is none. ``lag_ms``
    is how old the state of this service may be. ``why_not`` says why this service cannot lead.
    """

    name: str
    role: str
    term: int
    leader: str
    sequence: int
    lag_ms: int
    why_not: str


class ClusterMember(Given, kw_only=True, frozen=True):
    """A service of the ledger. ``grpc`` is empty if the service serves only REST."""

    name: str
    role: str
    address: str
    grpc: str
    version: str


class ClusterMembers(Given, kw_only=True, frozen=True):
    """The services of the ledger that sent a heartbeat in the last 10 seconds, by name."""

    items: tuple[ClusterMember, ...]


_HANDLERS: Final = "quorate.operations.service.quorum_handlers"
OPERATIONS: Final = (
    Operation(
        name="cluster-status",
        area=Area.SERVICE,
        summary="Show the leader of the ledger's services, and the role of this one.",
        takes=common_requests.Nothing,
        gives=ClusterStatus,
        roles=OVERSEERS,
        method="GET",
        path="/cluster",
        handler=f"{_HANDLERS}:cluster_status",
        cli=("cluster status",),
        of_service=True,
    ),
    Operation(
        name="cluster-members",
        area=Area.SERVICE,
        summary="List the services that share the ledger.",
        takes=common_requests.Nothing,
        gives=ClusterMembers,
        roles=OVERSEERS,
        method="GET",
        path="/cluster/members",
        handler=f"{_HANDLERS}:cluster_members",
        cli=("cluster members",),
        of_service=True,
    ),
    Operation(
        name="step-down",
        area=Area.SERVICE,
        summary="Have the leader step down in favour of another service.",
        takes=common_requests.Nothing,
        gives=ClusterStatus,
        roles=ADMINS,
        method="POST",
        path="/cluster/step-down",
        handler=f"{_HANDLERS}:step_down",
        refusals=("refused",),
        cli=("cluster step-down",),
        of_service=True,
        of_leader=True,
    ),
)
