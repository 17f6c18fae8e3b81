"""Admission: one search for a placement and its payers. Start at ``admit.py``.

``payers`` lists who may pay and how much, ``cover`` and its exact ``cover_search`` choose, ``pack``
and ``spread`` place, ``bind`` joins the two into leases. ``hard_quota`` holds at every instant.
"""
