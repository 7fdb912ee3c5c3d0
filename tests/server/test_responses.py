"""Responses through the official client, against the real process."""

import asyncio
import re
import threading
import time
from typing import Any

import httpx
import openai
import pytest
from openai.types.responses import Response

from tests.server.up import PATIENCE, Up

WEATHER: Any = {
    "type": "function",
    "name": "weather",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    "strict": False,
}


def ask(up: Up, **fields: Any) -> Any:
    return up.client().responses.create(**{"model": "demo", "input": "hi", **fields})


def test_a_whole_response(up: Up) -> None:
    response = ask(up)
    assert (response.output_text, response.status, response.model) == ("You said: hi", "completed", "demo")
    assert response.id.startswith("resp_")
    assert response.usage.total_tokens == response.usage.input_tokens + response.usage.output_tokens


CUSTOM: Any = {"type": "custom", "name": "weather"}


@pytest.mark.parametrize("tool", [WEATHER, CUSTOM], ids=["a function", "a custom tool"])
@pytest.mark.parametrize("words", ["hi", "weather in Zürich?", "all cities"])
def test_a_streamed_response_is_the_whole_one(up: Up, words: str, tool: Any) -> None:
    with up.client().responses.stream(model="agent", input=words, tools=[tool]) as stream:
        kinds = [event.type for event in stream]
        streamed = stream.get_final_response()
    whole = ask(up, model="agent", input=words, tools=[tool])
    assert (kinds[0], kinds[-1]) == ("response.created", "response.completed")
    assert _plain(streamed) == _plain(whole)


def test_thoughts_are_their_own_summary_where_that_is_asked(up: Up) -> None:
    asked: Any = {"model": "agent", "input": "ponder", "reasoning": {"summary": "auto"}}
    with up.client().responses.stream(**asked) as stream:
        kinds = [event.type for event in stream]
        streamed = stream.get_final_response()
    begun = kinds.index("response.reasoning_summary_part.added")
    assert kinds[begun - 1] == "response.output_item.added"
    assert kinds[begun + 1 : kinds.index("response.output_item.done") + 1] == [
        *["response.reasoning_summary_text.delta"] * kinds.count("response.reasoning_summary_text.delta"),
        "response.reasoning_summary_text.done",
        "response.reasoning_summary_part.done",
        "response.output_item.done",
    ]
    whole = ask(up, **asked)
    assert _plain(streamed) == _plain(whole)
    thought, said = whole.output
    assert ([part.text for part in thought.summary], thought.content) == (["hm"], [])
    assert said.content[0].text == "yes"
    again = ask(up, model="agent", input=[*asked_again(whole.output), {"role": "user", "content": "ponder"}])
    plain = ask(up, model="agent", input="ponder")
    assert plain.output[0].summary == []
    kept = [*asked_again(plain.output), {"role": "user", "content": "ponder"}]
    assert again.usage.input_tokens == ask(up, model="agent", input=kept).usage.input_tokens


def asked_again(output: Any) -> list[Any]:
    """An answer as clients send it back."""
    return [item.model_dump(exclude_none=True) for item in output]


def _plain(response: Any) -> dict[str, Any]:
    plain = response.model_dump(include={"status", "output", "tools", "tool_choice"})
    for item in plain["output"]:
        for own in ("id", "call_id", "parsed_arguments"):
            item.pop(own, None)
        for part in item.get("content") or ():
            part.pop("parsed", None)
    return {**plain, "output_tokens": response.usage.output_tokens}


def test_the_asynchronous_client_streams_text(up: Up) -> None:
    async def text() -> str:
        async with openai.AsyncOpenAI(base_url=f"{up.url}/v1", api_key="any") as client:
            stream = await client.responses.create(model="demo", input="hi", stream=True)
            return "".join([event.delta async for event in stream if event.type == "response.output_text.delta"])

    assert asyncio.run(text()) == "You said: hi"


def test_an_agents_turn_with_a_tool(up: Up) -> None:
    first = ask(up, model="agent", input="weather in Zürich?", tools=[WEATHER])
    reasoning, message, call = first.output
    assert [reasoning.type, message.type, call.type] == ["reasoning", "message", "function_call"]
    assert (call.name, call.arguments) == ("weather", '{"city": "Zürich"}')
    result = {"type": "function_call_output", "call_id": call.call_id, "output": "it is sunny"}
    kept = ask(up, model="agent", input=[result], previous_response_id=first.id, tools=[WEATHER])
    sent = [{"role": "user", "content": "weather in Zürich?"}, *first.output, result]
    resent = ask(up, model="agent", input=sent, tools=[WEATHER])
    assert kept.output_text == resent.output_text == "Take a hat."
    assert kept.usage.input_tokens == resent.usage.input_tokens


