"""The audit: it checks the invariants, which are the rules I1 to I12.

``invariants.py`` checks one state. ``commit_checks.py`` checks the changes of one decision.
``history_audit.py`` checks every event of a ledger. docs/design/invariants.md explains the rules.
"""
