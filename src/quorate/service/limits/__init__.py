"""Who is turned away when there is too much: shares by tenant, rates, and overload.

``tenant_shares`` divides places among tenants and then users; ``rate_limit`` slows down bad tokens;
``overload_limit`` sheds writes that would wait too long. The queue before the ledger thread is
``service/request_queue``; watches are bounded in ``service/http/event_stream``.
"""
