"""Published schedulers in a small event-driven simulation, for comparison.

``baseline_simulation`` advances time and work, ``baseline_orders`` chooses the running jobs of each
scheduler, and ``packing`` assigns whole-GPU pods to nodes. No production decision uses these
modules.
"""
