"""A real engine process on a real socketpair: what the server sees and how the process ends."""

import os
import signal
import subprocess
import sys

import msgspec
import pytest

from appliance.engine.fake.tokenizer import END, FakeTokenizer
from appliance.vocab.event import Failed, Finished, Started, TextDelta, ToolCallDelta
from appliance.vocab.request import Message, Sampling, TextPrompt, TokenPrompt, Tool
from appliance.vocab.spec import ChatPrompt, EngineSpec
from appliance.wire import frames
from tests.engine.harness import GREEDY, ROOT, SETTINGS, Engine, running_engine, submission, write_script

SLOW = {"text": "abcdefghij" * 30, "token_bytes": 1, "step_ms": 2}


@pytest.fixture
def engine():
    with running_engine() as engine:
        yield engine


def exit_code(engine: Engine) -> int:
    """Wait for the end of file, then of the process."""
    while engine.receive():
        pass
    return engine.process.wait(60)


# ---- starting
def test_it_says_hello_then_tells_how_the_load_goes_then_is_ready(engine, tmp_path):
    ready = engine.start(write_script(tmp_path, context=77, load_ms=20))
    assert ready.info.context == 77
    hello, *progress, last = engine.frames
    assert hello == frames.HelloBack(frames.VERSION, engine.process.pid)
    assert last is ready
    fractions = [frame.fraction for frame in progress if isinstance(frame, frames.Progress)]
    assert fractions == sorted(fractions) and len(fractions) == len(progress) > 1


def test_it_runs_beside_the_server_at_lower_priority(engine, tmp_path):
    engine.start(write_script(tmp_path))
    if sys.platform == "linux":
        threads = os.listdir(f"/proc/{engine.process.pid}/task")
        assert {os.getpriority(os.PRIO_PROCESS, int(thread)) for thread in threads} == {
            max(5, os.getpriority(os.PRIO_PROCESS, 0))
        }


@pytest.mark.parametrize(
    ("script", "message", "permanent"),
    [
        pytest.param({"fail_load": "no memory left"}, "no memory left", False, id="the backend fails"),
        pytest.param({"fail_load": "broken", "permanent": True}, "broken", True, id="for good"),
        pytest.param({"tekst": "x"}, "tekst", True, id="a key that does not exist"),
        pytest.param({"token_bytes": 9}, "token_bytes", True, id="a value out of range"),
    ],
)
def test_a_load_that_fails_says_why_and_ends_the_process(engine, tmp_path, script, message, permanent):
    spec = EngineSpec(backend="fake", path=str(write_script(tmp_path, **script)))
    engine.send(frames.Hello(frames.VERSION, "demo", spec, SETTINGS))
    error = engine.first(frames.LoadError)
    assert message in error.message
    assert error.permanent is permanent
    assert exit_code(engine) == 1


def test_another_version_of_the_server_is_refused(engine, tmp_path):
    spec = EngineSpec(backend="fake", path=str(write_script(tmp_path)))
    engine.send(frames.Hello(frames.VERSION + 1, "demo", spec, SETTINGS))
    assert "version" in engine.first(frames.LoadError).message
    assert exit_code(engine) == 1


