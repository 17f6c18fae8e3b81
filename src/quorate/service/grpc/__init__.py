"""gRPC: the operations of the table as methods. Start reading at ``grpc_server.py``."""
