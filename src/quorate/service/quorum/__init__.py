"""Several services on one ledger: one leads and decides, the others follow and forward commands.

``leader_role`` takes and leaves the leadership on the ledger thread; start reading there.
``leader_parts`` runs the parts that only the leader has, and ``forwarding`` sends commands to the
leader.
"""