def test_started_by_hand_it_says_that_it_is_not_meant_to_be():
    ran = subprocess.run(
        [sys.executable, "-m", "appliance.engine"],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert ran.returncode != 0
    assert "started by the appliance" in ran.stderr


# ---- generating
def test_a_generation_is_started_told_and_finished(engine, tmp_path):
    engine.start(write_script(tmp_path, text="Hello {last}!"))
    engine.send(frames.Submit(submission(1, "wörld 😀")))
    finished = engine.end(1)
    events = engine.events(1)
    assert isinstance(events[0], Started)
    assert all(isinstance(e, TextDelta) for e in events[1:-1])
    assert engine.text(1) == "Hello wörld 😀!"
    assert finished.reason == "stop"
    assert finished.usage.prompt_tokens == events[0].prompt_tokens
    assert finished.usage.completion_tokens == len(engine.tokens(1))


def test_two_streams_share_their_steps(engine, tmp_path):
    engine.start(write_script(tmp_path, text="one two three four five six seven", step_ms=5))
    engine.send(frames.Submit(submission(1, "a")), frames.Submit(submission(2, "b")))
    engine.end(1), engine.end(2)
    together = [f for f in engine.frames if isinstance(f, frames.Events) and {p.id for p in f.sequences} == {1, 2}]
    assert len(together) > 5
    steps = [f.step for f in engine.frames if isinstance(f, frames.Events) and any(p.tokens for p in f.sequences)]
    assert len(steps) == len(set(steps)), "one frame a step"


def test_characters_split_over_tokens_arrive_whole(engine, tmp_path):
    engine.start(write_script(tmp_path, text="a😀é한👩‍👩‍👧b", token_bytes=1))
    engine.send(frames.Submit(submission(1)))
    engine.end(1)
    deltas = [e.text for e in engine.events(1) if isinstance(e, TextDelta)]
    assert deltas == list("a😀é한👩‍👩‍👧b")
    assert len(engine.tokens(1)) == len("a😀é한👩‍👩‍👧b".encode()) + 1


def test_a_stop_string_over_token_borders_is_never_seen(engine, tmp_path):
    engine.start(write_script(tmp_path, text="keep this STOP not this", token_bytes=2))
    engine.send(frames.Submit(submission(1, sampling=msgspec.structs.replace(GREEDY, stop=(" STOP", "never")))))
    finished = engine.end(1)
    assert (engine.text(1), finished.reason, finished.stop) == ("keep this", "stop", " STOP")


def test_dialects_turn_text_into_reasoning_and_calls(engine, tmp_path):
    engine.start(
        write_script(tmp_path, text='<think>hm</think>\n<tool_call>{"name": "f", "arguments": {"a": 1}}</tool_call>')
    )
    prompt = ChatPrompt(messages=(Message(role="user", content="x"),), tools=(Tool(name="f"),))
    engine.send(frames.Submit(submission(1, prompt=prompt, tool_dialect="hermes", reasoning_dialect="think_tags")))
    finished = engine.end(1)
    (call,) = [e for e in engine.events(1) if isinstance(e, ToolCallDelta)]
    assert (call.index, call.name, call.arguments, finished.reason) == (0, "f", '{"a": 1}', "tool_calls")
    assert call.id.startswith("call_")
    assert finished.usage.reasoning_tokens > 0


def test_a_prompt_that_opens_the_reasoning_begins_inside_it(engine, tmp_path):
    engine.start(write_script(tmp_path, text="hm</think>yes"))
    tokens = FakeTokenizer(4).encode("question <think>\n")
    prompt = TokenPrompt(tokens=tuple(tokens))
    engine.send(frames.Submit(submission(1, prompt=prompt, reasoning_dialect="think_tags")))
    engine.end(1)
    assert engine.text(1) == "yes"


def test_an_unknown_dialect_is_none(engine, tmp_path):
    engine.start(write_script(tmp_path, text="<think>x"))
    engine.send(frames.Submit(submission(1, reasoning_dialect="of tomorrow", tool_dialect="neither")))
    engine.end(1)
    assert engine.text(1) == "<think>x"


def test_log_probabilities_join_to_the_text(engine, tmp_path):
    engine.start(write_script(tmp_path, text="wörld 😀", token_bytes=3))
    engine.send(frames.Submit(submission(1, sampling=msgspec.structs.replace(GREEDY, logprobs=2))))
    engine.end(1)
    items = [item for e in engine.events(1) if isinstance(e, TextDelta) for item in e.logprobs]
    assert b"".join(item.raw for item in items).decode() == engine.text(1) == "wörld 😀"
    assert all(len(item.top) == 2 for item in items)


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_what_was_emitted_is_continued_exactly(engine, tmp_path, temperature):
    engine.start(write_script(tmp_path, words=["one", "zwei", "trois", "😀"], length=20, token_bytes=3))
    sampling = Sampling(temperature=temperature, seed=7, stop=("never",))
    engine.send(frames.Submit(submission(1, "x", sampling)))
    whole = engine.end(1)
    tokens = engine.tokens(1)
    for at in (1, 5, len(tokens) - 1):
        id = 100 + at
        engine.send(frames.Submit(submission(id, "x", sampling, emitted=tuple(tokens[:at]))))
        finished = engine.end(id)
        assert engine.tokens(id) == tokens[at:]
        assert msgspec.structs.replace(finished.usage, cached_tokens=0) == msgspec.structs.replace(
            whole.usage, cached_tokens=0
        )
        assert engine.text(1).endswith(engine.text(id))


def test_emitted_tokens_that_are_the_end_finish_at_once(engine, tmp_path):
    engine.start(write_script(tmp_path))
    engine.send(frames.Submit(submission(1, "x", emitted=(321, END))))
    assert engine.end(1).reason == "stop"
    assert engine.tokens(1) == []


# ---- counting
COUNTS = {
    "messages": (ChatPrompt(messages=(Message(role="user", content="a b"),)),
                 "<|im_start|>user\na b<|im_end|><|im_start|>assistant\n"),
    "text": (TextPrompt(text="a wörd"), "a wörd"),
    "tokens": (TokenPrompt(tokens=tuple(FakeTokenizer(4).encode("a b"))), "a b"),
}  # fmt: skip


@pytest.mark.parametrize(("prompt", "text"), COUNTS.values(), ids=COUNTS.keys())
def test_a_prompt_is_counted_without_being_computed(engine, tmp_path, prompt, text):
    engine.start(write_script(tmp_path))
    engine.send(frames.Count(1, prompt), frames.Count(2, prompt, True), frames.Submit(submission(3, prompt=prompt)))
    engine.end(3)
    brief, full = (f for f in engine.frames if isinstance(f, frames.Counted))
    assert (brief.tokens, brief.text, full.text) == ((), "", text)
    assert brief.count == full.count == len(full.tokens) == engine.events(3)[0].prompt_tokens


def test_a_prompt_that_cannot_be_counted_is_answered(engine, tmp_path):
    engine.start(write_script(tmp_path, fail_render="fail"))
    engine.send(frames.Count(1, ChatPrompt(messages=(Message(role="user", content="please fail"),))))
    failed = engine.first(frames.Counted).failed
    assert (failed.code, "refuses" in failed.message) == ("template_error", True)


def test_without_templates_there_is_nothing_to_disagree_with(engine, tmp_path):
    engine.start(write_script(tmp_path))
    engine.send(frames.Probe(1, None, {}, "hermes_json", "think_tags"))
    assert engine.first(frames.Probed) == frames.Probed(1, {})


# ---- what is refused
@pytest.mark.parametrize(
    ("more", "code", "message"),
    [
        pytest.param(
            {"text": "x" * 400, "context": 50},
            "context_length_exceeded",
            "This model's maximum context length is 50 tokens. However, your prompt resulted in",
            id="a prompt over the context",
        ),
        pytest.param({"text": "please fail"}, "template_error", "the template refuses", id="the template refuses"),
        pytest.param({"prompt": TokenPrompt(tokens=())}, "invalid_value", "empty", id="no tokens"),
        pytest.param(
            {"prompt": TokenPrompt(tokens=(1 << 50,))},
            "invalid_value",
            "vocabulary",
            id="a token that does not exist",
        ),
    ],
)
def test_a_request_that_cannot_be_prepared_fails_alone(engine, tmp_path, more, code, message):
    engine.start(write_script(tmp_path, fail_render="fail"))
    engine.send(frames.Submit(submission(1, **more)), frames.Submit(submission(2, "fine")))
    failed = engine.end(1)
    assert isinstance(failed, Failed)
    assert failed.code == code and message in failed.message
    engine.end(2)
    assert engine.text(2) == "fine"


@pytest.mark.parametrize(
    ("max_tokens", "context", "answered"),
    [
        pytest.param(None, 40, None, id="to the end of the context"),
        pytest.param(5, 4096, 5, id="max_tokens"),
        (0, 4096, 0),
    ],
)
def test_an_answer_has_as_many_tokens_as_asked_and_fit(engine, tmp_path, max_tokens, context, answered):
    engine.start(write_script(tmp_path, text="x", endless=True, token_bytes=1))
    sampling = msgspec.structs.replace(GREEDY, max_tokens=max_tokens)
    engine.send(frames.Submit(submission(1, "hi", sampling, context=context)))
    finished = engine.end(1)
    expected = context - finished.usage.prompt_tokens if answered is None else answered
    assert (finished.reason, finished.usage.completion_tokens) == ("length", expected)
    assert len(engine.text(1)) == expected


# ---- cancelling, settings, gauges
def test_a_cancel_stops_one_and_leaves_the_other(engine, tmp_path):
    engine.start(write_script(tmp_path, **SLOW))
    engine.send(frames.Submit(submission(1)), frames.Submit(submission(2)))
    engine.until(lambda: len(engine.tokens(1)) > 3)
    engine.send(frames.Cancel(1))
    assert engine.end(1).reason == "cancelled"
    assert engine.pong(1).gauges.running == 1
    assert engine.end(2).usage.completion_tokens == 301
    assert len(engine.tokens(1)) < 301


def test_a_cancel_right_after_its_request_ends_it_too(engine, tmp_path):
    engine.start(write_script(tmp_path, **SLOW))
    engine.send(
        *(frame for id in range(20) for frame in (frames.Submit(submission(id, "x" * 50)), frames.Cancel(id)))
    )
    assert {engine.end(id).reason for id in range(20)} == {"cancelled"}
    assert (engine.pong(1).gauges.running, engine.pong(2).gauges.waiting) == (0, 0)


def test_settings_change_while_it_runs(engine, tmp_path):
    engine.start(write_script(tmp_path, **SLOW), msgspec.structs.replace(SETTINGS, concurrency=1))
    engine.send(*(frames.Submit(submission(id)) for id in (1, 2)))
    engine.until(lambda: len(engine.tokens(1)) > 3)
    assert (engine.pong(1).gauges.running, engine.pong(2).gauges.waiting) == (1, 1)
    engine.send(frames.Configure(SETTINGS))
    engine.until(lambda: engine.tokens(2))
    assert engine.pong(3).gauges.running == 2


def test_gauges_tell_memory_and_steps(engine, tmp_path):
    engine.start(write_script(tmp_path, **SLOW, kv_bytes_per_token=10))
    assert engine.pong(1) == frames.Pong(1)
    engine.send(frames.Submit(submission(1)))
    engine.until(lambda: len(engine.tokens(1)) > 3)
    running = engine.pong(2)
    assert running.gauges.kv_bytes > 0 and running.steps > 3
    engine.end(1)
    engine.send(frames.Submit(submission(2)))
    assert engine.until(lambda: engine.events(2))[0].cached_tokens > 0
    assert engine.pong(3).gauges.prefix_bytes > 0


def test_a_ping_is_answered_during_a_load_and_a_long_step(engine, tmp_path):
    script = write_script(tmp_path, load_ms=300, text="x", step_ms=300)
    engine.send(frames.Hello(frames.VERSION, "demo", EngineSpec(backend="fake", path=str(script)), SETTINGS))
    engine.until(lambda: any(isinstance(f, frames.Progress) for f in engine.frames))
    engine.pong(1)
    assert not any(isinstance(f, frames.Ready) for f in engine.frames)
    engine.first(frames.Ready)
    engine.send(frames.Submit(submission(1)))
    engine.until(lambda: engine.events(1))
    assert engine.pong(2).gauges.running == 1
    assert engine.tokens(1) == []


def test_an_idle_engine_uses_no_processor(engine, tmp_path):
    engine.start(write_script(tmp_path))
    engine.send(frames.Submit(submission(1, "hi")))
    engine.end(1)
    engine.pong(1)

    def switches() -> int:
        with open(f"/proc/{engine.process.pid}/status") as status:
            return sum(int(line.split()[1]) for line in status if "ctxt_switches" in line)

    if sys.platform == "linux":
        before = switches()
        for nonce in range(2, 50):
            engine.pong(nonce)
        assert switches() - before <= 5, "the step loop's thread sleeps"


# ---- dying
@pytest.mark.parametrize("when", ["before the hello", "while loading", "idle", "in a long step"])
def test_the_end_of_the_server_is_the_end_of_the_engine(engine, tmp_path, when):
    script = write_script(tmp_path, load_ms=60_000 if when == "while loading" else 0, text="x", step_ms=60_000)
    if when == "before the hello":
        engine.first(frames.HelloBack)
    elif when == "while loading":
        engine.send(frames.Hello(frames.VERSION, "demo", EngineSpec(backend="fake", path=str(script)), SETTINGS))
        engine.first(frames.Progress)
    else:
        engine.start(script)
    if when == "in a long step":
        engine.send(frames.Submit(submission(1)))
        engine.until(lambda: engine.events(1))
    engine.link.close()
    assert engine.process.wait(30) == 0


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        pytest.param(signal.SIGINT, None, id="ctrl-c is the server's"),
        pytest.param(signal.SIGTERM, -15, id="term ends it"),
    ],
)
def test_signals(engine, tmp_path, sent, code):
    engine.start(write_script(tmp_path))
    engine.process.send_signal(sent)
    if code is None:
        engine.send(frames.Submit(submission(1, "still here")))
        engine.end(1)
        assert engine.text(1) == "still here"
    else:
        assert exit_code(engine) == code


