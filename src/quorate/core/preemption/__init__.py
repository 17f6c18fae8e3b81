"""Preemption: ends running work by structural cuts, then by a lottery. There are no priorities.

Structural cuts end work in a fixed order: backfill that overstays, spares, steps, and burst runs.
The lottery ends whole runs at random.

Start reading at ``conflicts.py``. ``goals`` defines when a conflict has made enough room.
``cut_order`` lists the work that may end, in its order. ``resolver`` finds the smallest set of cuts
and draws, and ``lottery`` draws. ``disruption_account`` limits how much work the conflicts of an
owner may end.
"""
