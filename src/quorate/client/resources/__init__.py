"""What clients give for each kind of resource, typed down to the fields of spec and status.

The wire has one shape for all kinds (``operations/common_responses.py``); these say what it holds.
Times are RFC 3339, durations as documents have them. A test compares them with what a service
gives. Begin with ``any_resource.py`` and ``run_resources.py``.
"""
