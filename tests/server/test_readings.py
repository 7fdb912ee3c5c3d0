"""What a loaded engine tells of itself, as `/metrics` shows it."""

import json

from tests.server.up import Up, chat, raw_post

RUNNING, BYTES = (f'appliance_model_{name}{{model="endless"}}' for name in ("rows_running", "kv_bytes"))


def test_an_engine_tells_what_it_holds(up: Up) -> None:
    with up.connection() as sock:
        sock.sendall(raw_post(json.dumps(chat("endless")).encode()))
        up.until(RUNNING, 1)
        assert up.metric(BYTES) > 0
        assert 'rows_running{model="never"}' not in up.get("/metrics").text, "it was never loaded"
    up.until(RUNNING, 0)
    assert up.metric(BYTES) == 0
