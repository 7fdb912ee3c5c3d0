"""Keys at the door of a real appliance: who comes in, what for, how often, and what is said to the others."""

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anthropic
import httpx
import openai
import pytest

from tests.server.up import PATIENCE, Up, chat, deployment

SECRETS = {
    name: f"sk-{name}-0123456789abcdef"
    for name in ("ann", "ci", "old", "few", "one", "day", "strict", "tok", "back", "calm", "near")
}
KEYS = """
security:
  loopback_without_key: false
  keys:
    ann: {secret: "${env:ann}", priority: high}
    ci: {secret: "${env:ci}", allow: [fast, "gpt-4*"], priority: low}
    old: {secret: "${env:old}", expires: 2020-01-01}
    few: {secret: "${env:few}", limits: {requests: 2/h, tokens: 1000k/h}}
    one: {secret: "${env:one}", limits: {concurrent: 1}}
    day: {secret: "${env:day}", limits: {daily_tokens: 5}}
    tok: {secret: "${env:tok}", limits: {tokens: 3/d}}
    back: {secret: "${env:back}", limits: {tokens: 3/d}}
    near: {secret: "${env:near}", allow: ["fa*", "gpt-4*"]}
    calm: {secret: "${env:calm}", policy: {clamp: {reasoning_budget: [0, 10]}, lock: {include_reasoning: false}}}
    strict:
      secret: "${env:strict}"
      strict_params: true
      policy: {clamp: {max_tokens: [1, 5]}, forbid: {profile: reject}}
aliases: {fast: demo, 'gpt-4*': demo}
profiles: {terse: {sampling: {max_tokens: 2}}}
"""


def environ(file: Path) -> dict[str, str]:
    return {**os.environ, "APPLIANCE_HOME": str(file.parent / ".appliance"), **SECRETS}


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    file = deployment(tmp_path_factory.mktemp("keys"), listen="0.0.0.0:0", more=KEYS)
    with Up.start(file, env=environ(file)) as running:
        running.wait_for("ready")
        yield running
    said = "\n".join([*running.lines, *running.errors])
    assert not [name for name, secret in SECRETS.items() if secret in said]


def url(up: Up) -> str:
    return f"http://127.0.0.1:{up.port}"


def ask(
    up: Up, key: str | None, model: str = "demo", path: str = "/v1/chat/completions", **more: Any
) -> httpx.Response:
    headers = {"authorization": f"Bearer {SECRETS.get(key, key)}"} if key else {}
    return httpx.post(f"{url(up)}{path}", json=chat(model, **more), headers=headers, timeout=PATIENCE)


def test_an_address_with_keys_needs_no_consent(guarded: Up) -> None:
    assert ask(guarded, "ann").status_code == 200


@pytest.mark.parametrize("path", ["/healthz", "/health", "/readyz", "/metrics"])
def test_health_needs_no_key(guarded: Up, path: str) -> None:
    assert httpx.get(f"{url(guarded)}{path}").status_code == 200


CLOSED = [
    ("GET", "/v1/models"), ("GET", "/v1/models/demo"), ("GET", "/version"), ("POST", "/v1/chat/completions"),
    ("POST", "/v1/completions"), ("POST", "/tokenize"), ("POST", "/v1/responses"),
]  # fmt: skip


@pytest.mark.parametrize(("method", "path"), CLOSED)
@pytest.mark.parametrize("secret", [None, "sk-nobody"])
def test_everything_else_does(guarded: Up, method: str, path: str, secret: str | None) -> None:
    headers = {"x-api-key": secret} if secret else {}
    response = httpx.request(method, f"{url(guarded)}{path}", headers=headers)
    assert (response.status_code, response.headers["www-authenticate"]) == (401, "Bearer")
    assert response.json()["error"]["code"] == "invalid_api_key"
    assert "sk-nobody" not in response.text


def test_a_key_is_taken_under_either_header_and_by_both_libraries(guarded: Up) -> None:
    found = httpx.get(f"{url(guarded)}/v1/models", headers={"x-api-key": SECRETS["ann"]})
    assert found.status_code == 200
    openai_client = openai.OpenAI(base_url=f"{url(guarded)}/v1", api_key=SECRETS["ann"], max_retries=0)
    assert openai_client.chat.completions.create(**chat("demo")).choices[0].message.content
    anthropic_client = anthropic.Anthropic(base_url=url(guarded), api_key=SECRETS["ann"], max_retries=0)
    assert anthropic_client.messages.create(**chat("demo"), max_tokens=9).content


