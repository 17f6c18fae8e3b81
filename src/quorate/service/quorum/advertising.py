"""The address at which other services of the same ledger reach this service."""

from __future__ import annotations

from typing import Final

from quorate.service.config import Configuration
from quorate.service.config_values import Address
from quorate.service.quorum.leader_role import CandidateAddress

GRPC_SCHEME: Final = "grpc://"
"""The prefix of the gRPC surface's description, before its address."""


def candidate_address(
    configuration: Configuration, listening: Address, grpc: str
) -> CandidateAddress:
    """Return the name and the addresses of this service.

    ``grpc`` is the address at which the service listens for gRPC; empty if gRPC is off.
    """
    scheme = "https" if configuration.tls_cert else "http"
    address = configuration.quorum_advertise or f"{scheme}://{listening}"
    given = configuration.quorum_grpc_advertise
    return CandidateAddress(
        name=configuration.quorum_name or address.partition("://")[2],
        address=address,
        grpc=grpc and (str(given) or grpc),
    )