def test_items_that_are_kept_need_not_be_sent_again(up: Up) -> None:
    first = ask(up, model="agent", input="weather in Zürich?", tools=[WEATHER])
    asked = up.client().responses.input_items.list(first.id).data[0]
    refers: Any = [{"type": "item_reference", "id": each.id} for each in (asked, *first.output)]
    result = {"type": "function_call_output", "call_id": first.output[-1].call_id, "output": "it is sunny"}
    sent = [{"role": "user", "content": "weather in Zürich?"}, *first.output, result]
    short, long = (ask(up, model="agent", input=turns, tools=[WEATHER]) for turns in ([*refers, result], sent))
    assert short.output_text == long.output_text == "Take a hat."
    assert short.usage.input_tokens == long.usage.input_tokens


def test_instructions_are_not_inherited(up: Up) -> None:
    first = ask(up, instructions="be very brief indeed")
    second = ask(up, previous_response_id=first.id)
    counted = up.client().responses.input_tokens.count(model="demo", input="hi", previous_response_id=first.id)
    assert second.usage.input_tokens == counted.input_tokens
    with_them = ask(up, previous_response_id=first.id, instructions="be very brief indeed")
    assert with_them.usage.input_tokens > second.usage.input_tokens


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_a_response_is_kept_until_it_is_deleted(up: Up, stream: bool) -> None:
    client = up.client()
    if stream:
        *_, last = client.responses.create(model="demo", input="hi", stream=True)
        made = last.response  # type: ignore[union-attr]
    else:
        made = ask(up)
    assert client.responses.retrieve(made.id).output_text == "You said: hi"
    items = client.responses.input_items.list(made.id).data
    assert [(item.type, item.content[0].text) for item in items] == [("message", "hi")]  # type: ignore[union-attr]
    assert all(item.id for item in items)
    client.responses.delete(made.id)
    with pytest.raises(openai.NotFoundError):
        client.responses.retrieve(made.id)
    with pytest.raises(openai.BadRequestError) as caught:
        ask(up, previous_response_id=made.id)
    assert (caught.value.code, caught.value.param) == ("previous_response_not_found", "previous_response_id")


def test_what_should_not_be_stored_is_not(up: Up) -> None:
    with pytest.raises(openai.NotFoundError):
        up.client().responses.retrieve(ask(up, store=False).id)


def test_a_limit_makes_it_incomplete(up: Up) -> None:
    response = ask(up, max_output_tokens=1)
    assert (response.status, response.incomplete_details.reason) == ("incomplete", "max_output_tokens")


def test_a_running_response_can_be_cancelled(up: Up) -> None:
    client = up.client()
    stream = client.responses.create(model="endless", input="go", stream=True)
    events = iter(stream)
    created: Any = next(events)
    cancelled = client.responses.cancel(created.response.id)
    assert cancelled.status == "cancelled"
    *_, last = events
    assert last.type == "response.failed"
    assert last.response.status == "cancelled"
    assert client.responses.retrieve(created.response.id).status == "cancelled"
    with pytest.raises(openai.BadRequestError, match="has ended already"):
        client.responses.cancel(created.response.id)


def test_a_prompt_that_is_too_long_names_the_input(up: Up) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        ask(up, model="fussy", input="word " * 200)
    assert (caught.value.code, caught.value.param) == ("context_length_exceeded", "input")


# ---- requests by id
def test_a_running_request_is_listed_and_can_be_cancelled(up: Up) -> None:
    answered: list[httpx.Response] = []

    def wait() -> None:
        body = {"model": "long", "messages": [{"role": "user", "content": "go"}]}
        headers = {"x-request-id": "my-request"}
        answered.append(httpx.post(f"{up.url}/v1/chat/completions", json=body, headers=headers, timeout=PATIENCE))

    thread = threading.Thread(target=wait)
    thread.start()
    while not (mine := [row for row in up.get("/v1/requests").json()["data"] if row["id"] == "my-request"]):
        assert thread.is_alive()
    assert (mine[0]["endpoint"], mine[0]["model"]) == ("/v1/chat/completions", "long")
    response = httpx.post(f"{up.url}/v1/requests/my-request/cancel")
    assert (response.status_code, response.json()["cancelled"]) == (200, True)
    thread.join(PATIENCE)
    assert (answered[0].status_code, answered[0].json()["error"]["code"]) == (499, "cancelled")
    assert httpx.post(f"{up.url}/v1/requests/my-request/cancel").status_code == 404


def ended(client: openai.OpenAI, id: str) -> Response:
    """Wait until nobody makes it any more."""
    end = time.monotonic() + PATIENCE
    while (now := client.responses.retrieve(id)).status in ("queued", "in_progress"):
        assert time.monotonic() < end
    return now


