"""The life of a run's leases: starts, stops, extended holds, failures, spares and growth.

The functions write events to a decision log. Readers of the code best begin with ``starts.py`` and
``stops.py``.
"""
