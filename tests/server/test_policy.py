"""What the deploy file says of sampling holds whatever protocol a client speaks."""

from pathlib import Path
from typing import Any

import pytest

from tests.server.up import Up, deployment

HI = [{"role": "user", "content": "hi"}]


def _chat(body: Any) -> str:
    return str(body["choices"][0]["message"]["content"])


PROTOCOLS: dict[str, tuple[str, dict[str, Any], dict[str, Any], Any]] = {
    "chat": ("/v1/chat/completions", {"messages": HI}, {"max_tokens": 100}, _chat),
    "completions": ("/v1/completions", {"prompt": "hi"}, {"max_tokens": 100},
                    lambda body: body["choices"][0]["text"]),
    "responses": ("/v1/responses", {"input": "hi"}, {"max_output_tokens": 100},
                  lambda body: body["output"][0]["content"][0]["text"]),
    "messages": ("/v1/messages", {"messages": HI}, {"max_tokens": 100}, lambda body: body["content"][0]["text"]),
    "ollama chat": ("/api/chat", {"messages": HI, "stream": False}, {"options": {"num_predict": 100}},
                    lambda body: body["message"]["content"]),
    "ollama generate": ("/api/generate", {"prompt": "hi", "stream": False}, {"options": {"num_predict": 100}},
                        lambda body: body["response"]),
}  # fmt: skip


def warm(fields: dict[str, Any]) -> dict[str, Any]:
    """With a temperature of 0.9, where this protocol says it."""
    if "options" in fields:
        return {"options": {**fields["options"], "temperature": 0.9}}
    return {**fields, "temperature": 0.9}


@pytest.mark.parametrize(("path", "body", "limit", "text"), PROTOCOLS.values(), ids=PROTOCOLS.keys())
def test_defaults_locks_and_clamps_act_the_same(
    up: Up, path: str, body: dict[str, Any], limit: dict[str, Any], text: Any
) -> None:
    response = up.post({"model": "tuned", **body, **warm(limit)}, path)
    assert text(response.json()) == "t=0.0 k=7 m=50"
    changed = set(response.headers["x-appliance-params"].split(", "))
    assert changed == {"temperature=locked(0.9>0.0)", "max_tokens=clamped(100>50)"}


@pytest.mark.parametrize(("path", "body", "limit", "text"), PROTOCOLS.values(), ids=PROTOCOLS.keys())
def test_what_may_not_be_set_is_refused_the_same(
    up: Up, path: str, body: dict[str, Any], limit: dict[str, Any], text: Any
) -> None:
    assert up.post({"model": "barred", **body, **limit}, path).status_code == 200
    response = up.post({"model": "barred", **body, **warm(limit)}, path)
    assert response.status_code == 400
    assert "temperature` may not be set here" in response.text


@pytest.mark.parametrize(("path", "body", "limit", "text"), PROTOCOLS.values(), ids=PROTOCOLS.keys())
def test_what_is_not_known_is_named_the_same(
    up: Up, path: str, body: dict[str, Any], limit: dict[str, Any], text: Any
) -> None:
    response = up.post({"model": "demo", **body, **limit, "flavour": "mint"}, path)
    assert (response.status_code, response.headers["x-appliance-ignored"]) == (200, "flavour")


def test_a_protocol_that_is_not_listed_is_not_there(tmp_path: Path) -> None:
    file = deployment(tmp_path, "apis: [openai]")
    with Up.start(file) as running:
        statuses = {path: running.post({"model": "demo", **body}, path).status_code
                    for path, body, _, _ in PROTOCOLS.values()}  # fmt: skip
        assert {path for path, status in statuses.items() if status == 404} == {
            "/v1/messages", "/api/chat", "/api/generate",
        }  # fmt: skip
        assert [running.get(path).status_code for path in ("/api/tags", "/v1/models", "/healthz")] == [404, 200, 200]
        file.write_text(file.read_text().replace("apis: [openai]", "apis: [ollama]"))
        running.until("appliance_config_generation", 2)
        assert [running.get(path).status_code for path in ("/api/tags", "/v1/files")] == [200, 404]
