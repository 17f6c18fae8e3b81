"""Manifests of Kueue as documents of Quorate: text in, documents and notes out.

Start reading at ``kueue_import.py``. ``kueue_queues.py``, ``kueue_places.py`` and
``kueue_workload.py`` read one kind of manifest each; ``kueue_owners.py`` and ``kueue_runs.py`` make
documents of what was read. Everything that has no counterpart is a note with file, line and field.
``docs/kueue.md`` has the map.
"""
