"""`appliance models`, run as a user runs it."""

import json

import pytest

from appliance import cli
from appliance.cli.reading import read
from appliance.control import demand, footprint
from appliance.control.sizes import Sizes
from appliance.control.state_dir import state_of

MIB = 1 << 20


@pytest.fixture
def deploy(tmp_path, tiny_vocab_llama, monkeypatch):
    """Writes a deploy file with a model of two tiny layers, in a directory and a home of its own."""
    monkeypatch.setenv("APPLIANCE_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)

    def write(budget="8GiB", **more):
        file = tmp_path / "deploy.yaml"
        memory = {"budget": budget, "kv_reserve": "0%"}
        models = {
            "small": {"source": str(tiny_vocab_llama), "dtype": "float32", "context": 512, "concurrency": 2, **more}
        }
        file.write_text(json.dumps({"version": 1, "memory": memory, "models": models}))
        return file

    return write


def estimated(capsys, *arguments):
    code = cli.run(["models", "estimate", *arguments, "--json"])
    whole = json.loads(capsys.readouterr().out)
    assert whole["ok"] == (code == 0)
    return whole["data"] or whole["diagnostics"]


def test_the_numbers_of_a_model_add_up(deploy, capsys):
    deploy()
    found = estimated(capsys, "small")
    assert found["need"] == found["base"] + found["weights"] + found["activations"]
    assert (found["context"], found["concurrency"], found["measured"], found["refusal"]) == (512, 2, None, "")
    # Two layers, keys and values of 2 heads of 16 numbers, in float32.
    assert found["token"] == 2 * 2 * 2 * 16 * 4
    assert found["row"] == 512 * found["token"]
    assert found["rows"] == 2 * found["row"]
    assert found["left"] == found["budget"] - found["need"]


def test_adapters_are_planned_for_once_however_many_names_they_have(deploy, tmp_path, capsys):
    deploy()
    need = estimated(capsys, "small")["need"]
    for name, file in (("one", "adapters"), ("other", "adapter_model")):
        (tmp_path / name).mkdir()
        (tmp_path / name / f"{file}.safetensors").write_bytes(bytes(5 * MIB))
    (tmp_path / "one" / "0000100_adapters.safetensors").write_bytes(bytes(MIB))
    deploy(adapters={"one": str(tmp_path / "one"), "again": str(tmp_path / "one"), "other": str(tmp_path / "other")})
    found = estimated(capsys, "small")
    assert (found["adapters"], found["need"]) == (10 * MIB, need + 10 * MIB)


def test_what_was_measured_takes_the_place_of_what_was_expected(deploy, capsys):
    file = deploy()
    [engine] = demand.names(read(file)).values()
    state_of(file).path.mkdir(parents=True)
    Sizes(state_of(file).sizes).note(engine, 100 * MIB)
    found = estimated(capsys, "small")
    assert found["measured"] == 100 * MIB
    assert found["need"] == 100 * MIB + found["activations"]


def test_a_model_that_does_not_fit_is_said_with_the_arithmetic(deploy, capsys):
    deploy(budget="100MiB")
    assert cli.run(["models", "estimate", "small"]) == 1
    assert "it does not fit: small needs" in capsys.readouterr().out


def test_a_source_is_estimated_without_a_deploy_file(tiny_vocab_llama, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("APPLIANCE_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    found = estimated(capsys, str(tiny_vocab_llama))
    assert found["base"] == footprint.ENGINE_BASE_BYTES
    assert found["weights"] > 0


def test_a_plan_counts_with_the_same_numbers(deploy, tmp_path, capsys):
    file = deploy()
    need = estimated(capsys, "small")["need"]
    lazy = tmp_path / "lazy.yaml"
    lazy.write_text(file.read_text())
    file.write_text(file.read_text().replace('"dtype"', '"load": "startup", "dtype"'))
    assert cli.run(["plan", "--against", str(lazy), "--json"]) == 0
    memory = json.loads(capsys.readouterr().out)["data"]["memory"]
    assert (memory["before"], memory["peak"], memory["after"]) == (0, need, need)


@pytest.mark.parametrize(
    "model, said",
    [
        pytest.param("smal", "no short name `smal`", id="a name nobody has"),
        pytest.param("hf:somebody/something", "appliance pull hf:somebody/something", id="files that are not here"),
    ],
)
def test_what_cannot_be_estimated_is_refused_with_a_reason(deploy, capsys, model, said):
    deploy()
    [problem] = estimated(capsys, model)
    assert said in problem["message"]
