"""Admission: one search for a placement and its payers. ``admit.py`` has the main function.

``payers`` lists the envelopes that may pay and how much each can pay. ``cover`` chooses among these
envelopes, if necessary with the exact search in ``cover_search``. ``pack`` and ``spread`` choose
domains, nodes and slots. ``bind`` makes leases from a placement and its payers. ``hard_quota``
limits the nodes and runs of owners.
"""
