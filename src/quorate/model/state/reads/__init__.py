"""What a decision may read, by subject: the parts of ``StateView``.

Outside of ``model/state`` only the values that they return are imported from here: ``Family`` and
``Payers`` from ``money_reads``, ``Soft`` from ``tenancy_reads``. Start with
``model/state/state_view.py``, which joins them.
"""
