"""Several services on one ledger: one leads and decides, the others follow and forward commands.

``leader_role`` takes and leaves the leadership on the ledger's thread; start reading there.
``leader_parts`` runs what only the leader does, and the forwards send commands to the leader.
"""
