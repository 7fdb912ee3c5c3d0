"""Which name and which request leads where: a table of cases, and what holds for all of them."""

from dataclasses import replace
from types import MappingProxyType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from appliance.config.condition import STATES
from appliance.config.deployment import Deployment, Overlay
from appliance.control.router import Facts, ModelNow, failure_of, lacks, route
from appliance.errors import (
    ApplianceError,
    BadRequest,
    EngineDied,
    LoadFailed,
    Overloaded,
    PromptTooLong,
    SourceError,
    TimedOut,
    Unavailable,
    UnknownModel,
)
from tests.process.site import Site

ROUTING = {
    "virtual": ["auto", "cheap", "spread", "kept", "warm", "none", "strict", "off", "busy"],
    "rules": [
        {"name": "pictures", "when": {"model": "auto", "has": ["images"]}, "use": ["big", "seer"]},
        {"name": "beta", "when": {"model": "auto", "header": {"X-Track": "beta*"}}, "use": "next"},
        {"name": "both", "when": {"model": "auto", "has": ["tools", "json_schema"]}, "use": "next"},
        {"name": "tools", "when": {"model": "auto", "has": ["tools"]}, "use": "coder"},
        {"name": "long", "when": {"model": "auto", "prompt_tokens": ">24k"}, "use": "big"},
        {"name": "nightly", "when": {"model": "auto", "key": "ci", "time": "22:00-07:00"}, "use": "big"},
        {
            "name": "noon",
            "when": {"model": "auto", "time": "12:00-13:00"},
            "use": [{"to": "big", "profile": "terse", "sampling": {"top_k": 3}}],
        },
        {"name": "agents", "when": {"model": "auto", "endpoint": "/v1/messages*"}, "use": "next"},
        {"name": "hard", "when": {"model": "auto", "effort": ["high", "max"]}, "use": "big"},
        {"name": "ready", "when": {"model": "auto", "warm": "fast", "key": "ann"}, "use": "fast"},
        {"name": "rest", "when": {"model": "auto"}, "use": ["small", "big"]},
        {"name": "weights", "when": {"model": "spread"}, "use": [
            {"to": "big", "weight": 90}, {"to": "next", "weight": 10}, {"to": "small", "weight": 0}]},
        {"name": "sticks", "when": {"model": "kept", "header": {"x-by": "session"}}, "sticky": "session",
         "use": [{"to": "big", "weight": 1}, {"to": "next", "weight": 1}]},
        {"name": "prefixes", "when": {"model": "kept"}, "sticky": "prefix", "use": ["big", "next", "small"]},
        {"name": "loaded", "when": {"model": "warm"}, "use": ["big", "next", "small"], "prefer": "warm"},
        {"name": "small ones", "when": {"model": "cheap", "prompt_tokens": "<=100"}, "use": "small"},
        {"name": "any", "when": {"model": "c*"}, "use": "fast"},
        {"name": "never", "when": {"model": "none", "key": "ci"}, "use": "big"},
        {"name": "exact", "when": {"model": "strict", "prompt_tokens": ">=100"}, "use": "big"},
        {"name": "below", "when": {"model": "strict", "prompt_tokens": "<100"}, "use": "small"},
        {"name": "fresh", "when": {"model": "busy", "state": {"big": ["cold", "loading"]}, "queue": {"big": "<=2"}},
         "use": "small"},
        {"name": "crowded", "when": {"model": "busy", "queue": {"big": ">4"}}, "use": "next"},
        {"name": "loaded up", "when": {"model": "busy", "load": {"big": ">=100%", "fast": "<50%"}}, "use": "fast"},
        {"name": "leaving", "when": {"model": "busy", "state": {"fast": ["draining"]}}, "use": "seer"},
        {"name": "as ever", "when": {"model": "busy"}, "use": "big"},
        {"name": "zero", "when": {"model": "off"}, "use": [{"to": "big", "weight": 0}]},
    ],
    "fallback": {
        "big": {"to": ["small", "seer", "coder"], "when": ["load_failed", "context_exceeded"]},
        "seer": {"to": ["fast"]},
    },
}  # fmt: skip
ALIASES = {
    "coder": {"model": "big", "profile": "coding", "sampling": {"top_k": 9}},
    "fast": "small",
    "gpt-4*": "big",
    "gpt-4o*": "small",
    "locked": {"model": "big", "policy": {"lock": {"temperature": 0}}},
}
PROFILES = {
    "coding": {"sampling": {"temperature": 0.6, "top_k": 5, "min_p": 0.1}},
    "terse": {"sampling": {"temperature": 0.3, "max_tokens": 512}},
}


