"""Files and batches over real sockets with the official client, through kills and restarts."""

import json
import os
import signal
import time
from collections import Counter
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest
from openai.types import Batch

from tests.server.up import PATIENCE, POLL_SECONDS, Up, chat, deployment

CHAT = "/v1/chat/completions"
STEADY = "text: 'answered {last}'\nstep_ms: 20\n"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "steady.yaml").write_text(STEADY)
    written = deployment(tmp_path, "reload: {watch: false}")
    written.write_text(written.read_text() + "  steady: {source: 'fake:./steady.yaml', concurrency: 4}\n")
    return written


def requests(count: int, model: str = "steady", **more: Any) -> list[dict[str, Any]]:
    return [
        {"custom_id": f"r{n}", "method": "POST", "url": CHAT,
         "body": {"model": model, "messages": [{"role": "user", "content": f"number {n}"}], **more}}
        for n in range(count)
    ]  # fmt: skip


def begin(client: openai.OpenAI, lines: list[dict[str, Any]], endpoint: Any = CHAT, **more: Any) -> Batch:
    content = "\n".join(json.dumps(line) for line in lines).encode()
    sent = client.files.create(file=("in.jsonl", content), purpose="batch")
    asked = {"completion_window": "24h", **more}
    return client.batches.create(input_file_id=sent.id, endpoint=endpoint, **asked)


def until(client: openai.OpenAI, batch: Batch, *statuses: str, done: int = 0) -> Batch:
    """Wait until it is in one of these states and so many of its lines are done."""
    end = time.monotonic() + PATIENCE
    while True:
        now = client.batches.retrieve(batch.id)
        assert now.request_counts is not None
        if now.status in statuses and now.request_counts.completed >= done:
            return now
        assert time.monotonic() < end, now
        time.sleep(POLL_SECONDS)


def results(client: openai.OpenAI, id: str | None) -> dict[str, Any]:
    """The lines of a file by custom id; each is there once."""
    assert id is not None
    lines = [json.loads(line) for line in client.files.content(id).text.splitlines()]
    assert max(Counter(line["custom_id"] for line in lines).values()) == 1
    return {line["custom_id"]: line for line in lines}


def test_a_file_is_sent_listed_given_back_and_removed(running: Up) -> None:
    client = running.client()
    content = os.urandom(3 << 20)
    sent = client.files.create(file=("data ü.bin", content), purpose="batch")
    assert (sent.bytes, sent.filename, sent.purpose) == (len(content), "data ü.bin", "batch")
    assert client.files.retrieve(sent.id) == sent
    assert client.files.content(sent.id).read() == content
    other = client.files.create(file=b"x", purpose="batch", expires_after={"anchor": "created_at", "seconds": 3600})
    assert other.expires_at == other.created_at + 3600
    assert {each.id for each in client.files.list()} == {sent.id, other.id}
    assert len(client.files.list(limit=1).data) == 1
    assert client.files.delete(sent.id).deleted
    with pytest.raises(openai.NotFoundError) as gone:
        client.files.content(sent.id)
    assert (gone.value.code, gone.value.param) == ("file_not_found", "file_id")


BAD_UPLOADS: dict[str, tuple[dict[str, Any], str | None]] = {
    "no file": ({"data": {"purpose": "batch"}, "files": {"other": b"x"}}, "other"),
    "no purpose": ({"files": {"file": b"x"}}, "purpose"),
    "another purpose": ({"data": {"purpose": "fine-tune"}, "files": {"file": b"x"}}, "purpose"),
    "two files": ({"data": {"purpose": "batch"}, "files": [("file", b"x"), ("file", b"y")]}, "file"),
    "no form": ({"json": {"purpose": "batch"}}, None),
    "a cut form": ({"content": b"--b\r\n", "headers": {"content-type": "multipart/form-data; boundary=b"}}, None),
}


@pytest.mark.parametrize(("sent", "param"), BAD_UPLOADS.values(), ids=BAD_UPLOADS.keys())
def test_a_wrong_upload_is_refused_and_leaves_nothing(up: Up, sent: dict[str, Any], param: str | None) -> None:
    before = up.get("/v1/files").json()
    said = httpx.post(f"{up.url}/v1/files", timeout=PATIENCE, **sent)
    assert (said.status_code, said.json()["error"]["param"]) == (400, param)
    assert up.get("/v1/files").json() == before


