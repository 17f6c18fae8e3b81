"""Admission: one search for a placement and its payers. Start at ``admit.py``.

``payers`` lists who may pay and how much, ``cover`` and its exact ``cover_search`` choose among
them, ``pack`` and ``spread`` place, ``bind`` joins placement and payers into leases. ``hard_quota``
limits the nodes and runs of owners.
"""
