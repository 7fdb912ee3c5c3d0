"""How many responses are kept, and which are forgotten first."""

import pytest

from appliance.errors import UnknownResponse
from appliance.protocols.responses_stream import Kept
from appliance.server.response_store import ResponseStore


def kept(id: str, size: int = 1) -> Kept:
    return Kept({"id": id}, [], (), size)


def test_the_one_longest_unused_is_forgotten() -> None:
    store = ResponseStore(most=2)
    store.keep(kept("a"))
    store.keep(kept("b"))
    assert store.recall("a") is not None
    store.keep(kept("c"))
    assert [store.recall(id) is not None for id in "abc"] == [True, False, True]


def test_so_many_bytes_are_kept_but_the_newest_always() -> None:
    store = ResponseStore(max_bytes=10)
    for id, size in (("a", 6), ("b", 6), ("c", 40)):
        store.keep(kept(id, size))
    assert [store.recall(id) is not None for id in "abc"] == [False, False, True]


def test_what_is_forgotten_is_unknown_and_its_room_is_free() -> None:
    store = ResponseStore(max_bytes=10)
    store.keep(kept("a", 9))
    store.forget("a")
    with pytest.raises(UnknownResponse):
        store.get("a")
    with pytest.raises(UnknownResponse):
        store.forget("a")
    store.keep(kept("b", 9))
    store.keep(kept("c", 1))
    assert store.get("b")
