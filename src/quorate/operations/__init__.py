"""Operations: everything that callers can request, defined once for CLI, REST, gRPC and clients.

``table.py`` has them all. Each is declared in the ``*_operations.py`` of its area, with what it
takes and gives, who may ask, and where, and answered by a handler beside, which is imported when it
is first needed. The command line, the service and the client are registered from the table, so that
they cannot drift (docs/adr/0019).
"""
