"""Preemption: structural cuts, then a lottery; never priorities. Start at ``conflicts.py``.

``goals`` says what a conflict has to achieve, ``candidates`` what may end, ``resolver`` finds the
smallest change, ``lottery`` draws, ``disruption_account`` bounds what an owner may cost others.
"""
