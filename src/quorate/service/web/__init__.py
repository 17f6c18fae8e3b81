"""The dashboard: the built page and its files, and the session of a browser.

What is in ``built/`` is made from ``web/`` of the repository by ``make web``, and shipped: a user
needs no Node. The page itself asks REST only, with the caller's own rights (docs/adr/0048). Start
at ``web_routes.py``.
"""
