"""Admission: one search for a placement and its payers. Start at ``admit.py``.

``payers`` lists the envelopes that may pay and how much each can pay. ``cover`` and its exact
``cover_search`` choose among them. ``pack`` and ``spread`` choose domains, nodes and slots, and
``bind`` joins placement and payers into leases. ``hard_quota`` limits the nodes and runs of owners.
"""
