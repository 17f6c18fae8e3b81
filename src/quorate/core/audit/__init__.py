"""The audit: what must hold in every state, after each commit, and through a whole history.

``invariants.py`` looks at one state, ``commit_checks.py`` at what one commit has changed, and
``history_audit.py`` at every event of a ledger.
"""