def test_a_response_in_the_background_is_made_while_nobody_waits(up: Up) -> None:
    client = up.client()
    begun = client.responses.create(model="demo", input="hi", background=True)
    assert (begun.status, begun.background, begun.output) == ("in_progress", True, [])
    whole = ended(client, begun.id)
    assert (whole.status, whole.output_text) == ("completed", "You said: hi")
    again = client.responses.create(model="demo", input="more", previous_response_id=begun.id)
    assert again.output_text == "You said: more"


def test_one_in_the_background_grows_and_can_be_cancelled(up: Up) -> None:
    client = up.client()
    begun = client.responses.create(model="endless", input="hi", background=True)
    up.until("appliance_generations_running", 1)
    assert client.responses.retrieve(begun.id).status == "in_progress"
    assert client.responses.cancel(begun.id).status == "cancelled"
    assert ended(client, begun.id).status == "cancelled"
    up.until("appliance_generations_running", 0)


def test_one_that_fails_in_the_background_says_so(up: Up) -> None:
    client = up.client()
    failed = ended(client, client.responses.create(model="faulty", input="hi", background=True).id)
    assert failed.status == "failed"
    assert failed.error is not None


@pytest.mark.parametrize("more", [{}, {"stream": True}], ids=["whole", "streamed"])
def test_what_cannot_be_asked_for_later_is_not_made_in_the_background(up: Up, more: dict[str, bool]) -> None:
    refused = up.post({"model": "demo", "input": "hi", "background": True, "store": False, **more}, "/v1/responses")
    assert (refused.status_code, refused.json()["error"]["param"]) == (400, "background")


# ---- streams that go on without their client
def test_a_stream_in_the_background_can_be_asked_for_again_from_any_event(up: Up) -> None:
    client = up.client()
    events = list(client.responses.create(model="demo", input="hi", background=True, stream=True))
    assert (events[0].type, events[-1].type) == ("response.created", "response.completed")
    assert [event.sequence_number for event in events] == list(range(len(events)))
    id = events[0].response.id  # type: ignore[union-attr]
    assert list(client.responses.retrieve(id, stream=True)) == events
    for after in range(len(events)):
        assert list(client.responses.retrieve(id, stream=True, starting_after=after)) == events[after + 1 :]
    assert client.responses.retrieve(id).output_text == "You said: hi"


def test_a_stream_in_the_background_goes_on_when_its_client_leaves(up: Up) -> None:
    client = up.client()
    with client.responses.create(model="long", input="hi", background=True, stream=True) as stream:
        seen = [next(stream) for _ in range(8)]
    id = seen[0].response.id  # type: ignore[union-attr]
    again = iter(client.responses.retrieve(id, stream=True, starting_after=seen[-1].sequence_number))
    more = [next(again) for _ in range(8)]
    assert [event.sequence_number for event in more] == list(range(8, 16))
    client.responses.cancel(id)
    *_, last = again
    assert (last.type, last.response.status) == ("response.failed", "cancelled")
    up.until("appliance_generations_running", 0)


def test_one_that_fails_in_the_background_says_so_in_its_stream(up: Up) -> None:
    *_, last = up.client().responses.create(model="faulty", input="hi", background=True, stream=True)
    assert (last.type, last.response.status) == ("response.failed", "failed")  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("asked", "query", "param"),
    [
        ({}, "stream=true", "stream"),
        ({"background": True}, "stream=true", "stream"),
        ({"stream": True, "background": True}, "stream=perhaps", "stream"),
        ({"stream": True, "background": True}, "stream=true&starting_after=-1", "starting_after"),
        ({"stream": True, "background": True}, "stream=true&starting_after=x", "starting_after"),
    ],
    ids=["not in the background", "not streamed", "no flag", "below the first", "no number"],
)
def test_what_cannot_be_streamed_again_is_refused(up: Up, asked: dict[str, bool], query: str, param: str) -> None:
    made = up.post({"model": "demo", "input": "hi", **asked}, "/v1/responses")
    id = re.search(r"resp_\w+", made.text)[0]  # type: ignore[index]
    refused = up.get(f"/v1/responses/{id}?{query}")
    assert (refused.status_code, refused.json()["error"]["param"]) == (400, param)


def test_a_conversation_is_cut_to_fit_where_that_is_asked(up: Up) -> None:
    turns = [{"role": role, "content": f"word {n} " * 4} for n in range(8) for role in ("user", "assistant")]
    body = {"model": "fussy", "instructions": "be brief", "input": [*turns, {"role": "user", "content": "now"}]}
    refused = up.post(body, "/v1/responses")
    assert (refused.status_code, refused.json()["error"]["code"]) == (400, "context_length_exceeded")
    cut = up.post({**body, "truncation": "auto"}, "/v1/responses").json()
    assert (cut["status"], cut["truncation"]) == ("completed", "auto")
    assert cut["output"][0]["content"][0]["text"] == "now"
    long = up.post({**body, "input": "word " * 300, "truncation": "auto"}, "/v1/responses")
    assert long.status_code == 400
