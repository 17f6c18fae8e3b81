"""The live state: tables, indexes and accounts, and the effect of each event on them.

``state.py`` has the state, and ``state_view.py`` defines the part that a decision may read.
``apply_event.py`` is the only code that changes the state.
"""