@pytest.fixture(scope="module")
def deployment(tmp_path_factory: pytest.TempPathFactory) -> Deployment:
    """Four text models of which `seer` sees, two keys, and the rules above."""
    site = Site(tmp_path_factory.mktemp("router"))
    site.script("s")
    found = site.deployment(
        {name: {"source": "fake:s.yaml"} for name in ("big", "next", "small", "seer")},
        routing=ROUTING,
        aliases=ALIASES,
        profiles=PROFILES,
        security={"keys": {"ci": {"secret": "one"}, "ann": {"secret": "two"}}},
    )
    seer = found.models["seer"]
    seeing = replace(
        seer, kind="vision", family=replace(seer.family, capabilities=MappingProxyType({"vision": True}))
    )
    return replace(found, models=MappingProxyType({**found.models, "seer": seeing}))


def facts(model: str, **more: object) -> Facts:
    has = more.pop("has", ())
    warm = dict.fromkeys(more.pop("warm", ()), ModelNow("ready"))  # type: ignore[call-overload]
    return Facts(model, has=frozenset(has), now={**warm, **more.pop("now", {})}, **more)  # type: ignore[arg-type, call-overload]


NIGHT, NOON, DAY = 23 * 60, 12 * 60, 9 * 60
K = 1024
CASES: dict[str, tuple[Facts, str, str | None]] = {
    "a model by its name": (facts("big"), "big", None),
    "another model": (facts("small"), "small", None),
    "a model under a profile": (facts("small:terse"), "small", None),
    "an alias": (facts("fast"), "small", None),
    "an alias with values": (facts("coder"), "big", None),
    "an alias under a profile": (facts("coder:terse"), "big", None),
    "a glob": (facts("gpt-4-turbo"), "big", None),
    "the longest glob": (facts("gpt-4o-mini"), "small", None),
    "a glob under a profile": (facts("gpt-4:terse"), "big", None),
    "rules are not for models": (facts("small", has=["tools"]), "small", None),
    "rules are not for aliases": (facts("fast", prompt_tokens=99 * K), "small", None),
    "nothing special": (facts("auto", minute=DAY), "small", "rest"),
    "nothing special under a profile": (facts("auto:terse", minute=DAY), "small", "rest"),
    "tools": (facts("auto", has=["tools"]), "big", "tools"),
    "tools and a schema": (facts("auto", has=["tools", "json_schema"]), "next", "both"),
    "a schema alone": (facts("auto", has=["json_schema"], minute=DAY), "small", "rest"),
    "images": (facts("auto", has=["images"]), "seer", "pictures"),
    "images before tools": (facts("auto", has=["images", "tools"]), "seer", "pictures"),
    "images before headers": (facts("auto", has=["images"], headers={"x-track": "beta"}), "seer", "pictures"),
    "a header": (facts("auto", headers={"x-track": "beta"}), "next", "beta"),
    "a header that fits the glob": (facts("auto", headers={"x-track": "beta-7"}), "next", "beta"),
    "a header of another value": (facts("auto", headers={"x-track": "alpha"}, minute=DAY), "small", "rest"),
    "a header in other letters": (facts("auto", headers={"x-track": "BETA"}, minute=DAY), "small", "rest"),
    "another header": (facts("auto", headers={"x-other": "beta"}, minute=DAY), "small", "rest"),
    "a header before tools": (facts("auto", headers={"x-track": "beta"}, has=["tools"]), "next", "beta"),
    "a long prompt": (facts("auto", prompt_tokens=24 * K + 1), "big", "long"),
    "a prompt of just the bound": (facts("auto", prompt_tokens=24 * K, minute=DAY), "small", "rest"),
    "tools before length": (facts("auto", has=["tools"], prompt_tokens=99 * K), "big", "tools"),
    "a key at night": (facts("auto", key="ci", minute=NIGHT), "big", "nightly"),
    "a key after midnight": (facts("auto", key="ci", minute=60), "big", "nightly"),
    "a key as the night begins": (facts("auto", key="ci", minute=22 * 60), "big", "nightly"),
    "a key as the night ends": (facts("auto", key="ci", minute=7 * 60), "small", "rest"),
    "a key by day": (facts("auto", key="ci", minute=DAY), "small", "rest"),
    "another key at night": (facts("auto", key="ann", minute=NIGHT), "small", "rest"),
    "no key at night": (facts("auto", minute=NIGHT), "small", "rest"),
    "an endpoint": (facts("auto", minute=DAY, endpoint="/v1/messages"), "next", "agents"),
    "another endpoint": (facts("auto", minute=DAY, endpoint="/v1/responses"), "small", "rest"),
    "a high effort": (facts("auto", minute=DAY, effort="high"), "big", "hard"),
    "a low effort": (facts("auto", minute=DAY, effort="low"), "small", "rest"),
    "a model that is in memory": (facts("auto", key="ann", minute=DAY, warm=["small"]), "small", "ready"),
    "a model that is not in memory": (facts("auto", key="ann", minute=DAY, warm=["big"]), "small", "rest"),
    "noon": (facts("auto", minute=NOON), "big", "noon"),
    "the end of noon": (facts("auto", minute=NOON + 60), "small", "rest"),
    "order is kept though another is warm": (facts("auto", minute=DAY, warm=["big"]), "small", "rest"),
    "weights at the lower end": (facts("spread", draw=0.0), "big", "weights"),
    "weights just below the border": (facts("spread", draw=0.899), "big", "weights"),
    "weights just above the border": (facts("spread", draw=0.901), "next", "weights"),
    "weights at the upper end": (facts("spread", draw=0.9999), "next", "weights"),
    "weights beyond the upper end": (facts("spread", draw=1.0), "next", "weights"),
    "a weight of nothing alone": (facts("off"), "big", "zero"),
    "warm first": (facts("warm", warm=["small"]), "small", "loaded"),
    "the first of the warm": (facts("warm", warm=["small", "next"]), "next", "loaded"),
    "none is warm": (facts("warm"), "big", "loaded"),
    "all are warm": (facts("warm", warm=["big", "next", "small"]), "big", "loaded"),
    "another is warm": (facts("warm", warm=["seer"]), "big", "loaded"),
    "a glob over virtual names": (facts("cheap", prompt_tokens=101), "small", "any"),
    "a bound that includes": (facts("cheap", prompt_tokens=100), "small", "small ones"),
    "at least": (facts("strict", prompt_tokens=100), "big", "exact"),
    "less than": (facts("strict", prompt_tokens=99), "small", "below"),
    "no session to stick to": (facts("kept", headers={"x-by": "session"}, draw=0.1), "big", "sticks"),
    "no session, another draw": (facts("kept", headers={"x-by": "session"}, draw=0.9), "next", "sticks"),
    "no prefix to stick to": (facts("kept"), "big", "prefixes"),
    "nothing is known of a model: it is cold and idle": (facts("busy"), "small", "fresh"),
    "a model that is loading": (facts("busy", now={"big": ModelNow("loading", 2)}), "small", "fresh"),
    "a model that loads for too many": (facts("busy", now={"big": ModelNow("loading", 3)}), "big", "as ever"),
    "a model that is ready": (facts("busy", now={"big": ModelNow("ready")}), "big", "as ever"),
    "a queue of just the bound": (facts("busy", now={"big": ModelNow("ready", 4)}), "big", "as ever"),
    "a longer queue": (facts("busy", now={"big": ModelNow("ready", 5)}), "next", "crowded"),
    "a longer queue of another": (facts("busy", warm=["big"], now={"small": ModelNow("ready", 5)}), "big", "as ever"),
    "all rows busy": (facts("busy", now={"big": ModelNow("ready", 0, 1.0)}), "small", "loaded up"),
    "nearly all rows busy": (facts("busy", now={"big": ModelNow("ready", 0, 0.99)}), "big", "as ever"),
    "all rows busy, and half of the other's": (
        facts("busy", now={"big": ModelNow("ready", 0, 1.0), "small": ModelNow("ready", 0, 0.5)}), "big", "as ever"),
    "a state by an alias": (facts("busy", warm=["big"], now={"small": ModelNow("draining")}), "seer", "leaving"),
    "a rule for a key that has it": (facts("none", key="ci"), "big", "never"),
}  # fmt: skip


