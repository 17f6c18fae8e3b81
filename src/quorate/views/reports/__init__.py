"""Reports on outcomes as people and programs read them: tables, JSON, CSV, Parquet and HTML. Pure.

``report_forms`` has the figures of one outcome, ``comparison_forms`` those of several, and
``html_report`` the page with plots. Start reading at ``report_forms.py``.
"""
