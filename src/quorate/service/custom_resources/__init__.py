"""The operator: custom resources of clusters become commands, and what became of them their status.

What is decided is pure: ``resource_documents.py``, ``resource_steps.py``, ``resource_status.py``,
``resource_mirror.py``. Start at ``resource_operator.py``.
"""
