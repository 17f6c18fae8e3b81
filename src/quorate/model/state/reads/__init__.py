"""The parts of ``StateView``: what a decision may read of the state, by subject.

Other packages import only the types of results from here: ``Family`` and ``Payers`` from
``money_reads``, ``Soft`` from ``tenancy_reads``. Start with ``model/state/state_view.py``, which
combines the parts.
"""
