"""A client that leaves stops its work, whether it streamed or not."""

import json

import pytest

from tests.server.up import Up, chat, raw_post

LARGE = "word " * 30_000
"""More than the server reads from a socket at once."""


@pytest.mark.parametrize("text", ["hi", LARGE], ids=["small body", "large body"])
@pytest.mark.parametrize("n", [1, 2], ids=["one answer", "two answers"])
@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
def test_a_client_that_leaves_stops_its_work(up: Up, stream: bool, n: int, text: str) -> None:
    left = 'appliance_requests_total{endpoint="/v1/chat/completions",model="endless",status="499"}'
    before = up.metric(left)
    with up.connection() as sock:
        sock.sendall(raw_post(json.dumps(chat("endless", text, stream=stream, n=n)).encode()))
        up.until('appliance_model_leases{model="endless"}', n)
        if stream:
            assert sock.recv(15) == b"HTTP/1.1 200 OK"
    up.until("appliance_generations_running", 0)
    up.until('appliance_model_leases{model="endless"}', 0)
    assert up.metric(left) == before + 1


def test_a_client_that_leaves_while_its_model_loads_is_forgotten(up: Up) -> None:
    with up.connection() as sock:
        sock.sendall(raw_post(json.dumps(chat("endless")).encode()))
        up.until("appliance_generations_running", 1)
    up.until("appliance_generations_running", 0)
    up.until('appliance_model_waiting{model="endless"}', 0)
