"""The kinds of resource: columns, rows and documents of each. ``kind_table.py`` lists them."""