@pytest.mark.parametrize(("asked", "model", "rule"), CASES.values(), ids=CASES)
def test_a_request_goes_where_the_file_says(
    deployment: Deployment, asked: Facts, model: str, rule: str | None
) -> None:
    found = route(deployment, asked)
    assert (found.target.model.name, found.rule, found.target.asked) == (model, rule, asked.model)


UNKNOWN = {
    "a name nobody has": facts("biig"),
    "a name nobody has under a profile": facts("biig:terse"),
    "a profile nobody has": facts("big:tense"),
    "a virtual name under a profile nobody has": facts("auto:tense"),
    "no rule holds": facts("none"),
    "no rule holds for another key": facts("none", key="ann"),
    "nothing": facts(""),
    "a model with other letters": facts("BIG"),
}


@pytest.mark.parametrize("asked", UNKNOWN.values(), ids=UNKNOWN)
def test_what_leads_nowhere_is_an_unknown_model(deployment: Deployment, asked: Facts) -> None:
    with pytest.raises(UnknownModel) as raised:
        route(deployment, asked)
    assert raised.value.param == "model"


@pytest.mark.parametrize(
    ("asked", "model"),
    [("biig", "small"), ("llama3:8b", "small"), ("biig:terse", "small"), ("big", "big"), ("gpt-4", "big")],
)
def test_a_name_nobody_has_may_have_a_model_that_answers(deployment: Deployment, asked: str, model: str) -> None:
    routing = replace(deployment.routing, unknown_model="fast")
    found = route(replace(deployment, routing=routing), facts(asked))
    assert (found.target.model.name, found.target.asked) == (model, asked)
    assert (deployment.profiles["terse"] in found.target.overlays) == asked.endswith(":terse")


