"""Batches: bodies, lines, and which state follows on which."""

import json
from typing import Any

import msgspec
import pytest

from appliance.errors import BadRequest
from appliance.protocols import batch_lines, batches
from appliance.protocols.batches import Batch, Problem

CHAT = "/v1/chat/completions"
GOOD = {"input_file_id": "file-1", "endpoint": CHAT, "completion_window": "24h"}


def asked(**more: Any) -> Batch:
    return batches.asked(json.dumps({**GOOD, **more}).encode(), "batch_1", None, 1000)


def test_a_body_becomes_a_batch_that_waits_for_validation() -> None:
    batch = asked(metadata={"a": "b"}, output_expires_after={"anchor": "created_at", "seconds": 3600})
    said = batches.described(batch)
    assert (said["status"], said["created_at"], said["expires_at"]) == ("validating", 1000, 1000 + 86400)
    assert (said["metadata"], batch.keep) == ({"a": "b"}, 3600)
    assert said["request_counts"] == {"total": 0, "completed": 0, "failed": 0}


WINDOWS = {"24h": 86400, "90m": 5400, "7d": 604800, "1m": 60}


@pytest.mark.parametrize(("window", "seconds"), WINDOWS.items(), ids=WINDOWS.keys())
def test_a_window_is_a_time(window: str, seconds: int) -> None:
    assert asked(completion_window=window).expires_at == 1000 + seconds


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "no file": ({"input_file_id": None}, "input_file_id"),
    "an endpoint that is not there": ({"endpoint": "/v1/embeddings"}, "endpoint"),
    "no time": ({"completion_window": "soon"}, "completion_window"),
    "no seconds": ({"completion_window": "0h"}, "completion_window"),
    "too long": ({"completion_window": "91d"}, "completion_window"),
    "too much metadata": ({"metadata": {str(n): "x" for n in range(17)}}, "metadata"),
    "metadata that is no text": ({"metadata": {"a": 1}}, "metadata[...]"),
    "kept for too short": (
        {"output_expires_after": {"anchor": "created_at", "seconds": 5}},
        "output_expires_after.seconds",
    ),
    "unknown": ({"flavour": "mint"}, "flavour"),
}


@pytest.mark.parametrize(("more", "param"), BAD.values(), ids=BAD.keys())
def test_a_wrong_body_names_its_field(more: dict[str, Any], param: str) -> None:
    with pytest.raises(BadRequest) as refused:
        asked(**more)
    assert refused.value.param in (param, param.partition("[")[0])


def line(id: str = "a", **more: Any) -> bytes:
    return (
        json.dumps({"custom_id": id, "method": "POST", "url": CHAT, "body": {"model": "m"}, **more}).encode() + b"\n"
    )


def test_lines_of_one_model_are_run_together_and_found_again() -> None:
    lines = [line("a", body={"model": "x"}), b"\n", line("b", body={"model": "y"}), line("ü", body={"model": "x"})]
    entries, problems = batch_lines.read_input(lines, CHAT)
    assert not problems
    assert [entry.custom_id for entry in entries] == ["a", "ü", "b"]
    whole = b"".join(lines)
    for entry in entries:
        found = batch_lines.read_line(whole[entry.start : entry.start + entry.length], CHAT)
        assert isinstance(found, batch_lines.Line)
        assert found.custom_id == entry.custom_id


FAULTS: dict[str, tuple[list[bytes], list[tuple[str, int | None]]]] = {
    "no JSON": ([b"{\n"], [("invalid_json_line", 1)]),
    "no UTF-8": ([b'{"custom_id": "\xff"}\n'], [("invalid_json_line", 1)]),
    "no object": ([b"[]\n"], [("missing_required_parameter", 1)]),
    "no id": ([line(custom_id=None)], [("missing_required_parameter", 1)]),
    "an empty id": ([line("")], [("invalid_custom_id", 1)]),
    "another method": ([line(method="GET")], [("invalid_method", 1)]),
    "another endpoint": ([line(url="/v1/completions")], [("invalid_url", 1)]),
    "a body that is none": ([line(body=[1])], [("invalid_body", 1)]),
    "twice the same": ([line(), b" \n", line()], [("duplicate_custom_id", 3)]),
    "several": ([b"x\n", line(), b"y\n"], [("invalid_json_line", 1), ("invalid_json_line", 3)]),
    "nothing": ([], [("empty_file", None)]),
    "blank lines": ([b"\n", b"  \n"], [("empty_file", None)]),
}  # fmt: skip


