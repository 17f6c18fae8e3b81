"""Output that is redrawn while the user watches: ``watch``, ``get -w`` and ``top``.

Start reading at ``watching_service.py`` and ``top_screen.py``.
"""