def test_a_wrong_profile_of_a_known_name_is_told_even_where_unknown_names_are_answered(
    deployment: Deployment,
) -> None:
    routing = replace(deployment.routing, unknown_model="fast")
    with pytest.raises(UnknownModel):
        route(replace(deployment, routing=routing), facts("big:tense"))


# ---- overlays
OVERLAYS = {
    "an alias over its profile": (facts("coder"), ["coder", "coding"]),
    "the request's profile over that of the alias": (facts("coder:terse"), ["coder", "terse", "coding"]),
    "a rule to an alias": (facts("auto", has=["tools"]), ["coder", "coding"]),
    "a rule's values over its profile": (facts("auto", minute=NOON), ["noon", "terse"]),
    "the request's profile over the rule's": (facts("auto:coding", minute=NOON), ["noon", "coding", "terse"]),
}


@pytest.mark.parametrize(("asked", "expected"), OVERLAYS.values(), ids=OVERLAYS)
def test_what_is_laid_over_a_model_has_an_order(deployment: Deployment, asked: Facts, expected: list[str]) -> None:
    named = [(deployment.profiles[name], name) for name in PROFILES]
    named += [(deployment.aliases["coder"].own, "coder")]
    named += [
        (goal.own, rule.name) for rule in deployment.routing.rules for goal in rule.use if goal.own != Overlay()
    ]
    found = route(deployment, asked).target.overlays
    assert [next(name for overlay, name in named if overlay == each) for each in found] == expected


# ---- sticking
@pytest.mark.parametrize(("by", "header"), [("session", {"x-by": "session"}), ("prefix", {})])
def test_a_conversation_stays_where_it_began_and_many_are_spread(
    deployment: Deployment, by: str, header: dict[str, str]
) -> None:
    homes = {}
    for number in range(200):
        places = {
            route(deployment, facts("kept", headers=header, draw=draw, **{by: f"talk {number}"})).target.model.name
            for draw in (0.0, 0.5, 0.99)
        }
        assert len(places) == 1
        homes[number] = places.pop()
    goals = {"big", "next"} if by == "session" else {"big", "next", "small"}
    counts = {goal: list(homes.values()).count(goal) for goal in goals}
    assert sum(counts.values()) == 200
    assert min(counts.values()) > 200 / len(goals) * 0.6


