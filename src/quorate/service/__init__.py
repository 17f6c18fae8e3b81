"""The service: a daemon that owns a ledger and answers by REST and gRPC (docs/adr/0019)."""
