"""Anthropic's message batches: bodies, what is said of a batch, its results and pages."""

import json
from typing import Any

import pytest

from appliance.errors import BadRequest
from appliance.protocols import batch_lines, batches, message_batches
from appliance.protocols.batches import Batch

PARAMS = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "a\nb"}]}


def asked(*requests: Any, **more: Any) -> tuple[Batch, bytes]:
    body = json.dumps({"requests": list(requests), **more}, indent=2).encode()
    return message_batches.asked(body, "1", "file-1i", None, 1000)


def ask(id: str = "a", params: Any = PARAMS) -> dict[str, Any]:
    return {"custom_id": id, "params": params}


def test_requests_become_the_lines_of_an_input() -> None:
    batch, lines = asked(ask("a"), ask("b"))
    assert (batch.id, batch.total, batch.expires_at, batch.of_messages) == ("msgbatch_1", 2, 1000 + 86400, True)
    entries, problems = batch_lines.read_input(lines.splitlines(keepends=True), batch.endpoint)
    assert not problems
    assert [(entry.custom_id, entry.model) for entry in entries] == [("a", "m"), ("b", "m")]
    assert [json.loads(line)["body"] for line in lines.splitlines()] == [PARAMS, PARAMS]


BAD: dict[str, tuple[list[Any], str]] = {
    "none": ([], "requests"),
    "no id": ([{"params": {}}], "requests[0].custom_id"),
    "an id with a blank": ([ask("a b")], "requests[0].custom_id"),
    "twice the same": ([ask(), ask()], "requests[1].custom_id"),
    "no params": ([{"custom_id": "a"}], "requests[0].params"),
    "params that are no object": ([ask(), ask("b", [1])], "requests[1].params"),
}


@pytest.mark.parametrize(("requests", "param"), BAD.values(), ids=BAD.keys())
def test_a_wrong_body_names_its_place(requests: list[Any], param: str) -> None:
    with pytest.raises(BadRequest) as refused:
        asked(*requests)
    assert (refused.value.param or "").replace("[...]", "[0]") == param
    with pytest.raises(BadRequest, match="flavour"):
        asked(ask(), flavour="mint")


def counted(batch: Batch, completed: int, failed: int, unrun: int) -> Batch:
    return batches.counted(batches.validated(batch, 5, (), 1001), completed, failed, unrun)


def end(batch: Batch, now: int) -> Batch:
    return batches.ended(batches.finalizing(batch, now), now, None, None)


FIVE = asked(*(ask(str(n)) for n in range(5)))[0]
STATES: dict[str, tuple[Batch, str, list[int], str | None]] = {
    "just begun": (FIVE, "in_progress", [5, 0, 0, 0, 0], None),
    "running": (counted(FIVE, 2, 1, 0), "in_progress", [5, 0, 0, 0, 0], None),
    "done": (end(counted(FIVE, 4, 1, 0), 1010), "ended", [0, 4, 1, 0, 0], "1970-01-01T00:16:50Z"),
    "out of time": (end(counted(FIVE, 2, 3, 2), 87400), "ended", [0, 2, 1, 0, 2], "1970-01-02T00:16:40Z"),
    "cancelling": (batches.cancelling(counted(FIVE, 2, 1, 0), 1005), "canceling", [5, 0, 0, 0, 0], None),
    "cancelled": (
        end(batches.cancelling(counted(FIVE, 2, 3, 2), 1005), 1010), "ended", [0, 2, 1, 2, 0], "1970-01-01T00:16:50Z",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("batch", "status", "counts", "ended"), STATES.values(), ids=STATES.keys())
def test_a_batch_is_told_in_anthropics_words(batch: Batch, status: str, counts: list[int], ended: str | None) -> None:
    said = message_batches.described(batch, "http://x/results")
    assert said["processing_status"] == status
    assert list(said["request_counts"].values()) == counts
    assert (said["ended_at"], said["created_at"]) == (ended, "1970-01-01T00:16:40Z")
    assert said["results_url"] == (None if ended is None else "http://x/results")
    assert (said["cancel_initiated_at"] is None) == ("cancelling" not in batch.times)


FAULT = b'{"type": "error", "error": {"type": "invalid_request_error", "message": "no"}}'
RESULTS = {
    "an answer": (batch_lines.answered("r", "a", 200, "q", b'{"id": "msg_1"}'),
                  {"type": "succeeded", "message": {"id": "msg_1"}}),
    "refused": (batch_lines.answered("r", "a", 400, "q", FAULT), {"type": "errored", "error": json.loads(FAULT)}),
    "out of time": (batch_lines.not_run("r", "a"), {"type": "expired"}),
    "cancelled": (batch_lines.not_run("r", "a", batch_lines.CANCELLED), {"type": "canceled"}),
}  # fmt: skip


@pytest.mark.parametrize(("line", "result"), RESULTS.values(), ids=RESULTS.keys())
def test_a_result_is_told_in_anthropics_words(line: bytes, result: dict[str, Any]) -> None:
    assert json.loads(message_batches.result(line)) == {"custom_id": "a", "result": result}


PAGES: dict[str, tuple[dict[str, str], str, bool]] = {
    "all": ({}, "edcba", False),
    "the first": ({"limit": "2"}, "ed", True),
    "the next": ({"limit": "2", "after_id": "d"}, "cb", True),
    "the last": ({"limit": "2", "after_id": "b"}, "a", False),
    "those before": ({"limit": "2", "before_id": "b"}, "dc", True),
    "the first before": ({"limit": "2", "before_id": "d"}, "e", False),
    "none": ({"after_id": "a"}, "", False),
}


@pytest.mark.parametrize(("query", "shown", "more"), PAGES.values(), ids=PAGES.keys())
def test_batches_are_listed_by_pages(query: dict[str, str], shown: str, more: bool) -> None:
    page = message_batches.page([{"id": id} for id in "edcba"], query)
    assert ("".join(each["id"] for each in page["data"]), page["has_more"]) == (shown, more)
    assert (page["first_id"], page["last_id"]) == (shown[:1] or None, shown[-1:] or None)
