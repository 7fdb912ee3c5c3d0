"""What a good file resolves to, and what requests get of it."""

import json
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from appliance.config import load
from appliance.config.deployment import Deployment
from appliance.config.problem import dotted, human
from appliance.config.sampling import decide, find
from appliance.config.settings import settings
from appliance.errors import ApplianceError
from appliance.vocab.request import GenerateRequest, SamplingPatch
from tests.config import golden


@pytest.mark.parametrize("case", golden.cases("resolutions"), ids=lambda case: case.stem)
def test_a_file_resolves_to_this_and_requests_get_that(case: Path, here: Path) -> None:
    """Shown is what differs from a file with nothing but one model."""

    def outcome(text: str, requests: str) -> str:
        deployment = golden.read(text, tolerate={"E110"})
        plain = golden.read("version: 1\nmodels: {plain: {source: 'fake:script.yaml'}}\n")
        lines = [*_differences(deployment, plain)]
        lines += [f"{request} -> {_decided(deployment, request)}" for request in requests.splitlines()]
        return "\n".join([*lines, *([human(deployment.warnings)] if deployment.warnings else [])])

    golden.hold(case, 2, outcome, here)


def test_a_comment_changes_the_digest_and_nothing_else(here: Path) -> None:
    text = "version: 1\nmodels: {demo: {source: smollm2-135m}}\n"
    plain, commented = golden.read(text), golden.read(text + "# a comment\n")
    assert plain == commented
    assert plain.digest != commented.digest


def test_the_digest_covers_every_file_that_was_read(here: Path) -> None:
    model = "{source: 'fake:script.yaml', family: '${file:secret.txt}', template: {file: templates/big.jinja}}"
    text = f"version: 1\nmodels: {{demo: {model}}}\n"
    deployment = golden.read(text)
    names = {str(here / name) for name in ("deploy.yaml", "secret.txt", "templates/big.jinja")}
    # What is not there yet belongs to it, too.
    assert set(deployment.files) == {*names, golden.OWN_FAMILIES}
    assert load.digest(deployment.files) == deployment.digest
    for name in names:
        before = Path(name).read_bytes()
        Path(name).write_bytes(before + b"\n")
        assert load.digest(deployment.files) != deployment.digest
        Path(name).write_bytes(before)
    Path(here / "secret.txt").unlink()
    assert load.digest(deployment.files) != deployment.digest


def test_relative_paths_are_relative_to_the_file_and_not_to_the_working_directory(
    here: Path, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    (here / "deploy.yaml").write_text("version: 1\nmodels: {demo: {source: ./models/here}}\n")
    monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))
    deployment = load.read(here / "deploy.yaml", environ={}, inspect=golden.inspect, memory_bytes=golden.GIB)
    assert deployment.models["demo"].source.ref == str(here / "models/here")


def _decided(deployment: Deployment, request: str) -> str:
    """A request is a name, then its sampling as JSON, then its template variables as JSON."""
    name, *values = request.split(" | ")
    sampling, template = (json.loads(v) for v in [*values, "{}", "{}"][:2])
    logprobs = sampling.pop("logprobs", None)
    patch = msgspec.convert(sampling, SamplingPatch, strict=False)
    try:
        target = find(deployment, name)
        asked = GenerateRequest(model=name, messages=(), sampling=patch, template=template, logprobs=logprobs)
        decided = decide(deployment, target, asked, seed=7)
    except ApplianceError as error:
        return f"{error.status} {error.code}: {error.message}"
    given = {k: v for k, v in msgspec.to_builtins(decided.sampling).items() if (k, v) != ("seed", 7)}
    rewrites = f" rewritten {', '.join(map(str, decided.rewrites))}" if decided.rewrites else ""
    shown = json.dumps(given, sort_keys=True)
    return f"{target.model.name} {shown} {json.dumps(decided.template, sort_keys=True)}{rewrites}"


def _differences(deployment: Deployment, plain: Deployment) -> Iterator[str]:
    ours, theirs = settings(deployment), settings(plain)
    for path in sorted(ours, key=dotted):
        generic = ("models", "plain", *path[2:]) if path[0] == "models" else path
        data = ours[path].data
        if ours[path] != theirs.get(generic) and data is not None and data != []:
            yield f"{dotted(path)} = {data if isinstance(data, str) else json.dumps(data)}"
