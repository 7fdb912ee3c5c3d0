"""What a file or a command line is, and what is said where it is nothing we know."""

import json
import re
from pathlib import Path

import pytest

from appliance.convert import kinds
from appliance.convert.draft import CannotConvert
from tests.convert.world import KNOWN, converted, deployment

SECRETS = "sk-hunter2"


@pytest.mark.parametrize(
    ("text", "made_from"),
    [
        pytest.param("models: {a: {cmd: mlx_lm.server --model a/b}}", "llama-swap", id="llama-swap"),
        pytest.param("models: [{model_path: a/b}]", "mlx-openai-server", id="mlx-openai-server"),
        pytest.param("models: [{name: a, source: a/b}]", "vllm-mlx", id="vllm-mlx"),
        pytest.param("# mine\nfrom llama3.2:1b\n", "Modelfile", id="a Modelfile in small letters"),
        pytest.param("$ rapid-mlx serve a/b", "rapid-mlx", id="rapid-mlx"),
        pytest.param("$ env A=1 /opt/bin/vllm-mlx serve a/b", "vllm-mlx", id="vllm-mlx by its path"),
        pytest.param("$ python3 -m mlx_lm server --model a/b", "mlx_lm.server", id="a module with a word"),
        pytest.param("$ max serve --model-path a/b", "max", id="max"),
    ],
)
def test_a_configuration_is_recognised_by_its_content(text: str, made_from: str) -> None:
    assert made_from in converted(text).made_from


@pytest.mark.parametrize(
    ("text", "words"),
    [
        pytest.param("hello: world", "--kind", id="YAML of something else"),
        pytest.param("version: 1\nmodels: {a: {source: a}}", "deploy file already", id="a deploy file"),
        pytest.param("models:\n  a: [\n", "E101", id="broken YAML"),
        pytest.param("FROM nothing-we-know", "nothing-we-know", id="a model we cannot name"),
        pytest.param("FROM ./x/blobs/sha256-1234", "blob", id="a blob"),
        pytest.param("FROM hf.co/owner/name:Q4", "GGUF", id="a GGUF repository"),
        pytest.param("models: {a: {cmd: docker run x}}", "docker", id="only commands we do not know"),
        pytest.param("$ rapid-mlx serve", "names no model", id="no model"),
        pytest.param("$ rapid-mlx serve some-alias", "put hf:owner/name", id="a short name of that tool"),
        pytest.param("$ vllm-mlx serve a/b --mllm", "kind: vision", id="only a model of another kind"),
        pytest.param("$ llama-server -hf a/b-GGUF", "GGUF", id="a repository of GGUF files"),
        pytest.param("$ ollama serve", "mlx_lm.server", id="another command"),
    ],
)
def test_what_cannot_be_converted_says_why_and_what_to_do(text: str, words: str) -> None:
    with pytest.raises(CannotConvert, match=re.escape(words)) as error:
        converted(text)
    assert error.value.exit_code == 78


def test_a_kind_can_be_given() -> None:
    assert "rapid-mlx" in kinds.from_command(["./serve.sh", "a/b", "--port", "1"], "rapid-mlx", KNOWN).made_from
    with pytest.raises(CannotConvert, match="no format of a file"):
        kinds.from_file("FROM a/b", "given", "max", KNOWN)
    with pytest.raises(CannotConvert, match="no command line"):
        kinds.from_command(["x", "y"], "ollama", KNOWN)


@pytest.mark.parametrize(
    "text",
    [
        f"$ rapid-mlx serve a/b --api-key {SECRETS}",
        f"$ vllm-mlx serve a/b --api-key={SECRETS}",
        f"models: {{a: {{cmd: mlx_lm.server --model a/b}}}}\napiKeys: [{SECRETS}]",
        f"models: {{a: {{cmd: 'llama-server -m /x.gguf --api-key {SECRETS}'}}}}",
        "models: {a: {cmd: mlx_lm.server --model a/b}}\n"
        f"peers: {{p: {{proxy: 'http://p', apiKey: {SECRETS}, filters: {{setParams: {{a: {SECRETS}}}}}}}}}",
        f"$ rapid-mlx serve a/b --an-unknown-token {SECRETS}",
    ],
    ids=["flag", "flag with =", "llama-swap", "in a command", "peer", "unknown flag"],
)
def test_a_secret_is_in_no_output(text: str) -> None:
    found = converted(text)
    assert SECRETS not in found.text + "".join(map(str, found.lost))


def test_texts_of_another_tool_stay_what_they_are(tmp_path: Path) -> None:
    texts = ["yes", "1.5", "a: b", "# no", "${env:HOME}", "$5", '"', "\\", "é\n", "null", "-", "{x}", "a,b"]
    given = json.dumps({f"k{i}": text for i, text in enumerate(texts)})
    found = kinds.from_command(["mlx_lm.server", "--model", "a/b", "--chat-template-args", given], None, KNOWN)
    assert dict(deployment(found.text, tmp_path).models["b"].own.template) == json.loads(given)
