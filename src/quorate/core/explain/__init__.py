"""Answers about a run: why it waits, when it starts, and which change would start it now.

Start at ``explanation.py`` and ``start_plan.py``.
"""
