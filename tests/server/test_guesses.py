"""What a client and the operator see of guesses and adapters: usage, metrics, refusals."""

import re

import httpx

from tests.server.up import PATIENCE, Up, chat


def test_a_predicted_answer_is_guessed_and_counted(up: Up) -> None:
    text = "the quick brown fox jumps over the lazy dog"
    plain = up.post(chat("demo", text)).json()
    predicted = chat("demo", text, prediction={"type": "content", "content": f"You said: {text}!"})
    guessed = up.post(predicted).json()
    assert guessed["choices"] == plain["choices"]
    details = guessed["usage"].pop("completion_tokens_details")
    assert details["accepted_prediction_tokens"] > 0
    assert details["rejected_prediction_tokens"] >= 0
    assert "accepted_prediction_tokens" not in plain["usage"]["completion_tokens_details"]
    shown = httpx.get(f"{up.url}/metrics", timeout=PATIENCE).text
    right = re.search(r'appliance_draft_tokens_total\{model="demo",outcome="accepted"\} (\d+)', shown)
    assert right is not None
    assert int(right[1]) >= details["accepted_prediction_tokens"]


def test_an_adapter_that_the_model_does_not_have_is_a_400_that_names_it(up: Up) -> None:
    answer = up.post(chat("demo", adapter="sql"))
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == "adapter"
    assert answer.json()["error"]["message"] == "`demo` has no adapter `sql`; it has none"
    assert up.post(chat("demo", adapter="")).status_code == 200
