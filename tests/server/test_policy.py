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


# What a client says of reasoning, protocol by protocol; Ollama's has no word for a budget.
BUDGETS: dict[str, tuple[str, dict[str, Any], list[dict[str, Any]]]] = {
    "chat": ("/v1/chat/completions", {"messages": HI},
             [{name: 100} for name in ("reasoning_budget", "reasoning_max_tokens", "thinking_token_budget")]),
    "completions": ("/v1/completions", {"prompt": "hi"}, [{"reasoning_budget": 100}]),
    "responses": ("/v1/responses", {"input": "hi"}, [{"reasoning_budget": 100}]),
    "messages": ("/v1/messages", {"messages": HI, "max_tokens": 200},
                 [{"thinking": {"type": "enabled", "budget_tokens": 100}}]),
    "ollama chat": ("/api/chat", {"messages": HI, "stream": False}, []),
    "ollama generate": ("/api/generate", {"prompt": "hi", "stream": False}, []),
}  # fmt: skip
ASKED = [
    pytest.param(path, body, asked, PROTOCOLS[name][3], id=f"{name}: {next(iter(asked), 'nothing')}")
    for name, (path, body, ways) in BUDGETS.items()
    for asked in ({}, *ways)
]


@pytest.mark.parametrize(("path", "body", "asked", "text"), ASKED)
def test_a_budget_of_reasoning_is_set_clamped_locked_and_stripped_the_same(
    up: Up, path: str, body: dict[str, Any], asked: dict[str, Any], text: Any
) -> None:
    def says(model: str) -> tuple[str, str]:
        response = up.post({"model": model, **body, **asked}, path)
        changed = [said for said in response.headers.get("x-appliance-params", "").split(", ") if "reason" in said]
        return text(response.json()), " ".join(changed)

    assert says("budget")[0] == ("b=100" if asked else "b=None")
    assert says("brief") == (("b=64", "reasoning_budget=clamped(100>64)") if asked else ("b=32", ""))
    assert says("still") == ("b=0", "reasoning_budget=locked(100>0)" if asked else "")
    assert says("deaf") == ("b=None", "reasoning_budget=stripped(100>None)" if asked else "")


MUSE = {"messages": [{"role": "user", "content": "muse"}]}
# Of raw completions nothing is told apart: their text is what the model wrote.
THINKING = {
    "chat": ("/v1/chat/completions", MUSE),
    "responses": ("/v1/responses", {"input": "muse"}),
    "messages": ("/v1/messages", {**MUSE, "max_tokens": 50}),
    "ollama chat": ("/api/chat", {**MUSE, "think": True}),
    "ollama generate": ("/api/generate", {"prompt": "muse", "think": True}),
}


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize(("path", "body"), THINKING.values(), ids=THINKING)
def test_reasoning_is_kept_from_clients_by_lock_and_by_default(
    up: Up, path: str, body: dict[str, Any], stream: bool
) -> None:
    shown = {m: up.post({"model": m, **body, "stream": stream}, path).text for m in ("agent", "silent", "shy")}
    told = {model: "~" in text for model, text in shown.items()}
    assert told == {"agent": True, "silent": False, "shy": False}
    assert all("^" in text for text in shown.values())


@pytest.mark.parametrize(("path", "body"), list(THINKING.values())[:2], ids=list(THINKING)[:2])
def test_whether_reasoning_is_shown_may_be_asked_unless_it_is_locked(up: Up, path: str, body: dict[str, Any]) -> None:
    def told(model: str, shown: bool) -> bool:
        return "~" in up.post({"model": model, **body, "include_reasoning": shown}, path).text

    assert told("shy", True)
    assert not told("agent", False)
    assert not told("silent", True)
    refused = up.post({"model": "deaf", **body, "include_reasoning": True}, path)
    assert refused.status_code == 400
    assert "include_reasoning` may not be set here" in refused.text


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