@pytest.mark.parametrize(("lines", "said"), FAULTS.values(), ids=FAULTS.keys())
def test_what_is_wrong_with_an_input_is_said_by_line(lines: list[bytes], said: list[tuple[str, int | None]]) -> None:
    _, problems = batch_lines.read_input(lines, CHAT)
    assert [(problem.code, problem.line) for problem in problems] == said
    assert all(problem.message for problem in problems)


def test_an_input_has_its_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    _, problems = batch_lines.read_input([b"x\n"] * 500, CHAT)
    assert len(problems) == batch_lines.MAX_PROBLEMS
    monkeypatch.setattr(batch_lines, "MAX_LINES", 3)
    _, problems = batch_lines.read_input([line(str(n)) for n in range(9)], CHAT)
    assert [problem.code for problem in problems] == ["too_many_requests"]


def test_a_results_file_tells_what_is_done_wherever_it_is_cut() -> None:
    lines = [batch_lines.answered("r", id, 200, "q", b'{"x": "\\n"}') for id in ("a", "b", "ü")]
    whole = b"".join(lines)
    for cut in range(len(whole) + 1):
        ids, kept = batch_lines.done(whole[:cut].splitlines(keepends=True))
        complete = [n for n in range(4) if sum(map(len, lines[:n])) <= cut][-1]
        assert (len(ids), kept) == (complete, sum(map(len, lines[:complete])))


def test_results_are_in_openais_form() -> None:
    said = json.loads(batch_lines.answered("batch_req_1", "a", 200, "req_1", b'{"id": 1}'))
    response = {"status_code": 200, "request_id": "req_1", "body": {"id": 1}}
    assert said == {"id": "batch_req_1", "custom_id": "a", "response": response, "error": None}
    said = json.loads(batch_lines.not_run("batch_req_1", "a"))
    assert (said["response"], said["error"]["code"]) == (None, "batch_expired")


def run(batch: Batch) -> Batch:
    return batches.validated(batch, 2, (), 1001)


def end(batch: Batch, now: int) -> Batch:
    return batches.ended(batches.finalizing(batch, now), now, "file-o", None)


WAYS: dict[str, tuple[Batch, str]] = {
    "not validated yet": (asked(), "validating"),
    "a wrong input": (batches.validated(asked(), 0, (Problem("empty_file", "m"),), 1001), "failed"),
    "running": (run(asked()), "in_progress"),
    "read again after a restart": (run(run(asked())), "in_progress"),
    "done": (end(batches.counted(run(asked()), 2, 0), 1002), "completed"),
    "out of time": (end(batches.counted(run(asked()), 2, 0), 1000 + 86400), "expired"),
    "cancelling": (batches.cancelling(run(asked()), 1002), "cancelling"),
    "cancelled before it was read": (end(run(batches.cancelling(asked(), 1001)), 1002), "cancelled"),
    "cancelled twice": (end(batches.cancelling(batches.cancelling(run(asked()), 1002), 1003), 1004), "cancelled"),
}


@pytest.mark.parametrize(("batch", "status"), WAYS.values(), ids=WAYS.keys())
def test_states_follow_each_other(batch: Batch, status: str) -> None:
    said = batches.described(batch)
    assert said["status"] == status
    assert status in ("validating",) or said[f"{status}_at"] is not None
    assert msgspec.json.decode(msgspec.json.encode(batch), type=Batch) == batch


@pytest.mark.parametrize("way", ["a wrong input", "done", "out of time", "cancelled twice"])
def test_what_has_ended_cannot_be_cancelled(way: str) -> None:
    with pytest.raises(BadRequest, match="already"):
        batches.cancelling(WAYS[way][0], 2000)
