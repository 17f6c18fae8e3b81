"""Answers about a run: why it waits, when it starts, and which change would start it now.

Readers of the code best begin with ``explanation.py`` and ``start_plan.py``.
"""
