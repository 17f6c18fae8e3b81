"""Limits that reject requests: shares by tenant, rates, and overload.

``tenant_shares`` divides a limit among tenants and then users; ``rate_limit`` limits how often one
key may be used; ``overload_limit`` rejects writes that would wait too long. The queue before the
ledger thread is ``service/request_queue``; ``service/http/event_stream`` limits watches.
"""
