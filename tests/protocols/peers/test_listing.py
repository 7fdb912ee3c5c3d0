"""What peers say they have, whatever they send."""

import json

import pytest

from appliance.protocols.peers.listing import MOST_MODELS, model_names

CASES: dict[str, tuple[bytes, tuple[str, ...]]] = {
    "OpenAI's": (b'{"object":"list","data":[{"id":"a","object":"model"},{"id":"b:1"}]}', ("a", "b:1")),
    "Anthropic's": (b'{"data":[{"type":"model","id":"c","display_name":"C"}],"has_more":false}', ("c",)),
    "twice the same": (b'{"data":[{"id":"a"},{"id":"a"}]}', ("a",)),
    "one of a peer of its own": (b'{"data":[{"id":"a"},{"id":"b/c","state":"elsewhere"}]}', ("a",)),
    "some that are none": (b'{"data":[7,null,{"id":7},{},"a",{"id":"a"}]}', ("a",)),
    "more than anybody wants": (
        json.dumps({"data": [{"id": str(n)} for n in range(MOST_MODELS + 5)]}).encode(),
        tuple(map(str, range(MOST_MODELS))),
    ),
    "no list": (b'{"data":{"id":"a"}}', ()),
    "nothing": (b"", ()),
    "no JSON": (b"<html>", ()),
    "no UTF-8": (b'{"data":[{"id":"\xff"}]}', ()),
    "a deep one": (b'{"data":' + b"[" * 100_000, ()),
}


@pytest.mark.parametrize(("body", "names"), CASES.values(), ids=CASES)
def test_the_names_of_its_own_models_are_read(body: bytes, names: tuple[str, ...]) -> None:
    assert model_names(body) == names
