"""Published schedulers to compare with, in a small event-driven simulation.

``baseline_simulation`` has time and work, ``baseline_orders`` which jobs run under each scheduler,
and ``packing`` the nodes of whole-GPU pods. No production decision uses them.
"""
