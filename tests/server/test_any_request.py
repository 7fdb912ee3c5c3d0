"""Whatever requests our OpenAPI document allows, or nearly allows: none is answered with a fault of the server."""

from collections import Counter
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode

from tests.server.up import PATIENCE, Up

SCALED, FULL = 90, 5000


def document(up: Up) -> dict[str, Any]:
    """The served document; models are those that answer, or every request would end at the first field."""
    described = up.get("/openapi.json").json()
    for methods in described["paths"].values():
        for operation in methods.values():
            content = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
            if "model" in (properties := content.get("schema", {}).get("properties", {})):
                properties["model"] = {"enum": ["demo", "fast", "agent", "gpt-4o", "demo:latest"]}
    return dict(described)


def run(up: Up, cases: int, *, all: bool) -> Counter[int]:
    """How often each status was answered, by `all` endpoints or those that take a body; raises with the request for
    what is a fault of ours.
    """
    schema = schemathesis.openapi.from_dict(document(up))
    operations = [result.ok() for result in schema.get_all_operations()]
    operations = [operation for operation in operations if all or len(operation.body)]
    statuses: Counter[int] = Counter()
    for round in range(100):  # endpoints that take little have few requests to be made
        each = -(-(cases - statuses.total()) // (2 * len(operations)))
        for operation in operations if each > 0 else ():
            for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE):
                _try(up, operation, mode, each, round, statuses)
    assert statuses.total() >= cases
    return statuses


def _try(up: Up, operation: Any, mode: GenerationMode, most: int, round: int, statuses: Counter[int]) -> None:
    @seed(round)
    @settings(max_examples=most, deadline=None, database=None, suppress_health_check=list(HealthCheck),
              phases=[Phase.generate])  # fmt: skip
    @given(case=operation.as_strategy(generation_mode=mode))
    def check(case: Any) -> None:
        response = case.call(base_url=up.url, timeout=PATIENCE)
        statuses[response.status_code] += 1
        assert response.status_code < 500, f"{response.status_code} {response.text[:500]}\n{case.as_curl_command()}"

    try:
        check()
    except Unsatisfiable:
        assert mode is GenerationMode.NEGATIVE, "a valid request cannot be made from the document"


def test_no_request_is_answered_with_a_fault_of_the_server(up: Up) -> None:
    statuses = run(up, SCALED, all=False)
    assert statuses[200] and statuses[400]


@pytest.mark.proof
def test_none_of_five_thousand_is(up: Up) -> None:
    run(up, FULL, all=True)
