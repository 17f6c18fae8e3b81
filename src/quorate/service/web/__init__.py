"""The dashboard: the built page and its files, and the session of a browser.

``make web`` builds ``built/`` from ``web/`` of the repository. The package includes ``built/``, so
that users need no Node. The page itself calls only REST, with the caller's own permissions
(docs/adr/0048). Start reading at ``web_routes.py``.
"""
