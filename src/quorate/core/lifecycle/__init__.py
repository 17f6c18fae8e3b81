"""The life of a run's leases: starts, stops, holds that are extended, failures, spares, growth.

Each function writes events to a decision log. Start at ``starts.py`` and ``stops.py``.
"""
