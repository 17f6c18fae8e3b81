"""The audit: invariants of every state, of each decision, and of a whole history.

``invariants.py`` checks one state, ``commit_checks.py`` the changes of one decision, and
``history_audit.py`` every event of a ledger. docs/design/invariants.md has the rules I1 to I12.
"""
