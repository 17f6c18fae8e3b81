"""REST: connections, limits before authentication, routes, bodies, streams, OpenAPI.

Start at ``rest.py``.
"""
