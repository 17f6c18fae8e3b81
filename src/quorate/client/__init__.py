"""The Python client: sends REST requests to a service, with or without asyncio.

``Client`` and ``AsyncClient`` have a method for every operation. ``dispatch.py`` makes the methods,
``methods.pyi`` has their types, and ``resources/`` has the types of the answers. Each request is
written once for both clients, as a flow (``flows.py``). ``drivers.py`` runs the flows with httpx
(docs/adr/0019). The command line uses ``plain_http.py`` instead, because importing httpx takes too
long for one request.
"""
