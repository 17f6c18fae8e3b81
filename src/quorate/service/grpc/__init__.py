"""gRPC: the same table of operations as methods. Start at ``grpc_server.py``."""
