"""The document of all routes, and its page."""

import re
from typing import Any

import httpx
import pytest
from jsonschema import Draft202012Validator

from appliance.protocols import anthropic_messages, openai_chat
from appliance.server.adapters import ADAPTERS
from appliance.server.app import DELETES, READS, WRITES
from appliance.server.openapi import document
from tests.server.up import Up


@pytest.fixture(scope="module")
def described() -> dict[str, Any]:
    return document("1", READS, WRITES, DELETES)


def test_every_route_is_described_once(described: dict[str, Any]) -> None:
    routes = {
        (method, re.sub(r"<(\w+):\w+>", r"{\1}", path))
        for method, table in (("get", READS), ("post", WRITES), ("delete", DELETES))
        for path in table
    }
    operations = [(method, path) for path, methods in described["paths"].items() for method in methods]
    assert set(operations) == routes
    ids = [operation["operationId"] for methods in described["paths"].values() for operation in methods.values()]
    assert len(ids) == len(set(ids))
    assert all(operation["summary"] for methods in described["paths"].values() for operation in methods.values())


@pytest.mark.parametrize("path", ADAPTERS)
def test_every_field_we_know_is_described(described: dict[str, Any], path: str) -> None:
    body = described["paths"][path]["post"]["requestBody"]["content"]["application/json"]["schema"]
    assert list(body["properties"]) == list(ADAPTERS[path].fields)
    assert set(body["required"]) <= set(body["properties"])
    assert all(field["description"] for field in body["properties"].values())


def test_bodies_are_valid_schemas_that_take_what_we_take(described: dict[str, Any]) -> None:
    schemas = {"components": described["components"]}
    for path, table in (("/v1/chat/completions", openai_chat), ("/v1/messages", anthropic_messages)):
        schema = described["paths"][path]["post"]["requestBody"]["content"]["application/json"]["schema"]
        validator = Draft202012Validator({**schema, **schemas})
        validator.check_schema(validator.schema)
        good = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]}
        assert validator.is_valid(good)
        assert not validator.is_valid({**good, "temperature": 99})
        assert set(table.FIELDS) == set(schema["properties"])


def test_the_server_serves_it(up: Up) -> None:
    served = up.get("/openapi.json").json()
    assert served["openapi"] == "3.1.0"
    assert {"/openapi.json", "/docs", "/v1/responses/{id}"} <= set(served["paths"])


def test_the_page_loads_nothing_from_elsewhere(up: Up) -> None:
    page = up.get("/docs")
    assert page.headers["content-type"].startswith("text/html")
    assert "default-src 'none'" in page.headers["content-security-policy"]
    assert not re.search(r"<script|<link|<img|https?://|@import|url\(", page.text)
    assert all(path.replace("<", "{").split(":")[0] in page.text for path in (*READS, *WRITES))
    assert httpx.head(f"{up.url}/docs").status_code == 200