def test_anthropics_library_hears_a_refusal_in_its_own_words(guarded: Up) -> None:
    client = anthropic.Anthropic(base_url=url(guarded), api_key="sk-nobody", max_retries=0)
    with pytest.raises(anthropic.AuthenticationError) as refused:
        client.messages.create(**chat("demo"), max_tokens=9)
    assert refused.value.body["error"]["type"] == "authentication_error"  # type: ignore[index, call-overload]
    client = anthropic.Anthropic(base_url=url(guarded), api_key=SECRETS["ci"], max_retries=0)
    with pytest.raises(anthropic.PermissionDeniedError):
        client.messages.create(**chat("demo"), max_tokens=9)


def test_an_expired_key_is_refused(guarded: Up) -> None:
    assert "expired" in ask(guarded, "old").json()["error"]["message"]


@pytest.mark.parametrize(
    ("model", "status"),
    [("fast", 200), ("gpt-4o", 200), ("fast:terse", 200), ("demo", 403), ("slow", 403), ("?", 403)],
)
def test_a_key_may_ask_for_its_names_only(guarded: Up, model: str, status: int) -> None:
    assert ask(guarded, "ci", model).status_code == status


def test_a_key_sees_the_names_it_may_ask_for(guarded: Up) -> None:
    listed = httpx.get(f"{url(guarded)}/v1/models", headers={"x-api-key": SECRETS["ci"]}).json()["data"]
    assert [card["id"] for card in listed] == ["fast"]


