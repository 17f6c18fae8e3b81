"""Metrics for Prometheus. ``metric_table.py`` lists all metrics."""
