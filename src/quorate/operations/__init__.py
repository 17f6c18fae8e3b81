"""Operations: everything that callers can request, defined once for CLI, REST, gRPC and clients.

``table.py`` lists them all. The ``*_operations.py`` of an area declares each operation: its request
and response types, its roles and its path. A handler in the same folder answers the operation; the
handler is imported on first use. The CLI, the service and the client are registered from the table,
so that they always offer the same operations (docs/adr/0019).
"""