def test_a_refusal_comes_before_the_body(guarded: Up) -> None:
    with guarded.connection() as sock:
        sock.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1000000\r\n\r\n{")
        assert b" 401 " in sock.recv(1000).partition(b"\r\n")[0] + b" "


def test_a_strict_key_is_told_what_would_be_changed(guarded: Up) -> None:
    refused = ask(guarded, "strict", max_tokens=9)
    assert (refused.status_code, refused.json()["error"]["param"]) == (400, "max_tokens")
    assert ask(guarded, "strict", max_tokens=5).status_code == 200
    assert ask(guarded, "strict", "fast:terse").json()["error"]["param"] == "model"
    assert ask(guarded, "strict").json()["usage"]["completion_tokens"] <= 5


def test_a_rate_is_told_as_it_falls_and_then_refuses(guarded: Up) -> None:
    first, second, third = (ask(guarded, "few") for _ in range(3))
    assert [each.status_code for each in (first, second, third)] == [200, 200, 429]
    assert [each.headers["x-ratelimit-remaining-requests"] for each in (first, second, third)] == ["1", "0", "0"]
    assert first.headers["x-ratelimit-limit-requests"] == "2"
    assert first.headers["x-ratelimit-limit-tokens"] == str(1000 * 1024)
    assert third.json()["error"]["code"] == "rate_limit_exceeded"
    assert 1700 < int(third.headers["retry-after"]) <= 1800
    told = httpx.post(
        f"{url(guarded)}/v1/messages", json=chat("demo", max_tokens=3), headers={"x-api-key": SECRETS["few"]}
    )
    assert told.json()["error"]["type"] == "rate_limit_error"
    assert told.headers["anthropic-ratelimit-requests-remaining"] == "0"
    assert told.headers["anthropic-ratelimit-requests-reset"].endswith("Z")


def test_tokens_in_debt_refuse_the_next_request(guarded: Up) -> None:
    assert [ask(guarded, "tok").status_code for _ in range(2)] == [200, 429]


def test_only_so_many_run_at_a_time_and_leaving_makes_room(guarded: Up) -> None:
    headers = {"authorization": f"Bearer {SECRETS['one']}"}
    body = chat("endless", stream=True)
    with httpx.stream("POST", f"{url(guarded)}/v1/chat/completions", json=body, headers=headers) as running:
        assert running.status_code == 200
        lines = running.iter_lines()
        next(lines)
        refused = ask(guarded, "one")
        assert (refused.status_code, refused.headers["retry-after"]) == (429, "1")
    end = time.monotonic() + PATIENCE
    while (now := ask(guarded, "one").status_code) != 200:
        assert (now, time.monotonic() < end) == (429, True)


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_what_is_made_in_the_background_runs_too_and_can_be_ended(guarded: Up, stream: bool) -> None:
    client = openai.OpenAI(base_url=f"{url(guarded)}/v1", api_key=SECRETS["one"], max_retries=0)
    made: Any = client.responses.create(model="endless", input="hi", background=True, stream=stream)
    if stream:
        made = next(iter(made)).response
    with pytest.raises(openai.RateLimitError, match="1 requests at a time"):
        client.responses.create(model="demo", input="hi")
    client.responses.cancel(made.id)
    while client.responses.retrieve(made.id).status == "in_progress":
        pass
    assert client.responses.create(model="demo", input="hi").status == "completed"


def test_tokens_made_in_the_background_are_the_keys(guarded: Up) -> None:
    client = openai.OpenAI(base_url=f"{url(guarded)}/v1", api_key=SECRETS["back"], max_retries=0)
    made = client.responses.create(model="demo", input="hi", background=True)
    while client.responses.retrieve(made.id).status == "in_progress":
        pass
    with pytest.raises(openai.RateLimitError, match="3 a day in tokens"):
        client.responses.create(model="demo", input="hi")


def test_a_key_sees_and_ends_its_own_requests_only(guarded: Up) -> None:
    def of(key: str, method: str = "GET", path: str = "") -> httpx.Response:
        return httpx.request(method, f"{url(guarded)}/v1/requests{path}", headers={"x-api-key": SECRETS[key]})

    headers = {"x-api-key": SECRETS["ann"], "x-request-id": "mine"}
    body = chat("endless", stream=True)
    with httpx.stream("POST", f"{url(guarded)}/v1/chat/completions", json=body, headers=headers) as running:
        lines = running.iter_lines()
        next(lines)
        assert ("mine" in of("ann").text, "mine" in of("strict").text) == (True, False)
        assert of("strict", "POST", "/mine/cancel").status_code == 404
        assert of("ann", "POST", "/mine/cancel").status_code == 200
        assert [line for line in lines if "cancelled" in line]


def test_a_day_that_is_used_up_stays_so_over_a_restart(tmp_path: Path) -> None:
    file = deployment(tmp_path, more=KEYS)
    for status in (200, 429):
        with Up.start(file, env=environ(file)) as running:
            running.wait_for("ready")
            response = ask(running, "day")
            assert response.status_code == status
            running.signal(signal.SIGTERM)
            assert running.exit_code() == 0
    assert "5 tokens a day" in response.json()["error"]["message"]


def test_keys_come_and_go_with_the_file(tmp_path: Path) -> None:
    file = deployment(tmp_path, more=KEYS)
    with Up.start(file, env=environ(file)) as running:
        running.wait_for("ready")
        assert ask(running, "ann").status_code == 200
        file.write_text(file.read_text().replace('ann: {secret: "${env:ann}"', 'bob: {secret: "sk-bob-1234"'))
        running.wait_for("config.applied")
        assert ask(running, "ann").status_code == 401
        assert ask(running, "sk-bob-1234").status_code == 200


def test_clients_of_this_machine_need_no_key_unless_the_file_says_so(tmp_path: Path) -> None:
    file = deployment(tmp_path, more=KEYS.replace("  loopback_without_key: false\n", ""))
    with Up.start(file, env=environ(file)) as running:
        running.wait_for("ready")
        assert ask(running, None).status_code == 200
        assert ask(running, "anything").status_code == 200
        through = {"x-forwarded-for": "192.0.2.7"}
        assert httpx.get(f"{running.url}/v1/models", headers=through).status_code == 401


@pytest.mark.parametrize(
    ("path", "body", "budget"),
    [
        ("/v1/chat/completions", {"messages": [{"role": "user", "content": "muse"}]}, {"reasoning_budget": 50}),
        ("/v1/responses", {"input": "muse"}, {"reasoning_budget": 50}),
        (
            "/v1/messages",
            {"messages": [{"role": "user", "content": "muse"}], "max_tokens": 99},
            {"thinking": {"type": "enabled", "budget_tokens": 50}},
        ),
    ],
    ids=["chat", "responses", "messages"],
)
def test_a_keys_policy_binds_reasoning_too(
    guarded: Up, path: str, body: dict[str, Any], budget: dict[str, Any]
) -> None:
    calm = {"Authorization": f"Bearer {SECRETS['calm']}"}
    assert "b=10" in guarded.post({"model": "budget", **body, **budget}, path, headers=calm).text
    shown = guarded.post({"model": "agent", **body}, path, headers=calm).text
    assert "^" in shown
    assert "~" not in shown


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/tokenize", "/v1/messages", "/api/chat"])
def test_who_asks_for_a_name_that_is_not_there_is_told_of_those_their_key_may_use(guarded: Up, path: str) -> None:
    response = ask(guarded, "near", "fathomless", path=path, max_tokens=2)
    assert response.status_code == 404
    assert "`fathomless`; there are faulty, fast" in response.text
    assert "slow" not in response.text


def test_nor_is_who_looks_it_up(guarded: Up) -> None:
    response = httpx.get(f"{url(guarded)}/v1/models/fathomless", headers={"x-api-key": SECRETS["near"]})
    assert (response.status_code, "slow" in response.text) == (404, False)
