"""Registers the metrics of the table with Prometheus's client."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from quorate.service.metrics.metric_table import Kind, Metric


def counter(registry: CollectorRegistry, metric: Metric) -> Counter:
    """Return a new counter of ``registry``."""
    assert metric.kind is Kind.COUNTER, metric
    return Counter(metric.name, metric.help, metric.labels, registry=registry)


def gauge(registry: CollectorRegistry, metric: Metric) -> Gauge:
    """Return a new gauge of ``registry``."""
    assert metric.kind is Kind.GAUGE, metric
    return Gauge(metric.name, metric.help, metric.labels, registry=registry)


def histogram(registry: CollectorRegistry, metric: Metric) -> Histogram:
    """Return a new histogram of ``registry``."""
    assert metric.kind is Kind.HISTOGRAM, metric
    return Histogram(
        metric.name, metric.help, metric.labels, registry=registry, buckets=metric.buckets
    )
