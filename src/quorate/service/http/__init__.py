"""REST: connections, limits before authentication, routes, bodies, streams, OpenAPI.

Start reading at ``rest.py``.
"""
