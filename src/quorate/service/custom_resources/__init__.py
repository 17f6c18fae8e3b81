"""The operator: turns custom resources into commands, and writes results to their status.

The modules that decide are pure: ``resource_documents.py``, ``resource_steps.py``,
``resource_status.py``, ``resource_mirror.py``. Start reading at ``resource_operator.py``.
"""
