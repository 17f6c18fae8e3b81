"""The state that a decision may read, by subject: the parts of ``StateView``.

Other packages import only the return values from here: ``Family`` and ``Payers`` from
``money_reads``, ``Soft`` from ``tenancy_reads``. Start with ``model/state/state_view.py``, which
joins them.
"""
