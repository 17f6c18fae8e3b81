"""Operations: everything that can be asked of Quorate, once, for every way of asking.

``table.py`` names each with what it takes and gives, who may ask, and where. The command line, the
service and the client are registered from it, so that they cannot drift (docs/adr/0019).
"""