def test_a_disk_that_takes_nothing_is_said_and_no_bug(running: Up, tmp_path: Path) -> None:
    client = running.client().with_options(max_retries=0)
    kept = next(tmp_path.rglob("state/*/files"))
    moved = kept.rename(kept.with_name("elsewhere"))
    try:
        with pytest.raises(openai.InternalServerError, match="the server's disk cannot be used") as refused:
            client.files.create(file=("in.jsonl", b"{}"), purpose="batch")
        assert (refused.value.status_code, refused.value.code) == (507, "insufficient_storage")
        assert str(kept) in running.wait_for("request.not_stored")
        assert not [line for line in running.errors if "Traceback" in line]
    finally:
        moved.rename(kept)
    assert client.files.create(file=("in.jsonl", b"{}"), purpose="batch").bytes == 2


def test_every_line_is_answered_once(running: Up) -> None:
    client = running.client()
    lines = requests(12)
    lines[3]["body"]["model"] = "nothing"
    lines[4]["body"]["temperature"] = 99
    lines[5]["body"]["stream"] = True
    batch = until(client, begin(client, lines, metadata={"night": "1"}), "completed")
    assert batch.request_counts is not None
    assert (batch.request_counts.total, batch.request_counts.completed, batch.request_counts.failed) == (12, 9, 3)
    assert batch.metadata == {"night": "1"}
    answers, errors = results(client, batch.output_file_id), results(client, batch.error_file_id)
    for id, answer in answers.items():
        assert answer["response"]["status_code"] == 200
        said = answer["response"]["body"]["choices"][0]["message"]["content"]
        assert said == f"answered number {id.removeprefix('r')}"
    told = {
        id: (line["response"]["status_code"], line["response"]["body"]["error"]["param"])
        for id, line in errors.items()
    }
    assert told == {"r3": (404, "model"), "r4": (400, "temperature"), "r5": (400, "stream")}
    assert client.batches.list().data[0].id == batch.id


ENDPOINTS: dict[str, tuple[dict[str, Any], Any]] = {
    "/v1/completions": ({"prompt": "hi"}, lambda body: body["choices"][0]["text"]),
    "/v1/responses": ({"input": "hi"}, lambda body: body["output"][0]["content"][0]["text"]),
    "/v1/messages": (
        {"max_tokens": 99, "messages": [{"role": "user", "content": "hi"}]},
        lambda body: body["content"][0]["text"],
    ),
}


@pytest.mark.parametrize(("endpoint", "body", "text"), [(k, *v) for k, v in ENDPOINTS.items()], ids=ENDPOINTS.keys())
def test_other_endpoints_have_batches_too(up: Up, endpoint: str, body: dict[str, Any], text: Any) -> None:
    client = up.client()
    line = {"custom_id": "a", "method": "POST", "url": endpoint, "body": {"model": "demo", **body}}
    batch = until(client, begin(client, [line], endpoint), "completed")
    assert text(results(client, batch.output_file_id)["a"]["response"]["body"]) == "You said: hi"
    assert batch.error_file_id is None


def test_an_input_that_is_wrong_fails_as_a_whole(up: Up) -> None:
    client = up.client()
    batch = until(client, begin(client, [*requests(1), {"custom_id": "b"}]), "failed")
    assert batch.errors is not None
    assert batch.errors.data is not None
    assert [(each.code, each.line) for each in batch.errors.data] == [("missing_required_parameter", 2)]
    with pytest.raises(openai.NotFoundError):
        client.batches.create(input_file_id="file-x", endpoint="/v1/responses", completion_window="24h")
    with pytest.raises(openai.NotFoundError):
        client.batches.retrieve("batch_x")
    with pytest.raises(openai.BadRequestError, match="failed already"):
        client.batches.cancel(batch.id)


def test_a_cancelled_batch_keeps_what_it_has_answered(running: Up) -> None:
    client = running.client()
    batch = begin(
        client, requests(3) + [{**line, "custom_id": f"e{n}"} for n, line in enumerate(requests(20, "endless"))]
    )
    with pytest.raises(openai.ConflictError, match="cancel it first"):
        client.files.delete(batch.input_file_id)
    until(client, batch, "in_progress", done=3)
    assert client.batches.cancel(batch.id).status in ("cancelling", "cancelled")
    ended = until(client, batch, "cancelled")
    assert set(results(client, ended.output_file_id)) == {"r0", "r1", "r2"}
    assert client.files.delete(batch.input_file_id).deleted
    running.until("appliance_generations_running", 0)


