"""Anthropic's message batches over real sockets with the official client."""

import signal
import time
from pathlib import Path
from typing import Any

import anthropic
import pytest
from anthropic.types.messages import MessageBatch

from tests.server.up import PATIENCE, POLL_SECONDS, Up, deployment


def ask(id: str, model: str = "steady", **more: Any) -> Any:
    messages = [{"role": "user", "content": f"number {id}"}]
    return {"custom_id": id, "params": {"model": model, "max_tokens": 99, "messages": messages, **more}}


def until(client: anthropic.Anthropic, batch: MessageBatch, status: str) -> MessageBatch:
    end = time.monotonic() + PATIENCE
    while (now := client.messages.batches.retrieve(batch.id)).processing_status != status:
        assert time.monotonic() < end, now
        time.sleep(POLL_SECONDS)
    return now


def results(client: anthropic.Anthropic, batch: MessageBatch) -> dict[str, Any]:
    lines = list(client.messages.batches.results(batch.id))
    found = {line.custom_id: line.result for line in lines}
    assert len(found) == len(lines)
    return found


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "steady.yaml").write_text("text: 'answered {last}'\nstep_ms: 20\n")
    written = deployment(tmp_path, "reload: {watch: false}")
    written.write_text(written.read_text() + "  steady: {source: 'fake:./steady.yaml', concurrency: 4}\n")
    return written


def test_every_request_is_answered_and_told(running: Up) -> None:
    client = running.anthropic()
    wrong = [ask("unknown", "nothing"), ask("hot", temperature=99), ask("streamed", stream=True)]
    begun = client.messages.batches.create(requests=[*(ask(str(n)) for n in range(70)), *wrong])
    assert (begun.processing_status, begun.request_counts.processing, begun.results_url) == ("in_progress", 73, None)
    ended = until(client, begun, "ended")
    assert (ended.request_counts.succeeded, ended.request_counts.errored) == (70, 3)
    told = results(client, ended)
    for n in range(70):
        assert told[str(n)].type == "succeeded"
        assert told[str(n)].message.content[0].text == f"answered number {n}"
    kinds = {id: told[id].error.error.type for id in ("unknown", "hot", "streamed")}
    assert kinds == {
        "unknown": "not_found_error",
        "hot": "invalid_request_error",
        "streamed": "invalid_request_error",
    }
    assert running.get("/v1/batches").json()["data"] == [] == running.get("/v1/files").json()["data"]
    assert running.get(f"/v1/batches/{begun.id}").status_code == 404


def test_a_cancelled_batch_tells_what_it_did_not_answer_and_can_be_removed(running: Up) -> None:
    client = running.anthropic()
    batches = client.messages.batches
    first = batches.create(requests=[ask("a"), *(ask(f"e{n}", "endless", max_tokens=100_000) for n in range(20))])
    other = batches.create(requests=[ask("b")])
    until(client, other, "ended")
    with pytest.raises(anthropic.BadRequestError, match="cancel it first"):
        batches.delete(first.id)
    early = running.get(f"/v1/messages/batches/{first.id}/results")
    assert (early.status_code, early.json()["error"]["type"]) == (400, "invalid_request_error")
    assert batches.cancel(first.id).cancel_initiated_at is not None
    ended = until(client, first, "ended")
    told = results(client, ended)
    assert {each.type for id, each in told.items() if id != "a"} == {"canceled"}
    assert (len(told), ended.request_counts.canceled) == (21, sum(each.type == "canceled" for each in told.values()))
    assert {each.id for each in batches.list()} == {first.id, other.id} == {each.id for each in batches.list(limit=1)}
    assert batches.delete(first.id).id == first.id
    with pytest.raises(anthropic.NotFoundError):
        batches.retrieve(first.id)
    assert [each.id for each in batches.list()] == [other.id]


def test_a_killed_server_goes_on_where_it_was(file: Path) -> None:
    with Up.start(file) as first:
        client = first.anthropic()
        batch = client.messages.batches.create(requests=[ask(str(n)) for n in range(40)])
        while first.metric('appliance_time_to_first_token_seconds_count{model="steady"}') < 12:
            assert first.anthropic().messages.batches.retrieve(batch.id).processing_status == "in_progress"
        first.signal(signal.SIGKILL)
        first.exit_code()
    with Up.start(file) as second:
        client = second.anthropic()
        ended = until(client, batch, "ended")
        assert ended.request_counts.succeeded == 40
        assert set(results(client, ended)) == {str(n) for n in range(40)}
        client.messages.batches.delete(batch.id)
    assert [each.name for each in file.parent.glob(".appliance/state/*/files/*")] == []
