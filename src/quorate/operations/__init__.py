"""Operations: everything that callers can request, defined once for CLI, REST, gRPC and clients.

``table.py`` names each with its request and response types, its permitted roles, and its address.
The command line, the service and the client are registered from it, so that they cannot drift
(docs/adr/0019).
"""
