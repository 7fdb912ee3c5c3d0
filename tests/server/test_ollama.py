"""Ollama's API through its official client, against the real process."""

import asyncio
from typing import Any

import httpx
import ollama
import pytest

from tests.server.up import Up

HI = [{"role": "user", "content": "hi"}]


def weather(city: str) -> str:
    """The weather of a city.

    Args:
        city: Which one.
    """
    return f"it is sunny in {city}"


def client(up: Up) -> ollama.Client:
    return ollama.Client(host=up.url)


def test_a_chat_whole_and_streamed(up: Up) -> None:
    whole = client(up).chat("demo", HI)
    assert (whole.message.content, whole.done, whole.done_reason) == ("You said: hi", True, "stop")
    *parts, last = client(up).chat("demo:latest", HI, stream=True)
    assert "".join(part.message.content or "" for part in parts) == "You said: hi"
    assert (last.done, last.eval_count) == (True, whole.eval_count)
    assert last.total_duration


def test_a_text_whole_and_streamed(up: Up) -> None:
    assert client(up).generate("demo", "hi").response == "You said: hi"
    assert "".join(part.response or "" for part in client(up).generate("demo", "hi", stream=True)) == "You said: hi"
    assert client(up).generate("demo", "hi", raw=True).prompt_eval_count == 1


def test_the_asynchronous_client_streams(up: Up) -> None:
    async def text() -> str:
        stream = await ollama.AsyncClient(host=up.url).chat("demo", HI, stream=True)
        return "".join([part.message.content or "" async for part in stream])

    assert asyncio.run(text()) == "You said: hi"


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_an_agents_turn_with_a_tool(up: Up, stream: bool) -> None:
    asked: list[Any] = [{"role": "user", "content": "weather in Zürich?"}]
    if stream:
        parts = list(client(up).chat("agent", asked, tools=[weather], stream=True, think=True))
        calls = [one for part in parts for one in part.message.tool_calls or ()]
        thinking = "".join(part.message.thinking or "" for part in parts)
    else:
        message = client(up).chat("agent", asked, tools=[weather], think=True).message
        calls, thinking = list(message.tool_calls or ()), message.thinking or ""
    assert thinking == "where?"
    assert [(one.function.name, one.function.arguments) for one in calls] == [("weather", {"city": "Zürich"})]
    result = {"role": "tool", "tool_name": "weather", "content": weather("Zürich")}
    turns = [*asked, {"role": "assistant", "content": "", "tool_calls": calls}, result]
    assert client(up).chat("agent", turns, tools=[weather]).message.content == "Take a hat."


def test_asking_for_nothing_loads_the_model(up: Up) -> None:
    assert client(up).generate("demo").done_reason == "load"
    assert "demo:latest" in [model.model for model in client(up).ps().models]


def test_models_are_listed_and_shown(up: Up) -> None:
    names = [model.model for model in client(up).list().models]
    assert {"demo:latest", "fast:latest"} <= set(names)
    shown = client(up).show("agent:latest")
    assert shown.capabilities == ["completion", "tools", "thinking"]
    assert shown.modelinfo is not None
    assert shown.modelinfo["qwen3.context_length"] > 0
    assert up.get("/api/version").json()["version"]


ERRORS: dict[str, tuple[str, dict[str, Any], int, str]] = {
    "unknown model": ("/api/chat", {"model": "nothing", "messages": HI}, 404, "no model"),
    "unknown model shown": ("/api/show", {"model": "nothing"}, 404, "no model"),
    "nothing shown": ("/api/show", {}, 400, "required"),
    "a bad field": ("/api/generate", {"model": "demo", "prompt": 5}, 400, "`prompt`"),
    "a failure of the engine": ("/api/chat", {"model": "faulty", "messages": HI, "stream": False}, 500, "fault"),
}


@pytest.mark.parametrize(("path", "body", "status", "words"), ERRORS.values(), ids=ERRORS.keys())
def test_an_error_is_one_sentence(up: Up, path: str, body: dict[str, Any], status: int, words: str) -> None:
    response = up.post(body, path)
    assert response.status_code == status
    assert list(response.json()) == ["error"]
    assert words in response.json()["error"]


def test_a_failure_in_the_stream_is_raised(up: Up) -> None:
    with pytest.raises(ollama.ResponseError, match="fault"):
        list(client(up).chat("faulty", HI, stream=True))


@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_clients_find_that_somebody_is_there(up: Up, method: str) -> None:
    answer = httpx.request(method, up.url)
    assert answer.status_code == 200
    assert answer.text == ("Ollama is running" if method == "GET" else "")
