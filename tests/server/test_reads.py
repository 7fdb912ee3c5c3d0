"""Models, health, version and metrics."""

import httpx
import pytest

import appliance
from tests.server.up import Up


def test_models_and_visible_aliases_are_listed(up: Up) -> None:
    listed = up.client().models.list().data
    names = [model.id for model in listed]
    assert {"demo", "slow", "fast", "org/name"} <= set(names)
    assert not {"quiet", "gpt-4*"} & set(names)


def test_one_card_serves_both_kinds_of_clients(up: Up) -> None:
    body = up.get("/v1/models").json()
    assert (body["object"], body["has_more"]) == ("list", False)
    assert (body["first_id"], body["last_id"]) == (body["data"][0]["id"], body["data"][-1]["id"])
    for card in body["data"]:
        assert (card["object"], card["type"], card["lifecycle"]) == ("model", "model", "active")
        assert card["created"] > 0
        assert card["created_at"].endswith("Z")
        assert card["display_name"] == card["id"]


@pytest.mark.parametrize("id", ["demo", "fast", "org/name", "org%2Fname"])
def test_a_model_is_shown_by_its_id(up: Up, id: str) -> None:
    assert up.get(f"/v1/models/{id}").json()["id"] == id.replace("%2F", "/")


def test_the_official_client_finds_an_id_with_a_slash(up: Up) -> None:
    assert up.client().models.retrieve("org/name").id == "org/name"


PATHS = ["/v1/models", "/v1/models/demo", "/health", "/healthz", "/readyz", "/version", "/metrics"]


@pytest.mark.parametrize("path", PATHS)
def test_what_answers_get_answers_head(up: Up, path: str) -> None:
    got, head = up.get(path), httpx.head(f"{up.url}{path}")
    assert (got.status_code, head.status_code, head.content) == (200, 200, b"")
    assert head.headers["content-type"] == got.headers["content-type"]
    assert head.headers["x-request-id"] != got.headers["x-request-id"]


def test_the_version_is_the_packages(up: Up) -> None:
    assert up.get("/version").json() == {"version": appliance.__version__}


def test_metrics_are_prometheus_text(up: Up) -> None:
    response = up.get("/metrics")
    assert response.headers["content-type"].startswith("text/plain; version=0.0.4")
    assert f'appliance_build_info{{version="{appliance.__version__}"}} 1' in response.text.splitlines()


def test_other_origins_are_not_let_in(up: Up) -> None:
    headers = {"origin": "https://evil.example", "access-control-request-method": "POST"}
    response = httpx.options(f"{up.url}/v1/chat/completions", headers=headers)
    assert response.status_code == 204
    assert not [name for name in response.headers if name.startswith("access-control-")]


@pytest.mark.parametrize("path", [*PATHS, "/nothing", "/v1/models/nobody", "/openapi.json"])
def test_every_answer_says_which_generation_gave_it(up: Up, path: str) -> None:
    assert up.get(path).headers["x-appliance-generation"] == "1"


def test_a_card_says_what_a_model_can_do_and_what_else_it_is_called(up: Up) -> None:
    card = up.get("/v1/models/demo").json()
    assert {"completion", "tools"} <= set(card["capabilities"])
    assert "thinking" in up.get("/v1/models/agent").json()["capabilities"]
    assert {"fast", "org/name"} <= set(card["aliases"])
    assert not {"demo", "quiet", "gpt-4*"} & set(card["aliases"])


@pytest.mark.parametrize("id", ["quiet", "gpt-4o-mini"], ids=["hidden", "by a pattern"])
def test_a_name_that_answers_has_a_card(up: Up, id: str) -> None:
    card = up.get(f"/v1/models/{id}").json()
    assert (card["id"], card["model"]) == (id, "demo")
