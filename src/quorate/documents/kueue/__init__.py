"""Converts manifests of Kueue to documents of Quorate, with notes on the parts that are left out.

Start reading at ``kueue_import.py``. ``kueue_queues.py``, ``kueue_places.py`` and
``kueue_workload.py`` each read some kinds of manifest; ``kueue_owners.py`` and ``kueue_runs.py``
make the documents. For a field of a manifest that has no counterpart in Quorate, the import writes
a note with file, line and field. ``docs/kueue.md`` lists what becomes of each field.
"""
