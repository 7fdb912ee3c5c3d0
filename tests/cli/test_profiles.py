"""`appliance profiles`, run as a user runs it."""

import json
from pathlib import Path

import pytest

from appliance import cli

# A template of our own that thinks and calls as Qwen3 does.
THINKS = """\
{%- for message in messages %}
{{- '<|im_start|>' + message.role + '\\n' }}
{%- if message.reasoning_content %}{{- '<think>\\n' + message.reasoning_content + '\\n</think>\\n\\n' }}{% endif %}
{{- message.content or '' }}
{%- for call in message.tool_calls or [] %}
{{- '\\n<tool_call>\\n{"name": "' + call.function.name + '", "arguments": ' }}
{{- call.function.arguments | tojson + '}\\n</tool_call>' }}
{%- endfor %}
{{- '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}
{%- if enable_thinking is false %}{{- '<think>\\n\\n</think>\\n\\n' }}{% endif %}{% endif %}
"""
PLAIN = "{% for message in messages %}{{ '<|zebra|>' + message.content }}{% endfor %}"


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with a model and its template, templates alone, and a home of its own."""
    monkeypatch.setenv("APPLIANCE_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    for name, text, model_type in (("thinks", THINKS, "qwen3"), ("plain", PLAIN, "zebra")):
        model = tmp_path / name
        model.mkdir()
        (model / "chat_template.jinja").write_text(text)
        (model / "config.json").write_text(json.dumps({"model_type": model_type}))
        (model / "model.safetensors").write_bytes(b"\2\0\0\0\0\0\0\0{}")
    templates = tmp_path / "templates"
    templates.mkdir()
    (templates / "a.jinja").write_text(THINKS)
    (templates / "b.jinja").write_text(PLAIN)
    return tmp_path


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = cli.run(["profiles", *arguments])
    said = capsys.readouterr()
    return code, said.out, said.err


def data(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, dict]:
    code, out, _ = run(capsys, *arguments, "--json")
    return code, json.loads(out)


def test_every_family_is_listed_with_its_dialects(capsys: pytest.CaptureFixture[str]) -> None:
    code, whole = data(capsys, "ls")
    rows = {row["family"]: row for row in whole["data"]}
    assert code == 0
    assert rows["qwen3"]["tools"] == "hermes_json"
    assert (rows["gpt-oss"]["reasoning"], rows["gpt-oss"]["from"]) == ("harmony", "shipped")
    assert "qwen3 " in run(capsys, "ls")[1]


def test_a_family_is_shown_as_its_file_and_as_data(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "show", "qwen3")[1].startswith("family: qwen3\n")
    found = data(capsys, "show", "qwen3")[1]["data"]
    assert found["modes"]["thinking"] == {
        "when": {"enable_thinking": True},
        "sampling": {"temperature": 0.6, "top_p": 0.95},
    }
    assert found["names"]["qwen3-4b"]["memory"] > 2**30
    assert found["card"].startswith("https://")


@pytest.mark.parametrize(
    ("name", "said"),
    [("qwen9", "did you mean"), ("zzzzzzz", "profiles ls"), ("qwen3-4b", "a short name of the family qwen3")],
)
def test_a_family_that_is_none_is_said_with_what_to_do(
    name: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, err = run(capsys, "show", name)
    assert (code, said in err) == (1, True)


@pytest.mark.parametrize(
    ("model", "family", "why"),
    [
        ("qwen3-4b", "qwen3", "the short name qwen3-4b is in its catalogue"),
        ("./thinks", "qwen3", "recognised by its files"),
        ("./plain", "generic", "no family recognises its files"),
        ("hf:owner/nothing", "generic", "its files are not here"),
        ("forced", "glm-4.5", "the deploy file says so"),
        ("templates/a.jinja", "qwen3", "recognised by its text"),
        ("templates/b.jinja", "generic", "no family recognises its text"),
    ],
)
def test_why_a_model_is_of_its_family(model: str, family: str, why: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("deploy.yaml").write_text("version: 1\nmodels: {forced: {source: ./thinks, family: glm-4.5}}\n")
    code, whole = data(capsys, "why", model)
    [found] = whole["data"]
    assert (code, found["family"]) == (0, family)
    assert why in found["why"]
    told = run(capsys, "why", model)[1]
    assert told.startswith(f"{model.removeprefix('templates/')}: {family}: {found['why']}")


def test_why_says_what_is_missing_where_nothing_fits(capsys: pytest.CaptureFixture[str]) -> None:
    told = run(capsys, "why", "./plain")[1]
    assert "not format-hermes: the template has no <tool_call>" in told


def test_a_template_that_agrees_with_its_dialects(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "test", "./thinks")
    assert (code, out) == (0, "./thinks: qwen3: tools hermes_json, reasoning think_tags: agree\n")


def test_a_template_that_does_not_agree_names_the_dialect_and_what_was_written(
    capsys: pytest.CaptureFixture[str],
) -> None:
    code, whole = data(capsys, "test", "./thinks", "--family", "glm-4.5")
    [found] = whole["data"]
    assert (code, whole["ok"], found["family"]) == (1, False, "glm-4.5")
    assert "glm45" in found["mismatches"][0]
    assert "<tool_call>" in found["mismatches"][0]
    assert "do not agree" in run(capsys, "test", "./thinks", "--family", "glm-4.5")[1]


def test_a_directory_of_templates_is_tested_whole(capsys: pytest.CaptureFixture[str]) -> None:
    code, whole = data(capsys, "test", "templates")
    assert code == 0
    assert [found["model"] for found in whole["data"]] == ["a.jinja", "b.jinja"]


def test_what_the_deploy_file_says_of_a_model_is_what_is_tested(capsys: pytest.CaptureFixture[str]) -> None:
    Path("deploy.yaml").write_text(
        "version: 1\nmodels:\n"
        "  a: {source: ./plain, template: {file: templates/a.jinja}, family: qwen3}\n"
        "  b: {source: ./thinks, dialects: {tools: kimi_k2}}\n"
    )
    code, whole = data(capsys, "test")
    assert code == 1
    assert [bool(found["mismatches"]) for found in whole["data"]] == [False, True]


def test_all_models_of_the_deploy_file_are_tested_and_those_not_here_are_named(
    capsys: pytest.CaptureFixture[str],
) -> None:
    Path("deploy.yaml").write_text("version: 1\nmodels: {a: {source: ./thinks}, far: {source: qwen3-4b}}\n")
    code, out, _ = run(capsys, "test")
    assert code == 0
    assert out.splitlines()[1].endswith("not tested: its files are not here")


def test_without_a_deploy_file_something_must_be_named(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = run(capsys, "test")
    assert (code, "name a model" in err) == (1, True)


def test_a_new_family_has_what_the_model_s_files_say_and_is_used(capsys: pytest.CaptureFixture[str]) -> None:
    code, whole = data(capsys, "new", "mine", "./thinks")
    text = Path(whole["data"]["file"]).read_text()
    assert code == 0
    assert "model_type: [qwen3]" in text
    assert "dialects: {reasoning: think_tags, tools: hermes_json}" in text
    assert data(capsys, "why", "./thinks")[1]["data"][0]["family"] == "mine"
    assert run(capsys, "test", "./thinks")[0] == 0
    assert run(capsys, "show", "mine")[1] == text
    again, _, err = run(capsys, "new", "mine")
    assert (again, "cannot be written" in err) == (73, True)


def test_a_new_family_without_a_model_is_a_good_file(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "new", "blank")[0] == 0
    assert "blank" in run(capsys, "ls")[1]
    code, _, err = run(capsys, "new", "bad/name")
    assert (code, "no name for a family" in err) == (1, True)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("new", "qwen3"), "qwen3 is a shipped family, and a file of that name takes its place"),
        (("why", "qwen3"), "qwen3 is a family and not a model; `appliance profiles show qwen3`"),
        (("test", "empty"), "empty has neither a model (config.json) nor chat templates (*.jinja)"),
        (("show", "qwen3-4b"), "qwen3-4b is a short name of the family qwen3"),
        (("show", "qwn3"), "did you mean qwen3?"),
        (("why", "qwen3-4"), "did you mean qwen3-4b?"),
    ],
    ids=["a shipped name", "a family for a model", "an empty directory", "a model for a family", "a slip", "another"],
)
def test_a_newcomer_s_mistakes_are_told_with_what_to_do(
    here: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], said: str
) -> None:
    (here / "empty").mkdir()
    code, _, err = run(capsys, *words)
    assert code == 1
    assert said in err
    assert not (here / "home" / "profiles").exists()


def test_a_broken_family_of_ones_own_is_said_with_its_line(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "home" / "profiles").mkdir(parents=True)
    (here / "home" / "profiles" / "x.yaml").write_text("family: x\nstopp: {}\nsource: {card: mine}\n")
    code, _, err = run(capsys, "ls")
    assert (code, "x.yaml:2" in err) == (78, True)
    (here / "home" / "profiles" / "x.yaml").write_bytes(b"caf\xe9")
    code, _, err = run(capsys, "ls")
    assert (code, "not UTF-8" in err) == (78, True)
