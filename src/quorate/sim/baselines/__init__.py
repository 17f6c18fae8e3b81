"""Published schedulers in a small event-driven simulation, for comparison.

``baseline_simulation`` advances time and work, and ``baseline_orders`` chooses the running jobs of
each scheduler. No production decision uses these modules.
"""
