"""The types of resources in clients, with the fields of each spec and status.

On the wire all kinds have one form (``operations/common_responses.py``); these types name the
fields of each kind. Times are RFC 3339, and durations are written like ``90m``. A test compares the
types with the answers of a service. Start reading at ``any_resource.py`` and ``run_resources.py``.
"""
