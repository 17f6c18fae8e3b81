"""The allocation policies, one per module. ``policy/table.py`` lists them by name."""
