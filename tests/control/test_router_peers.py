"""Where requests go when there are other servers, and that none leaves that may not, whatever the file says."""

import fnmatch
from dataclasses import replace
from types import MappingProxyType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from appliance.config.condition import STATES, Condition
from appliance.config.coverage import Asked, space
from appliance.config.deployment import Deployment
from appliance.config.peered import is_peer
from appliance.config.routing import Fallback, Goal, Peer, Routing, Rule
from appliance.config.units import bound, load_bound, requests_bound
from appliance.control.router import Facts, ModelNow, Route, route
from appliance.errors import ApplianceError, EgressDenied, UnknownModel
from tests.process.site import Site

PEERS = {name: {"url": f"http://{name}.example"} for name in ("far", "other")}
ROUTING = {
    "virtual": ["auto", "away", "both", "long"],
    "rules": [
        {"name": "pictures", "when": {"model": "auto", "has": ["images"]}, "use": ["far/sees", "small"]},
        {"name": "first", "when": {"model": "auto"}, "use": ["far/big", "small"]},
        {"name": "away", "when": {"model": "away"}, "use": "far/big"},
        {"name": "here", "when": {"model": "away"}, "use": "small"},
        {"name": "both", "when": {"model": "both"}, "use": ["far/big", "other/big"]},
        {"name": "much", "when": {"model": "long", "prompt_tokens": ">1000"}, "use": "big"},
        {"name": "little", "when": {"model": "long"}, "use": "small"},
    ],
    "fallback": {
        "big": {"to": ["far/big", "small"]},
        "far/big": {"to": ["other/big", "big"]},
        "far/a:b": {"to": ["small"]},
    },
    "peers": PEERS,
}


@pytest.fixture(scope="module")
def deployment(tmp_path_factory: pytest.TempPathFactory) -> Deployment:
    site = Site(tmp_path_factory.mktemp("router-peers"))
    site.script("s")
    models = {name: {"source": "fake:s.yaml"} for name in ("big", "small")}
    profiles = {"terse": {"sampling": {"temperature": 0.3}}}
    keys = {"home": {"secret": "home", "egress": "deny"}}
    return site.deployment(
        models,
        routing=ROUTING,
        aliases={"fast": "small", "afar": "far/big", "gone*": "far/a:b"},
        profiles=profiles,
        security={"keys": keys},
    )


CASES: dict[str, tuple[Facts, str, list[str]]] = {
    "a peer's model by its name": (Facts("far/big"), "far/big", ["other/big", "big"]),
    "one that no file names": (Facts("far/anything at all"), "far/anything at all", []),
    "one with a colon": (Facts("far/qwen3:8b"), "far/qwen3:8b", []),
    "one with slashes": (Facts("far/a/b/c"), "far/a/b/c", []),
    "one under a profile": (Facts("far/big:terse"), "far/big", ["other/big", "big"]),
    "an alias": (Facts("afar"), "far/big", ["other/big", "big"]),
    "an alias under a profile": (Facts("afar:terse"), "far/big", ["other/big", "big"]),
    "a glob, to a name with a colon": (Facts("gone-by"), "far/a:b", ["small"]),
    "a rule": (Facts("auto"), "far/big", ["other/big", "big"]),
    "a rule, and it may not leave": (Facts("auto", local_only=True), "small", []),
    "a rule, and the peer is down": (Facts("auto", down=frozenset({"far"})), "small", []),
    "another peer": (Facts("both", down=frozenset({"far"})), "other/big", []),
    "all are down": (Facts("both", down=frozenset({"far", "other"})), "far/big", ["other/big", "big"]),
    "the next rule, where it may not leave": (Facts("away", local_only=True), "small", []),
    "a fallback": (Facts("big"), "big", ["far/big", "small"]),
    "a fallback, and it may not leave": (Facts("big", local_only=True), "big", ["small"]),
    "a fallback that cannot see": (Facts("big", has=frozenset({"images"})), "big", []),
    "few tokens": (Facts("long", prompt_tokens=900), "small", []),
    "few tokens, many of this family's": (
        Facts("long", prompt_tokens=900, scale=MappingProxyType({"generic": 1.2})), "big", ["far/big", "small"]),
    "many tokens, few of this family's": (
        Facts("long", prompt_tokens=1100, scale=MappingProxyType({"generic": 0.9})), "small", []),
}  # fmt: skip


@pytest.mark.parametrize(("asked", "model", "fallbacks"), CASES.values(), ids=CASES)
def test_a_request_goes_where_the_file_says(
    deployment: Deployment, asked: Facts, model: str, fallbacks: list[str]
) -> None:
    found = route(deployment, asked)
    assert found.target.model.name == model
    assert [target.model.name for target in found.fallbacks] == fallbacks


@pytest.mark.parametrize("name", ["far/big", "far/qwen3:8b", "both", "far/big:terse", "afar", "gone-by"])
def test_what_may_not_leave_and_could_not_stay_is_refused(deployment: Deployment, name: str) -> None:
    with pytest.raises((EgressDenied, UnknownModel)):
        route(deployment, Facts(name, local_only=True))


