"""Prometheus' text format, by hand."""

from appliance.server.metrics import Counter, Histogram, Reading, render


def test_a_counter_grows_per_label_values() -> None:
    counter = Counter("hits_total", "Hits.", ("path", "status"))
    counter.add("/a", "200")
    counter.add("/a", "200", by=2)
    counter.add('/"\\\n', "404")
    assert render([counter]).decode() == (
        "# HELP hits_total Hits.\n"
        "# TYPE hits_total counter\n"
        'hits_total{path="/a",status="200"} 3\n'
        'hits_total{path="/\\"\\\\\\n",status="404"} 1\n'
    )


def test_a_histogram_counts_up_to_each_bound() -> None:
    histogram = Histogram("wait_seconds", "Waits.", ("model",), (0.1, 1))
    for value in (0.05, 0.1, 0.5, 7):
        histogram.observe("m", value=value)
    assert render([histogram]).decode() == (
        "# HELP wait_seconds Waits.\n"
        "# TYPE wait_seconds histogram\n"
        'wait_seconds_bucket{model="m",le="0.1"} 2\n'
        'wait_seconds_bucket{model="m",le="1"} 3\n'
        'wait_seconds_bucket{model="m",le="+Inf"} 4\n'
        'wait_seconds_sum{model="m"} 7.65\n'
        'wait_seconds_count{model="m"} 4\n'
    )


def test_a_reading_is_asked_when_it_is_shown() -> None:
    values = [1.0]
    reading = Reading("level", "Level.", (), lambda: [((), values[0])])
    values[0] = 2.5
    assert render([reading]).decode().splitlines()[-1] == "level 2.5"
