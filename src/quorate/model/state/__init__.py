"""The live state: tables, indexes and accounts, and what each event does to them.

``state.py`` holds it, ``state_view.py`` defines what a decision may read, ``apply_event.py`` is the
only code that changes it.
"""
