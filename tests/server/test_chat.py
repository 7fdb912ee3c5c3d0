"""Chat completions through the official client, against the real process."""

import json
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
from openai.types.chat import ChatCompletionMessageParam

from tests.server.up import Up, chat, deployment

HI: list[ChatCompletionMessageParam] = [{"role": "user", "content": "hi"}]


def test_a_whole_answer(up: Up) -> None:
    answer = up.client().chat.completions.create(model="demo", messages=HI)
    (choice,) = answer.choices
    assert (choice.message.role, choice.message.content) == ("assistant", "You said: hi")
    assert choice.finish_reason == "stop"
    assert answer.usage is not None
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens
    assert answer.model == "demo"
    assert answer.id.startswith("chatcmpl-")


def test_a_streamed_answer_is_the_whole_one(up: Up) -> None:
    client = up.client()
    with client.chat.completions.stream(model="demo", messages=HI, stream_options={"include_usage": True}) as stream:
        for _ in stream:
            pass
        streamed = stream.get_final_completion()
    whole = client.chat.completions.create(model="demo", messages=HI)
    assert streamed.choices[0].message.content == whole.choices[0].message.content
    assert streamed.choices[0].finish_reason == whole.choices[0].finish_reason
    assert streamed.usage is not None
    assert whole.usage is not None
    assert streamed.usage.completion_tokens == whole.usage.completion_tokens


def test_a_streamed_answer_holds_the_calls_of_custom_tools(up: Up) -> None:
    """As far as the client's helper collects them: `get_final_completion` of openai 3.57.0 fails on such a call."""
    asked: Any = [{"role": "user", "content": "all cities"}]
    tools: Any = [{"type": "custom", "custom": {"name": "weather"}}]
    with up.client().chat.completions.stream(model="agent", messages=asked, tools=tools) as stream:
        for _ in stream:
            pass
        (choice,) = stream.current_completion_snapshot.model_dump()["choices"]
    calls = [(call["type"], call["custom"]["input"]) for call in choice["message"]["tool_calls"]]
    assert calls == [("custom", '{"city": "Bern"}'), ("custom", '{"city": "Rom"}')]
    assert choice["finish_reason"] == "tool_calls"


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_several_answers_come_in_order(up: Up, stream: bool) -> None:
    client = up.client()
    if stream:
        with client.chat.completions.stream(model="demo", messages=HI, n=3) as events:
            for _ in events:
                pass
            answer: Any = events.get_final_completion()
    else:
        answer = client.chat.completions.create(model="demo", messages=HI, n=3)
    assert [choice.index for choice in answer.choices] == [0, 1, 2]
    assert {choice.message.content for choice in answer.choices} == {"You said: hi"}


@pytest.mark.parametrize("stop", ["said", ["zzz", " said"]], ids=["one", "several"])
def test_a_stop_string_ends_the_text_before_it(up: Up, stop: Any) -> None:
    answer = up.client().chat.completions.create(model="demo", messages=HI, stop=stop)
    assert (answer.choices[0].message.content or "").strip() == "You"
    assert answer.choices[0].finish_reason == "stop"


def test_max_tokens_ends_it_with_length(up: Up) -> None:
    answer = up.client().chat.completions.create(model="demo", messages=HI, max_tokens=1)
    assert answer.choices[0].finish_reason == "length"
    assert answer.usage is not None
    assert answer.usage.completion_tokens == 1


def test_log_probabilities_join_to_the_text(up: Up) -> None:
    answer = up.client().chat.completions.create(model="demo", messages=HI, logprobs=True, top_logprobs=2)
    choice = answer.choices[0]
    assert choice.logprobs is not None
    assert choice.logprobs.content is not None
    raw = b"".join(bytes(item.bytes or []) for item in choice.logprobs.content)
    assert raw.decode() == choice.message.content


NAMES = {"the model": "demo", "an alias": "fast", "a glob": "gpt-4o-mini", "a hidden alias": "quiet"}


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES.keys())
def test_the_answer_echoes_the_name_and_a_header_says_what_served(up: Up, name: str) -> None:
    response = up.client().chat.completions.with_raw_response.create(model=name, messages=HI)
    assert response.parse().model == name
    assert response.headers["x-appliance-model"] == "demo"
    assert response.headers["x-appliance-generation"] == "1"
    assert float(response.headers["x-appliance-queue-ms"]) >= 0
    assert float(response.headers["x-appliance-load-ms"]) >= 0


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_a_header_says_how_much_of_the_prompt_was_cached_and_why_no_more(up: Up, stream: bool) -> None:
    said = []
    for text in (f"a question of its own {stream}", f"a question of its own {stream}", f"nobody asked {stream}"):
        body = chat("demo", stream=stream, messages=[{"role": "user", "content": text}])
        said.append(re.fullmatch(r"hit=(\d+)/(\d+) reason=(\w+)", up.post(body).headers["x-appliance-cache"]))
    (_, again, other) = [match.groups() if match else None for match in said]
    assert again is not None and other is not None
    assert (int(again[0]), again[2]) == (int(again[1]) - 1, "whole")
    assert other[2] == "differs"