def test_a_killed_server_goes_on_where_it_was(file: Path) -> None:
    with Up.start(file) as first:
        client = first.client()
        batch = begin(client, requests(40))
        before = until(client, batch, "in_progress", done=8)
        first.signal(signal.SIGKILL)
        assert first.exit_code() == -signal.SIGKILL
    [output] = file.parent.glob(".appliance/state/*/files/*o")
    kept = output.read_bytes()
    output.write_bytes(kept + b'{"id": "half a li')
    with Up.start(file) as second:
        client = second.client()
        ended = until(client, batch, "completed")
        assert before.request_counts is not None
        assert ended.request_counts is not None
        assert (ended.request_counts.completed, ended.request_counts.failed) == (40, 0)
        answers = results(client, ended.output_file_id)
        assert set(answers) == {f"r{n}" for n in range(40)}
        assert client.files.content(ended.output_file_id or "").read().startswith(kept)


def test_a_stopped_server_does_not_wait_for_its_batches(file: Path) -> None:
    with Up.start(file) as first:
        client = first.client()
        batch = begin(client, [*requests(2), {**requests(1, "endless")[0], "custom_id": "never"}])
        until(client, batch, "in_progress", done=2)
        first.signal(signal.SIGTERM)
        assert first.exit_code() == 0
    with Up.start(file) as second:
        client = second.client()
        assert until(client, batch, "in_progress", done=2).request_counts
        client.batches.cancel(batch.id)
        assert set(results(client, until(client, batch, "cancelled").output_file_id)) == {"r0", "r1"}


def test_a_batch_out_of_time_says_what_it_did_not_run(file: Path) -> None:
    with Up.start(file) as first:
        client = first.client()
        batch = begin(client, [*requests(2), {**requests(1, "endless")[0], "custom_id": "never"}])
        until(client, batch, "in_progress", done=2)
        first.signal(signal.SIGKILL)
        first.exit_code()
    [record] = file.parent.glob(".appliance/state/*/batches/*.json")
    record.write_text(json.dumps({**json.loads(record.read_text()), "expires_at": int(time.time())}))
    with Up.start(file) as second:
        client = second.client()
        ended = until(client, batch, "expired")
        assert set(results(client, ended.output_file_id)) == {"r0", "r1"}
        assert results(client, ended.error_file_id)["never"]["error"]["code"] == "batch_expired"


def test_somebody_who_waits_goes_before_a_batch(running: Up) -> None:
    client = running.client()
    batch = begin(client, requests(200))
    until(client, batch, "in_progress", done=1)
    answer = client.chat.completions.create(model="steady", messages=[{"role": "user", "content": "me first"}])
    assert answer.choices[0].message.content == "answered me first"
    now = client.batches.retrieve(batch.id)
    assert now.status == "in_progress"
    client.batches.cancel(batch.id)


KEYS = """
security:
  loopback_without_key: false
  keys:
    ann: {secret: sk-ann-0123456789abcdef}
    bob: {secret: sk-bob-0123456789abcdef, allow: [demo]}
"""


def test_a_line_on_the_only_row_makes_way_for_somebody_who_waits(file: Path) -> None:
    (file.parent / "alone.yaml").write_text(f"{STEADY}endless: true\nwhen: [{{contains: quick, endless: false}}]\n")
    file.write_text(file.read_text() + "  alone: {source: 'fake:./alone.yaml', concurrency: 1, context: 1000k}\n")
    with Up.start(file) as up:
        up.wait_for("ready")
        client = up.client()
        batch = begin(client, requests(1, "alone", max_tokens=100_000))
        up.until("appliance_generations_running", 1)
        while up.metric('appliance_time_to_first_token_seconds_count{model="alone"}') != 1:
            assert client.batches.retrieve(batch.id).status in ("validating", "in_progress")
        assert up.post(chat("alone", "quick")).json()["choices"][0]["message"]["content"] == "answered quick"
        assert client.batches.retrieve(batch.id).status == "in_progress"
        client.batches.cancel(batch.id)


def test_files_and_batches_belong_to_their_key(file: Path) -> None:
    file.write_text(file.read_text() + KEYS)
    with Up.start(file) as running:
        ann, bob = (running.client(api_key=f"sk-{name}-0123456789abcdef") for name in ("ann", "bob"))
        batch = begin(bob, requests(1))
        with pytest.raises(openai.NotFoundError):
            ann.batches.retrieve(batch.id)
        with pytest.raises(openai.NotFoundError):
            ann.files.content(batch.input_file_id)
        assert ann.files.list().data == [] == ann.batches.list().data
        ended = until(bob, batch, "completed")
        refused = results(bob, ended.error_file_id)["r0"]["response"]
        assert (refused["status_code"], refused["body"]["error"]["code"]) == (403, "model_not_allowed")
