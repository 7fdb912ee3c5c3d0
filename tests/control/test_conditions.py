"""What is said of each model, since when, and what a deployment still lacks."""

from dataclasses import replace
from typing import Any

import pytest

from appliance.config import load
from appliance.config.deployment import Deployment
from appliance.control import demand
from appliance.control.conditions import follow, missing
from appliance.control.failures import Failure
from appliance.control.residency import Engine, EngineState, Registry, Waiter, Want
from appliance.control.status import ModelStatus, Observed, describe
from appliance.errors import LoadFailed

LOADING, READY, DRAINING = EngineState.LOADING, EngineState.READY, EngineState.DRAINING
FOR_GOOD = Failure(LoadFailed("cut off"), True, 1, 0)
PAUSED = Failure(LoadFailed("busy"), False, 2, 99)


@pytest.fixture(scope="module")
def deployment(tmp_path_factory: pytest.TempPathFactory) -> Deployment:
    directory = tmp_path_factory.mktemp("conditions")
    (directory / "m.yaml").write_text("")
    file = directory / "deploy.yaml"
    file.write_text("version: 1\nmodels: {m: {source: 'fake:m.yaml'}}\n")
    return load.read(file, environ={}, inspect=lambda *_: None, memory_bytes=2**34)


def look(deployment: Deployment, seen: Observed = Observed(), **engine: Any) -> ModelStatus:
    """The model `m` whose engine has these properties; `present` is that of what is wanted of it."""
    fingerprint = demand.names(deployment)["m"]
    want = Want(fingerprint, "m", 1, present=engine.pop("present", True))
    state = Registry({fingerprint: replace(Engine(want), **engine)})
    [status] = describe(state, deployment, {fingerprint: seen}, 0.0)
    return status


SAID = {
    "cold": ({}, "Ready OnDemand", ""),
    "asked for by a request": ({"waiters": (Waiter(1, "m"),)}, "Ready OnDemand", ""),
    "loading for a request": ({"state": LOADING}, "Loading", ""),
    "loading because it has to": ({"state": LOADING, "wanted": True}, "Loading", "m is not ready: starting 0%"),
    "waiting for memory": ({"wanted": True}, "Queued", "m is not ready: waiting for memory"),
    "ready": ({"state": READY}, "Downloaded Loaded Ready Loaded", ""),
    "stopping": ({"state": DRAINING, "stopping": True}, "Stopping", ""),
    "without files": ({"present": False}, "NotDownloaded", ""),
    "without files it has to have": (
        {"present": False, "wanted": True},
        "NotDownloaded",
        "m is not ready: the files are fetched with the first request",
    ),
    "failed for a request": ({"failure": PAUSED}, "Degraded Failed", ""),
    "failed, to be tried again": ({"failure": PAUSED, "wanted": True}, "Degraded Failed", "m failed: busy"),
    "failed for good": ({"failure": FOR_GOOD, "wanted": True}, "Degraded Failed", "m failed: cut off"),
}


@pytest.mark.parametrize(("engine", "said", "lacking"), SAID.values(), ids=SAID.keys())
def test_an_engine_says_this(deployment: Deployment, engine: dict[str, Any], said: str, lacking: str) -> None:
    model = look(deployment, **engine)
    holding = {condition.name for condition in model.conditions if condition.holds}
    ready = next(condition for condition in model.conditions if condition.name == "Ready")
    *expected, reason = said.split()
    assert ready.reason == reason
    assert holding >= {"Resolved", *expected}
    assert ready.holds == ("Ready" in expected)
    assert "; ".join(map(str, missing([model]))) == lacking


def test_waiting_is_no_use_for_what_failed_for_good(deployment: Deployment) -> None:
    assert [each.final for each in missing([look(deployment, failure=FOR_GOOD, wanted=True)])] == [True]
    assert [each.final for each in missing([look(deployment, failure=PAUSED, wanted=True)])] == [False]


def test_an_engine_of_an_earlier_generation_is_missing_its_end(deployment: Deployment) -> None:
    leaving = replace(look(deployment, state=DRAINING, leases=frozenset({1, 2})), retired=True)
    assert [str(each) for each in missing([leaving])] == ["m of an earlier generation is ending, still answering 2"]


def test_a_download_says_how_far_it_is(deployment: Deployment) -> None:
    model = look(deployment, Observed(download=("download", 1, 4)), present=False)
    assert next(condition.message for condition in model.conditions if not condition.holds) == "download 25%"


def test_a_condition_keeps_its_time_until_it_says_something_else(deployment: Deployment) -> None:
    cold, loading = look(deployment), look(deployment, state=LOADING)
    first = follow({}, [cold], 1, 100.0)
    later = follow(first, [cold], 2, 200.0)
    assert {(standing.since, standing.generation) for standing in later["m"]} == {(100.0, 2)}
    changed = {standing.condition.name: standing.since for standing in follow(later, [loading], 2, 300.0)["m"]}
    assert changed == {"Resolved": 100.0, "Downloaded": 100.0, "Loaded": 300.0, "Ready": 300.0, "Degraded": 100.0}


def test_a_model_that_comes_back_begins_anew(deployment: Deployment) -> None:
    gone = follow(follow({}, [look(deployment)], 1, 100.0), [], 2, 200.0)
    assert {standing.since for standing in follow(gone, [look(deployment)], 3, 300.0)["m"]} == {300.0}


def test_a_dialect_that_does_not_fit_is_said_and_keeps_nothing_from_converging(deployment: Deployment) -> None:
    seen = Observed(mismatches={"m": "tool dialect a does not read what the template writes; b would"})
    status = look(deployment, seen, state=READY)
    degraded = {condition.name: condition for condition in status.conditions}["Degraded"]
    assert (degraded.holds, degraded.reason) == (True, "DialectMismatch")
    assert "b would" in degraded.message
    assert missing([status]) == ()
    failed = look(deployment, seen, failure=FOR_GOOD, wanted=True)
    assert {condition.name: condition for condition in failed.conditions}["Degraded"].reason == "PermanentFailure"
