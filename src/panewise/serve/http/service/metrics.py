"""Metrics for Prometheus: requests as they end, and at each scrape the figures of the backend's `stats()`.

Names begin with `panewise_`. Streams and queries are labels. At most QUERIES_SHOWN queries have metrics of their own,
so that a scrape of a server with ten thousand queries stays small; sums cover all queries.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from panewise.errors import BindError
from panewise.temporal import instant_us

QUERIES_SHOWN = 1_000
SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)


class RequestCounts:
    """Counts requests by route, method and status, with durations. Each server has its own registry."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._requests = Counter(
            "panewise_http_requests", "Requests that have ended.", ("method", "route", "status"), registry=self.registry
        )
        self._seconds = Histogram(
            "panewise_http_request_seconds",
            "How long requests took.",
            ("route",),
            buckets=SECONDS,
            registry=self.registry,
        )
        self._children: dict[tuple[str, str, int], tuple[Any, Any]] = {}

    def ended(self, method: str, route: str, status: int, seconds: float) -> None:
        """Counts a request that has ended. Durations of live connections are left out: they would hide the others'."""
        key = method, route, status
        children = self._children.get(key)
        if children is None:
            # A caller may send any method, so unknown ones share a label.
            shown = method if method in ("GET", "HEAD", "POST", "DELETE", "WEBSOCKET") else "other"
            children = self._requests.labels(shown, route, str(status)), self._seconds.labels(route)
            if len(self._children) < 10_000:
                self._children[key] = children
        children[0].inc()
        if not route.endswith("/live"):
            children[1].observe(seconds)


class BackendCollector(Collector):
    """Collects the figures of `stats()` at each scrape."""

    def __init__(self, stats: Callable[[], dict[str, Any]], subscribers: Callable[[], int]) -> None:
        self._stats = stats
        self._subscribers = subscribers

    def collect(self) -> Iterator[Metric]:
        stats = self._stats()
        yield GaugeMetricFamily("panewise_subscribers", "Live connections.", self._subscribers())
        yield from _streams(stats.get("streams", {}))
        yield from _queries(stats.get("queries", {}))
        yield from _trees(stats.get("trees", []))
        yield from _results(stats.get("results"))
        durability = stats.get("durability")
        if durability:
            yield GaugeMetricFamily("panewise_log_bytes", "Bytes of log since the snapshot.", durability["log_bytes"])
            yield CounterMetricFamily("panewise_log_records", "Records logged.", durability["records"])
            yield GaugeMetricFamily(
                "panewise_log_broken", "1 where nothing can be logged.", int(bool(durability["broken"]))
            )


_OF_STREAMS = {
    "rows": ("panewise_stream_rows", "Rows taken."),
    "late_rows": ("panewise_stream_late_rows", "Rows that came too late."),
    "bad_rows": ("panewise_stream_bad_rows", "Rows set aside."),
}


def _streams(streams: dict[str, Any]) -> Iterator[Metric]:
    for figure, (name, help_text) in _OF_STREAMS.items():
        family = CounterMetricFamily(name, help_text, labels=("stream",))
        for stream, figures in streams.items():
            if _is_number(figures.get(figure)):
                family.add_metric((stream,), figures[figure])
        yield family
    for figure, name, help_text in (
        ("waiting_rows", "panewise_stream_waiting_rows", "Rows pushed and not processed."),
        ("rate", "panewise_stream_rows_per_second", "How fast rows come."),
        ("lag", "panewise_stream_lag_seconds", "How long rows wait until they are processed."),
    ):
        gauge = GaugeMetricFamily(name, help_text, labels=("stream",))
        for stream, figures in streams.items():
            if _is_number(figures.get(figure)):
                gauge.add_metric((stream,), figures[figure])
        yield gauge
    marks = GaugeMetricFamily(
        "panewise_stream_watermark_seconds", "How far event time has come, since 1970.", labels=("stream",)
    )
    for stream, figures in streams.items():
        if figures.get("watermark") is not None:
            marks.add_metric((stream,), _seconds(figures["watermark"]))
    yield marks


def _queries(queries: dict[str, Any]) -> Iterator[Metric]:
    states = GaugeMetricFamily("panewise_queries", "Queries by status.", labels=("status",))
    for status in ("RUNNING", "SUSPENDED", "FAILED"):
        states.add_metric((status.lower(),), sum(1 for q in queries.values() if q.get("status") == status))
    yield states
    total = sum(q.get("results") or 0 for q in queries.values())
    yield CounterMetricFamily("panewise_results", "Results of all queries.", total)
    results = CounterMetricFamily("panewise_query_results", "Results of a query.", labels=("query",))
    state = GaugeMetricFamily("panewise_query_bytes", "Bytes that a query holds alone.", labels=("query",))
    for name, figures in list(queries.items())[:QUERIES_SHOWN]:
        for family, figure in ((results, "results"), (state, "bytes")):
            if _is_number(figures.get(figure)):
                family.add_metric((name,), figures[figure])
    yield results
    yield state


def _results(results: dict[str, Any] | None) -> Iterator[Metric]:
    if results:
        memory, given_up = results["bytes_in_memory"], results["rows_given_up"]
        yield GaugeMetricFamily("panewise_results_held_bytes", "Bytes of results that are held.", results["bytes"])
        yield GaugeMetricFamily("panewise_results_memory_bytes", "Bytes of them in memory.", memory)
        yield CounterMetricFamily("panewise_results_given_up", "Results given up to bound the memory.", given_up)


def _trees(trees: list[dict[str, Any]]) -> Iterator[Metric]:
    yield GaugeMetricFamily("panewise_trees", "Families of queries that share their rows.", len(trees))
    yield GaugeMetricFamily("panewise_tree_bytes", "Bytes of shared state.", sum(t.get("bytes") or 0 for t in trees))


def _seconds(instant: str) -> float:
    try:
        return instant_us(instant) / 1e6
    except BindError:  # beyond the years that have a text
        return float("nan")


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def exposition(registry: CollectorRegistry) -> bytes:
    """The answer to a scrape."""
    return generate_latest(registry)
