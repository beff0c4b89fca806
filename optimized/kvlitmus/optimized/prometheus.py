"""Counters for Prometheus: a collector over the numbers of one cache (extra ``prometheus``).

``REGISTRY.register(CacheCollector(cache, {"model": "example"}))``, and ``start_http_server(9400)`` of the client serves
them; both are in :mod:`prometheus_client`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric, SummaryMetricFamily

from kvlitmus.optimized.cache import FlatCache
from kvlitmus.optimized.counters import WorkCount
from kvlitmus.optimized.event import DEVICE, HOST

PREFIX = "kvlitmus_cache"


class CacheCollector:
    """What a cache has counted, read anew whenever somebody asks.  ``labels``: with which all of it is marked."""

    def __init__(self, cache: FlatCache, labels: Mapping[str, str] | None = None) -> None:
        self.cache = cache
        self.labels = dict(labels or {})

    def collect(self) -> Iterator[Metric]:
        """All metrics, with their values now."""
        stats = self.cache.stats()
        served, size = stats.served, stats.page_bytes

        def by_kind(value: Callable[[WorkCount], float]) -> dict[str, float]:
            return {kind: value(one) for kind, one in stats.work.items()}

        yield self.counter("requests", "Requests that have begun", served.requests)
        yield self.counter("tokens", "Tokens that requests began with", served.tokens)
        yield self.counter("hit_tokens", "Those of them that were cached on the device", served.hits)
        evicted = self.tiers(served.evicted, served.evicted_host)
        yield self.counter("evicted_pages", "Pages that were evicted", evicted, "tier")
        begun, failed = by_kind(lambda one: one.begun), by_kind(lambda one: one.failed)
        yield self.counter("work_begun", "Copies and storage jobs that were begun", begun, "kind")
        yield self.counter("work_failed", "Those of them that failed", failed, "kind")
        yield self.counter("work_bytes", "Bytes that they moved", by_kind(lambda one: one.pages * size), "kind")
        yield self.gauge("running_requests", "Requests that run", stats.running)
        yield self.gauge("free_pages", "Pages that are free", self.tiers(stats.free, stats.free_host), "tier")
        waiting = {kind: float(stats.waiting.get(kind, 0)) for kind in stats.work}
        yield self.gauge("work_under_way", "Copies and storage jobs under way", waiting, "kind")
        what = "From the begin of work to the tick that takes note of its end"
        seconds = SummaryMetricFamily(f"{PREFIX}_work_seconds", what, labels=[*self.labels, "kind"])
        for kind, one in stats.work.items():
            seconds.add_metric([*self.labels.values(), kind], one.over, one.seconds)
        yield seconds

    def tiers(self, device: float, host: float) -> dict[str, float]:
        """Both tiers, or the device alone where there is no host."""
        return {DEVICE: device} if self.cache.tree.host is None else {DEVICE: device, HOST: host}

    def counter(self, name: str, what: str, value: float | Mapping[str, float], by: str = "") -> Metric:
        """A number that only grows, or one for each value of a further label."""
        return self.filled(CounterMetricFamily(f"{PREFIX}_{name}", what, labels=self.names(by)), value)

    def gauge(self, name: str, what: str, value: float | Mapping[str, float], by: str = "") -> Metric:
        """A number of now, or one for each value of a further label."""
        return self.filled(GaugeMetricFamily(f"{PREFIX}_{name}", what, labels=self.names(by)), value)

    def names(self, by: str) -> list[str]:
        """The names of the labels of a metric."""
        return [*self.labels, by] if by else [*self.labels]

    def filled(self, metric: CounterMetricFamily | GaugeMetricFamily, value: float | Mapping[str, float]) -> Metric:
        """A metric with its values."""
        if not isinstance(value, Mapping):
            metric.add_metric([*self.labels.values()], value)
            return metric
        for label, one in value.items():
            metric.add_metric([*self.labels.values(), label], one)
        return metric
