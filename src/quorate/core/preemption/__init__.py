"""Preemption: structural cuts, then a lottery; never priorities. Start at ``conflicts.py``.

``goals`` defines when a conflict has made enough room, ``candidates`` the work that may end,
``resolver`` finds the smallest change, ``lottery`` draws, ``disruption_account`` limits how much
work of others an owner's conflicts may end.
"""
