"""The grammar of `source:`."""

import pytest

from appliance.config.deployment import Source
from appliance.config.sources import Package, SourceSyntax, package, parse

SHA = "0123456789abcdef" * 4
CATALOGUE = {"tiny": "hf:owner/tiny-4bit", "demo": f"pypi:dist==1.0:dir/model.gguf#sha256={SHA}", "local": "./here"}


@pytest.mark.parametrize(
    ("text", "source"),
    [
        pytest.param("/m/model", Source("path", "/m/model", "/m/model"), id="absolute directory"),
        pytest.param("./model", Source("path", "/base/model", "./model"), id="directory beside the file"),
        pytest.param("../model/", Source("path", "/model", "../model/"), id="directory above the file"),
        pytest.param("~/m", Source("path", "/home/me/m", "~/m"), id="directory in the home"),
        pytest.param("./a b.gguf", Source("gguf", "/base/a b.gguf", "./a b.gguf"), id="GGUF file"),
        pytest.param("hf:a/b-4.5_x", Source("hf", "a/b-4.5_x", "hf:a/b-4.5_x"), id="repository"),
        pytest.param("hf:a/b@v1.0", Source("hf", "a/b", "hf:a/b@v1.0", "v1.0"), id="repository at a revision"),
        pytest.param("fake:s.yaml", Source("fake", "/base/s.yaml", "fake:s.yaml"), id="script"),
        pytest.param("fake:/x/s.yaml", Source("fake", "/x/s.yaml", "fake:/x/s.yaml"), id="script by absolute path"),
        pytest.param("tiny", Source("hf", "owner/tiny-4bit", "tiny"), id="short name of a repository"),
        pytest.param("demo", Source("pypi", f"dist==1.0:dir/model.gguf#sha256={SHA}", "demo"), id="short name"),
        pytest.param("local", Source("path", "/base/here", "local"), id="short name of a path"),
    ],
)
def test_a_source_text_means_one_place(text: str, source: Source) -> None:
    assert parse(text, "/base", CATALOGUE, home="/home/me") == source


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        pytest.param("owner/name", "repository or a directory", "hf:owner/name", id="bare repository"),
        pytest.param("owner/name@main", "repository or a directory", "hf:owner/name@main", id="bare with revision"),
        pytest.param("tinny", "no short name `tinny`", "did you mean tiny?", id="misspelt short name"),
        pytest.param("zzzzzz", "no short name `zzzzzz`", "lists the short names", id="unknown short name"),
        pytest.param("x.gguf", "looks like a file", "./x.gguf", id="bare GGUF file"),
        pytest.param("", "empty", "short name", id="empty"),
        pytest.param("a b", "is no model source", "short name", id="words"),
        pytest.param("hf:name", "does not name a repository", "hf:owner/name", id="repository without owner"),
        pytest.param("hf:a/b/c", "does not name a repository", "hf:owner/name", id="path in a repository"),
        pytest.param("hf:a/b@", "is no revision", "a commit", id="empty revision"),
        pytest.param("hf:a/b@../x", "is no revision", "a commit", id="climbing revision"),
        pytest.param("https://x/y", "`https:` is no kind", "hf:", id="unknown kind"),
        pytest.param("fake:", "names no script", "fake:script.yaml", id="script without name"),
        pytest.param("~bob/m", "another user's home", "in full", id="another home"),
        pytest.param("pypi:dist==1.0:m.gguf", "no digest", "#sha256=", id="package without digest"),
        pytest.param("pypi:dist", "does not name a file", "==version", id="package without version"),
        pytest.param(f"pypi:d==1:../m.gguf#sha256={SHA}", "does not name a file", "member", id="climbing member"),
    ],
)
def test_a_wrong_source_text_says_what_to_write(text: str, message: str, hint: str) -> None:
    with pytest.raises(SourceSyntax) as caught:
        parse(text, "/base", CATALOGUE, home="/home/me")
    assert message in caught.value.message
    assert hint in caught.value.hint


def test_a_home_path_without_a_home_is_refused() -> None:
    with pytest.raises(SourceSyntax, match="no home directory"):
        parse("~/m", "/base", {})


def test_a_package_reference_has_four_parts() -> None:
    assert package(f"my-dist==1.2.3:a/b.gguf#sha256={SHA}") == Package("my-dist", "1.2.3", "a/b.gguf", SHA)
