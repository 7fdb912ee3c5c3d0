"""How events look on stderr."""

import io
import json

import pytest

from appliance import log


@pytest.fixture(autouse=True)
def restored():
    yield
    log.configure()


def test_json_events_carry_their_fields_and_the_ids_of_the_context():
    stream = io.StringIO()
    log.configure("json", "info", stream)
    with log.bound(request="r1", model="demo"):
        log.get().info("engine.ready", seconds=1.5)
    log.get().debug("not.shown")
    [line] = stream.getvalue().splitlines()
    event = json.loads(line)
    assert {"event": "engine.ready", "request": "r1", "model": "demo", "seconds": 1.5}.items() <= event.items()


def test_console_events_have_no_colour_where_it_is_not_a_terminal():
    stream = io.StringIO()
    log.configure("console", "warning", stream)
    log.get().info("not.shown")
    log.get().warning("engine.gone", exit=-9)
    assert "engine.gone" in stream.getvalue()
    assert "exit=-9" in stream.getvalue()
    assert "\x1b" not in stream.getvalue()
