"""Frames leave in order and without waiting, whether the server reads or not."""

import socket
import threading

import pytest

from appliance.engine import outbox
from appliance.engine.outbox import Outbox
from appliance.wire import frames


@pytest.fixture
def link():
    ours, theirs = socket.socketpair()
    yield ours, theirs
    ours.close()
    theirs.close()


def receive(link: socket.socket, count: int) -> list:
    reader, got = frames.server_reader(), []
    link.settimeout(60)
    while len(got) < count:
        got += reader.feed(link.recv(1 << 16))
    return got


def test_frames_arrive_in_order_also_when_the_server_reads_late(link):
    ours, theirs = link
    box = Outbox(ours, on_dead=pytest.fail)
    sent = [frames.LoadError(f"{n}" * 1000, False) for n in range(2000)]
    for frame in sent:
        box.put(frame)
    assert not box.flush(0)
    assert receive(theirs, len(sent)) == sent
    assert box.flush(60)


def test_a_server_that_never_reads_counts_as_dead(link, monkeypatch):
    monkeypatch.setattr(outbox, "MAX_UNSENT_BYTES", 1 << 20)
    dead = []
    box = Outbox(link[0], on_dead=dead.append)
    while not dead:
        box.put(frames.LoadError("x" * 10_000, False))
    assert "unread" in dead[0]


def test_a_closed_socket_counts_as_dead(link):
    ours, theirs = link
    dead = threading.Event()
    box = Outbox(ours, on_dead=lambda reason: dead.set())
    theirs.close()
    box.put(frames.Progress("weights", 0.5))
    assert dead.wait(60)