def test_garbage_on_the_socket_ends_it(engine, tmp_path):
    engine.start(write_script(tmp_path))
    engine.link.sendall(b"\xff" * 100)
    assert exit_code(engine) == 0


@pytest.mark.parametrize(
    ("how", "code"),
    [("kill", -signal.SIGKILL), ("abort", -signal.SIGABRT), ("exit", 3), ("exception", 70)],
)
def test_a_crash_comes_after_the_tokens_before_it(engine, tmp_path, how, code):
    engine.start(write_script(tmp_path, text="abcdef", token_bytes=1, crash_after=3, crash_how=how))
    engine.send(frames.Submit(submission(1)))
    assert exit_code(engine) == code
    assert engine.text(1) == "abc"


def test_a_crash_can_be_for_one_prompt_and_for_one_time(tmp_path):
    script = write_script(tmp_path, crash_on="poison", crash_times=1)
    with running_engine() as first:
        first.start(script)
        first.send(frames.Submit(submission(1, "healthy")))
        first.end(1)
        first.send(frames.Submit(submission(2, "poison")))
        assert exit_code(first) == -signal.SIGKILL
    with running_engine() as second:
        second.start(script)
        second.send(frames.Submit(submission(2, "poison")))
        second.end(2)
        assert second.text(2) == "poison"


