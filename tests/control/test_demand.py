"""What the models sharing an engine ask of it together."""

import math
from pathlib import Path

import pytest

from appliance.control.demand import Demand, Place, demands, engine_of, names
from tests.process.site import Site

GIB = 1 << 30


def resolve(tmp_path, models, **top) -> dict[str, Demand]:
    site = Site(tmp_path)
    site.script("s")
    deployment = site.deployment({name: {"source": "fake:s.yaml"} | model for name, model in models.items()}, **top)
    places = {model.fingerprint: Place(Path("/s"), 7) for model in deployment.models.values()}
    found = demands(deployment, places)
    assert set(names(deployment).values()) == found.keys()
    return found


def test_sharers_get_the_strongest_of_each_wish(tmp_path):
    [demand] = resolve(
        tmp_path,
        {
            "a": {"context": "8k", "concurrency": 2, "idle_unload": "never", "load_timeout": "1m"},
            "b": {"context": "4k", "concurrency": 9, "idle_unload": "1m", "pin": True, "load": "startup"},
        },
    ).values()
    want, settings = demand.want, demand.settings(3 * GIB)
    assert (want.pinned, want.startup, want.idle_unload, want.bytes) == (True, True, math.inf, 7)
    assert (settings.context, settings.concurrency) == (8192, 9)
    assert demand.load_timeout == 300


def test_the_prefix_cache_takes_what_it_may_and_leaves_most_to_requests(tmp_path):
    cache = {"small": {"prefix": {"memory": "64MiB"}}}
    [demand] = resolve(tmp_path, {"a": {"cache": "small"}}, cache=cache).values()
    rich, poor = demand.settings(3 * GIB), demand.settings(96 << 20)
    assert (rich.prefix_bytes, rich.kv_bytes) == (64 << 20, 3 * GIB - (64 << 20))
    assert (poor.prefix_bytes, poor.kv_bytes) == (32 << 20, 64 << 20)


@pytest.mark.parametrize(
    ("prefix", "kept"),
    [
        pytest.param({"memory": "1GiB"}, None, id="not unless it is asked for"),
        pytest.param(
            {"memory": "1GiB", "disk": "2GiB", "path": "/kv", "ttl": "1h"}, ("/kv", 2 * GIB, 3600), id="asked"
        ),
        pytest.param("none", None, id="without prefixes"),
    ],
)
def test_prefixes_go_to_disk_where_the_policy_says_so(tmp_path, prefix, kept):
    [demand] = resolve(tmp_path, {"a": {"cache": "own"}}, cache={"own": {"prefix": prefix}}).values()
    disk = demand.settings(3 * GIB).disk
    assert (disk and (disk.path, disk.bytes, disk.ttl)) == kept
    assert demand.settings(3 * GIB).prefix_ttl == (3600 if kept else 7 * 24 * 3600)
    assert disk is None or disk.key == demand.first.fingerprint


@pytest.mark.parametrize("source, changes", [("./tiny.gguf", True), ("fake:s.yaml", False)])
def test_another_blas_needs_another_process_but_not_for_a_script(tmp_path, source, changes):
    (tmp_path / "tiny.gguf").write_bytes(b"")
    [demand] = resolve(tmp_path, {"a": {"source": source}}).values()
    assert (engine_of(demand.first, "off") != engine_of(demand.first, "auto")) == changes
