"""The Python client: asks a service over REST, from a thread or from an event loop.

``Client`` and ``AsyncClient`` have a method for every operation of the table: ``dispatch.py`` makes
them, ``methods.pyi`` types them, and ``resources/`` has what they give. What they do is written
once, as flows (``flows.py``); ``drivers.py`` carries the flows out (docs/adr/0019), and
``plain_http.py`` does for the command line, which asks once and has no time to import httpx.
"""