@pytest.mark.parametrize("name", ["nobody/big", "far/", "/big", "far", "far/" + "x" * 600, "far/a\nb", "far/\x00"])
def test_what_is_no_name_of_a_peers_model_is_unknown(deployment: Deployment, name: str) -> None:
    with pytest.raises(UnknownModel):
        route(deployment, Facts(name))


# ---- whatever the file says
names = st.sampled_from(["big", "small", "fast", "far/big", "far/x", "other/y", "other/a:b", "afar", "gone*"])
goals = st.builds(Goal, names, weight=st.integers(0, 3), profile=st.sampled_from([None, "terse"]))
conditions = st.builds(
    Condition,
    model=st.sampled_from([None, "auto", "more", "*"]),
    has=st.frozensets(st.sampled_from(["tools", "images", "json_schema"]), max_size=2),
    prompt_tokens=st.sampled_from([None, bound(">100"), bound("<=50")]),
    key=st.sampled_from([None, "k"]),
    warm=st.sampled_from([None, "big", "fast"]),
    queue=st.dictionaries(
        st.sampled_from(["big", "far/big"]), st.sampled_from([requests_bound(">1"), requests_bound(1)])
    ),
    load=st.dictionaries(st.sampled_from(["big", "fast"]), st.just(load_bound(">50%"))),
    state=st.dictionaries(st.sampled_from(["big", "fast"]), st.frozensets(st.sampled_from(STATES), min_size=1)),
)
rules = st.builds(
    Rule,
    name=st.text("abc", min_size=1, max_size=3),
    when=conditions,
    use=st.lists(goals, min_size=1, max_size=4).map(tuple),
    weighted=st.booleans(),
    prefer=st.sampled_from(["order", "warm"]),
    sticky=st.sampled_from(["never", "session", "prefix"]),
)
fallbacks = st.builds(
    Fallback, st.lists(names, min_size=1, max_size=3).map(tuple), st.just(("load_failed", "overloaded"))
)
routings = st.builds(
    Routing,
    unknown_model=st.one_of(st.none(), names),
    virtual=st.just(("auto", "more")),
    rules=st.lists(rules, max_size=5).map(tuple),
    fallback=st.dictionaries(st.sampled_from(["big", "small", "far/big", "far/x"]), fallbacks),
    peers=st.just({name: Peer(name, f"http://{name}.example", None) for name in PEERS}),
)
requests = st.builds(
    Facts,
    model=st.one_of(names, st.sampled_from(["auto", "more", "auto:terse", "far/big:terse", "x", "auto:no", "gone-by",
                                               "afar:terse"]),
                    st.text(max_size=8)),
    key=st.sampled_from([None, "k"]),
    has=st.frozensets(st.sampled_from(["tools", "images", "json_schema"])),
    prompt_tokens=st.integers(0, 1000),
    session=st.text(max_size=3),
    prefix=st.text(max_size=3),
    draw=st.floats(0, 1),
    now=st.dictionaries(
        st.sampled_from(["big", "small", "far/big"]),
        st.builds(ModelNow, st.sampled_from(STATES), st.integers(0, 3), st.floats(0, 1)),
    ),
    down=st.frozensets(st.sampled_from(["far", "other"])),
    scale=st.dictionaries(st.just("generic"), st.floats(0.25, 4)),
    local_only=st.booleans(),
)  # fmt: skip


def outcome(deployment: Deployment, asked: Facts) -> Route | tuple[type[ApplianceError], str]:
    try:
        return route(deployment, asked)
    except ApplianceError as error:
        return type(error), error.message


KEYS = frozenset({None, "k"})


def held(deployment: Deployment, routing: Routing, asked: Facts) -> None:
    """Every request has an outcome, always the same, none that may not leave does, and no rule decides of which it is
    said that it cannot.
    """
    given_ = replace(deployment, routing=routing)
    found = outcome(given_, asked)
    assert found == outcome(given_, asked)
    if not isinstance(found, Route):
        assert found[0] in (UnknownModel, EgressDenied)
        assert found[0] is not EgressDenied or asked.local_only
        return
    every = [found.target, *found.fallbacks]
    if found.rule is not None and not asked.local_only:
        at = next(i for i, rule in enumerate(routing.rules) if found.reasons[i].startswith(f"rule {rule.name} holds"))
        asked_of = [
            Asked(rule.when, frozenset(fnmatch.filter(routing.virtual, rule.when.model or "*")), KEYS, rule.use[0].to)
            for rule in routing.rules[: at + 1]
        ]
        room = space(asked_of, routing.virtual, ["k"])
        assert not room.dead(room.box(asked_of[at]), [room.box(each) for each in asked_of[:at]])
    if asked.local_only:
        assert not any(is_peer(target.model) for target in every)
    if "images" in asked.has:
        assert not found.fallbacks


@given(routings, requests)
@settings(max_examples=300)
def test_routing_is_total_the_same_every_time_and_lets_nothing_out(
    deployment: Deployment, routing: Routing, asked: Facts
) -> None:
    held(deployment, routing, asked)


@pytest.mark.proof
@given(routings, requests)
@settings(max_examples=3_000, deadline=None)
def test_routing_is_total_the_same_every_time_and_lets_nothing_out_of_many_files(
    deployment: Deployment, routing: Routing, asked: Facts
) -> None:
    held(deployment, routing, asked)
