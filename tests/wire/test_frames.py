"""Frames survive any split of the bytes, and what is no frame is refused."""

import msgspec
import pytest

from appliance.errors import WireError
from appliance.vocab.event import Failed, Finished, Started, TextDelta, TokenLogprob, ToolCallDelta, TopToken, Usage
from appliance.vocab.gauges import Gauges
from appliance.vocab.request import Message, Sampling, TextPrompt, TokenPrompt, Tool
from appliance.vocab.spec import ChatPrompt, EngineSettings, EngineSpec, ModelInfo, Submission
from appliance.wire import frames

SETTINGS = EngineSettings(context=4096, concurrency=16, kv_bytes=1 << 40, prefix_bytes=0, stall_target=0.5)
CHAT = ChatPrompt(
    messages=(Message(role="user", content="héllo 😀"),),
    tools=(Tool(name="f", parameters={"type": "object"}),),
    kwargs={"enable_thinking": False},
)
TO_ENGINE = [
    frames.Hello(frames.VERSION, "demo", EngineSpec(backend="fake", path="/x.yaml"), SETTINGS),
    frames.Configure(SETTINGS),
    frames.Submit(
        Submission(
            id=1, prompt=CHAT, sampling=Sampling(stop=("x",), logit_bias={5: -1.5}), context=10, emitted=(1, 2)
        )
    ),
    frames.Submit(Submission(id=2, prompt=TokenPrompt(tokens=(1, 2)), sampling=Sampling(seed=2**63 - 1), context=9)),
    frames.Cancel(1),
    frames.Count(6, TextPrompt(text="a", special=False), True),
    frames.Ping(7),
]
LOGPROB = TokenLogprob("a", -0.5, b"\xf0\x9f", (TopToken("b", -1.0, b"b"),))
TO_SERVER = [
    frames.HelloBack(frames.VERSION, 42),
    frames.Progress("weights", 0.5),
    frames.Ready(
        ModelInfo(context=1, vocab_size=2, weight_bytes=3, kv_bytes_per_token=4, dtype="float32", load_seconds=0.1)
    ),
    frames.LoadError("no such file", True),
    frames.Events(
        3,
        (
            frames.SequenceEvents(1, (), (Started(5, 2),)),
            frames.SequenceEvents(2, (9,), (TextDelta("é", (LOGPROB,)), ToolCallDelta(0, "c", "f", "{}"))),
            frames.SequenceEvents(3, (0,), (Finished("stop", Usage(1, 2), "END"),)),
            frames.SequenceEvents(4, (), (Failed("engine_error", "x"),)),
        ),
    ),
    frames.Counted(6, 1, (5,), "a"),
    frames.Counted(6, 0, failed=Failed("template_error", "x")),
    frames.Pong(7, 1, Gauges(2, 3, 4, 5, 6)),
]
BOTH = [
    pytest.param(TO_ENGINE, frames.engine_reader, id="to the engine"),
    pytest.param(TO_SERVER, frames.server_reader, id="to the server"),
]


@pytest.mark.parametrize(("sent", "reader"), BOTH)
def test_frames_arrive_equal_however_the_bytes_are_split(sent, reader):
    data = b"".join(map(frames.encode, sent))
    assert reader().feed(data) == sent
    bytewise = reader()
    assert [frame for at in range(len(data)) for frame in bytewise.feed(data[at : at + 1])] == sent
    for at in range(len(data)):
        halves = reader()
        assert halves.feed(data[:at]) + halves.feed(data[at:]) == sent


def test_a_frame_over_the_limit_is_refused_by_its_header_alone():
    with pytest.raises(WireError, match="over the limit"):
        frames.engine_reader().feed((frames.MAX_FRAME + 1).to_bytes(4, "big"))


def test_a_frame_over_the_limit_is_not_sent():
    huge = TokenPrompt(tokens=(2**40,) * (frames.MAX_FRAME // 9 + 1))
    with pytest.raises(WireError, match="over the limit"):
        frames.encode(frames.Submit(Submission(id=1, prompt=huge, sampling=Sampling(), context=1)))


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"\xc1", id="no msgpack"),
        pytest.param(b"", id="empty"),
        pytest.param(msgspec.msgpack.encode({"a": 1}), id="another type"),
        pytest.param(msgspec.msgpack.encode(["no such tag", 1]), id="unknown tag"),
        pytest.param(msgspec.msgpack.encode(["cancel", "one"]), id="a wrong field"),
        pytest.param(msgspec.msgpack.encode(["pong", 1, 1, 1, 1, 1, 1]), id="a frame of the other direction"),
        pytest.param(frames.encode(frames.Ping(1))[4:] + b"\x00", id="bytes left over"),
    ],
)
def test_garbage_is_refused(body):
    with pytest.raises(WireError, match="unreadable"):
        frames.engine_reader().feed(len(body).to_bytes(4, "big") + body)