def test_every_answer_has_its_own_ids(up: Up) -> None:
    answers = [up.post(chat("demo")) for _ in range(2)]
    assert len({answer.headers["x-request-id"] for answer in answers}) == 2
    assert len({answer.json()["id"] for answer in answers}) == 2
    assert answers[0].headers["request-id"] == answers[0].headers["x-request-id"]


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_a_clients_id_comes_back_with_the_time_it_took(up: Up, stream: bool) -> None:
    answer = up.post(chat("demo", stream=stream), headers={"x-request-id": "mine-1"})
    assert answer.headers["x-request-id"] == answer.headers["request-id"] == "mine-1"
    assert int(answer.headers["openai-processing-ms"]) >= 0


def test_an_id_that_is_no_word_is_replaced(up: Up) -> None:
    answer = up.post(chat("demo"), headers={"x-request-id": "two words"})
    assert answer.headers["x-request-id"].startswith("req_")


def test_unknown_fields_are_named_in_a_header(up: Up) -> None:
    response = up.post(chat("demo", flavour="5m", **{"odd\r\nx-evil: 1": 1}))
    assert response.status_code == 200
    assert response.headers["x-appliance-ignored"] == "flavour, odd%0D%0Ax-evil: 1"
    assert "x-evil" not in response.headers


def test_what_a_policy_changed_is_named_in_a_header(up: Up) -> None:
    response = up.post(chat("strict", temperature=0.7, max_tokens=100))
    assert response.headers["x-appliance-params"] == "temperature=locked(0.7>0.0), max_tokens=clamped(100>3)"
    assert response.json()["usage"]["completion_tokens"] == 3


def test_unknown_fields_can_be_refused(tmp_path: Path) -> None:
    with Up.start(deployment(tmp_path, "unknown_fields: reject")) as running:
        error = running.post(chat("demo", flavour="mint")).json()["error"]
        assert (error["param"], error["code"]) == ("flavour", "invalid_value")
        assert running.post(chat("demo", user="ann", store=False)).status_code == 200


def test_a_stream_is_served_as_server_sent_events(up: Up) -> None:
    response = up.post(chat("demo", stream=True))
    assert response.headers["content-type"].startswith("text/event-stream")
    assert response.headers["cache-control"] == "no-cache"
    assert response.content.endswith(b"data: [DONE]\n\n")


def test_a_body_without_a_length_is_read(up: Up) -> None:
    def pieces() -> Any:
        yield b'{"model": "demo", '
        yield b'"messages": [{"role": "user", "content": "hi"}]}'

    response = up.post(b"", headers={"content-type": "application/json; charset=utf-8"})
    assert response.status_code == 400
    response = httpx.post(f"{up.url}/v1/chat/completions", content=pieces(), timeout=30)
    assert response.json()["choices"][0]["message"]["content"] == "You said: hi"


def test_clients_that_come_while_a_model_loads_share_the_load(up: Up) -> None:
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda _: up.post(chat("slow")), range(4)))
    assert {a.json()["choices"][0]["message"]["content"] for a in answers} == {"slow but sure"}
    assert sum("model.ready" in line and "model=slow" in line for line in up.errors) == 1


def test_tokens_are_counted_exactly(up: Up) -> None:
    name = 'appliance_generated_tokens_total{model="demo"}'
    before = up.metric(name)
    usages = [up.post(chat("demo", text)).json()["usage"]["completion_tokens"] for text in ("a", "some words")]
    assert up.metric(name) == before + sum(usages)


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_the_stop_string_is_part_of_the_answer_where_that_is_asked(up: Up, stream: bool) -> None:
    body = chat("demo", "one two three", stop=["two"], include_stop_str_in_output=True)
    if not stream:
        choice = up.post(body).json()["choices"][0]
        assert (choice["message"]["content"], choice["finish_reason"]) == ("You said: one two", "stop")
        return
    chunks = [json.loads(line[6:]) for line in up.post({**body, "stream": True}).text.split("\n\n")[:-2]]
    assert "".join(chunk["choices"][0]["delta"].get("content", "") for chunk in chunks) == "You said: one two"


def test_a_gap_is_filled_in_where_the_model_can(up: Up) -> None:
    body = {"model": "coder", "prompt": "left ", "suffix": " right"}
    text = up.post(body, "/v1/completions").json()["choices"][0]["text"]
    assert text == "[left  right]"
    refused = up.post({**body, "model": "demo"}, "/v1/completions")
    assert (refused.status_code, refused.json()["error"]["param"]) == (400, "suffix")
    filled = up.post({**body, "stream": False}, "/api/generate").json()["response"]
    assert filled == text