def test_a_fault_of_the_device_fails_its_rows_and_the_engine_lives(engine, tmp_path):
    engine.start(write_script(tmp_path, when=[{"contains": "bad", "text": "xxxx", "fault_after": 1}]))
    engine.send(frames.Submit(submission(1, "bad")))
    assert engine.end(1).code == "engine_error"
    engine.send(frames.Submit(submission(2, "good")))
    assert isinstance(engine.end(2), Finished)
    assert engine.text(2) == "good"


def test_a_fault_of_the_device_at_launch_comes_after_the_tokens_before_it(engine, tmp_path):
    script = {"text": "x" * 1000, "token_bytes": 1, "step_ms": 5}
    engine.start(write_script(tmp_path, **script, when=[{"contains": "bad", "fault_after": 9, "fault_at": "launch"}]))
    engine.send(frames.Submit(submission(1, "good")))
    engine.until(lambda: engine.tokens(1))
    engine.send(frames.Submit(submission(2, "bad")))
    assert exit_code(engine) == 70
    assert engine.text(2) == "x" * 9
    assert len(engine.tokens(1)) > 9


def test_an_adapter_that_does_not_fit_is_told_at_load_and_fails_those_who_ask_for_it(tmp_path):
    settings = msgspec.structs.replace(SETTINGS, adapters=("/no/such/adapter",))
    with running_engine() as engine:
        ready = engine.start(write_script(tmp_path, text="yes"), settings)
        assert any("/no/such/adapter cannot be used" in note for note in ready.info.notes)
        engine.send(
            frames.Submit(submission(1, "hi", adapter="/no/such/adapter")), frames.Submit(submission(2, "hi"))
        )
        refused = engine.end(1)
        assert isinstance(refused, Failed)
        assert refused.param == "adapter"
        assert isinstance(engine.end(2), Finished)
        assert engine.text(2) == "yes"
