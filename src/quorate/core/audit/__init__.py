"""The audit: what must hold in every state, after each decision, and through a whole history.

``invariants.py`` looks at one state, ``commit_checks.py`` at what one decision has changed, and
``history_audit.py`` at every event of a ledger.
"""
