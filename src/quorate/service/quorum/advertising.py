"""Where a service is reached by the others that serve the same ledger."""

from __future__ import annotations

from typing import Final

from quorate.service.config import Configuration
from quorate.service.config_values import Address
from quorate.service.quorum.leader_role import CandidateAddress

GRPC_SCHEME: Final = "grpc://"
"""What the surface of gRPC begins with when it says where it listens."""


def candidate_address(
    configuration: Configuration, listening: Address, grpc: str
) -> CandidateAddress:
    """Return the name and the addresses of a service that listens there; ``grpc`` may be empty."""
    scheme = "https" if configuration.tls_cert else "http"
    address = configuration.quorum_advertise or f"{scheme}://{listening}"
    given = configuration.quorum_grpc_advertise
    return CandidateAddress(
        name=configuration.quorum_name or address.partition("://")[2],
        address=address,
        grpc=grpc and (str(given) or grpc),
    )