def test_another_target_moves_only_those_conversations_that_go_there(deployment: Deployment) -> None:
    rule = next(rule for rule in deployment.routing.rules if rule.name == "sticks")
    more = replace(rule, use=(*rule.use, replace(rule.use[0], to="small")))
    grown = replace(deployment, routing=replace(deployment.routing, rules=(more,)))
    moved = 0
    for number in range(200):
        asked = facts("kept", headers={"x-by": "session"}, session=f"s{number}")
        before, after = (route(each, asked).target.model.name for each in (deployment, grown))
        moved += before != after
        assert after in (before, "small")
    assert 30 < moved < 110


# ---- fallbacks
FALLBACKS = {
    "to those of the model": (facts("big"), ["small", "seer"]),
    "over an alias": (facts("coder"), ["small", "seer"]),
    "over a rule": (facts("auto", prompt_tokens=99 * K), ["small", "seer"]),
    "to an alias": (facts("seer"), ["small"]),
    "none": (facts("next"), []),
    "only to those that see": (facts("big", has=["images"]), ["seer"]),
    "to none that could": (facts("seer", has=["images"]), []),
}


@pytest.mark.parametrize(("asked", "expected"), FALLBACKS.values(), ids=FALLBACKS)
def test_a_failing_model_has_others_behind_it(deployment: Deployment, asked: Facts, expected: list[str]) -> None:
    assert [target.model.name for target in route(deployment, asked).fallbacks] == expected


def test_what_an_alias_locks_stays_locked_behind_a_fallback(deployment: Deployment) -> None:
    found = route(deployment, facts("locked"))
    assert found.fallbacks
    assert all(target.overlays[-1].policy.lock == {"temperature": 0} for target in found.fallbacks)


@pytest.mark.parametrize(
    ("error", "failure"),
    [
        (LoadFailed("x"), "load_failed"),
        (SourceError("x"), "load_failed"),
        (Overloaded("x"), "overloaded"),
        (Unavailable("x"), "overloaded"),
        (TimedOut("x"), "timeout"),
        (PromptTooLong("x"), "context_exceeded"),
        (BadRequest("x"), None),
        (EngineDied("x"), None),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, ApplianceError) else None,
)
def test_each_error_is_one_reason_or_none(error: ApplianceError, failure: str | None) -> None:
    assert failure_of(error) == failure


# ---- what holds for every request
nows = st.builds(ModelNow, st.sampled_from(STATES), st.integers(0, 9), st.floats(0, 1))
requests = st.builds(
    Facts,
    model=st.one_of(
        st.sampled_from([*ROUTING["virtual"], "big", "coder", "gpt-4o", "big:terse", "auto:coding", "x"]),  # type: ignore[misc]
        st.text(max_size=12),
    ),
    key=st.sampled_from([None, "ci", "ann"]),
    headers=st.dictionaries(st.sampled_from(["x-track", "x-by"]), st.sampled_from(["beta", "session", ""])),
    has=st.frozensets(st.sampled_from(["tools", "images", "audio", "json_schema"])),
    prompt_tokens=st.integers(0, 10**7),
    minute=st.integers(0, 1439),
    endpoint=st.sampled_from(["/v1/messages", "/v1/chat/completions"]),
    effort=st.sampled_from(["", "low", "high", "max"]),
    session=st.text(max_size=4),
    prefix=st.text(max_size=4),
    draw=st.floats(0, 1),
    now=st.dictionaries(st.sampled_from(["big", "next", "small", "seer"]), nows),
)


@given(requests)
def test_every_request_has_one_route_and_always_the_same_or_is_told_why_not(
    deployment: Deployment, asked: Facts
) -> None:
    try:
        first = route(deployment, asked)
    except UnknownModel as unknown:
        with pytest.raises(UnknownModel) as again:
            route(deployment, asked)
        assert again.value.message == unknown.message
        return
    assert route(deployment, asked) == first
    assert first.target.model.name in deployment.models
    assert first.reasons
    assert first.target.model.name not in {target.model.name for target in first.fallbacks}
    for target in first.fallbacks:
        assert not lacks(target.model, asked.has)
    if asked.model.partition(":")[0] in deployment.models:
        assert first.rule is None
