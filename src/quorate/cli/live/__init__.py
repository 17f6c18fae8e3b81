"""What is redrawn or goes on while somebody looks: ``watch``, ``get -w`` and ``top``.

Start reading at ``watching_service.py`` and ``top_screen.py``.
"""
