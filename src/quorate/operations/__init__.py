"""Operations: everything that callers can request, defined once for CLI, REST, gRPC and clients.

``table.py`` lists them all. The files ``*_operations.py`` of an area declare its operations: the
types of request and response, the permitted roles and the path. A handler in the same folder
answers an operation; the handler is imported on first use. The CLI, the service and the client get
their operations from the table, so that they always offer the same operations (docs/adr/0019).
"""
