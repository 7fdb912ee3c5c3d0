"""The pages are right where a program can tell: links resolve, commands and options exist, YAML is accepted."""

import re
import shlex
from pathlib import Path

import pytest

from appliance.cli import run
from appliance.config import load
from appliance.config.problem import Rejected
from appliance.server.app import DELETES, READS, WRITES

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted(ROOT.glob("docs/*.md"))]
TEXTS = {str(page.relative_to(ROOT)): page.read_text() for page in PAGES}

ELSEWHERE = {"E109", "E201", "E209", "E221"}
"""Problems of a part alone: files, variables, models and keys that it names and that are not here."""


def blocks(language: str) -> list[object]:
    fenced = re.compile(rf"^```{language}\n(.*?)^```", re.MULTILINE | re.DOTALL)
    return [
        pytest.param(block, id=f"{name} {number}")
        for name, text in TEXTS.items()
        for number, block in enumerate(fenced.findall(text))
    ]


@pytest.mark.parametrize("name", TEXTS)
def test_every_link_leads_somewhere(name: str) -> None:
    for link in re.findall(r"\]\(([^)]+)\)", TEXTS[name]):
        if "://" in link:
            continue
        path, _, heading = link.partition("#")
        page = (ROOT / name).parent / path if path else ROOT / name
        assert page.exists(), link
        assert not heading or heading in headings(page), link


def test_the_page_of_the_api_lists_every_path() -> None:
    listed: set[str] = set()
    for row in re.findall(r"^\| (`.*?) \|", TEXTS["docs/api.md"], re.MULTILINE):
        paths = re.findall(r"[/…][^`, ]*", row)
        listed |= {path.replace("…", paths[0]) for path in paths}
    served = {re.sub(r"<(\w+):\w+>", r"{\1}", path) for path in {**READS, **WRITES, **DELETES}} - {"/", "/health"}
    assert len(served) > 30
    assert {path for path in served if path.partition("/{id}")[0] not in listed} == set()


def headings(page: Path) -> set[str]:
    titles = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", PAGES[1:], ids=lambda page: page.stem)
def test_the_first_page_leads_to_every_other(page: Path) -> None:
    assert f"(docs/{page.name})" in TEXTS["README.md"]


@pytest.mark.parametrize("block", blocks("sh"))
def test_every_command_has_the_options_it_is_shown_with(block: str, capsys: pytest.CaptureFixture[str]) -> None:
    for line in re.findall(r"(?:^|&& |/)appliance (.*)$", block, re.MULTILINE):
        words = shlex.split(line.partition(" && ")[0], comments=True)
        command = words[: 2 if words[0] in ("models", "profiles") else 1]
        assert run([*command, "--help"]) == 0
        help = capsys.readouterr().out
        assert {word for word in words if word.startswith("-")} <= set(re.findall(r"-[\w-]+", help)), line


@pytest.mark.parametrize("block", blocks("yaml"))
def test_every_piece_of_a_deploy_file_is_accepted(block: str, tmp_path: Path) -> None:
    file = tmp_path / "deploy.yaml"
    file.write_text(
        ("" if "version:" in block else "version: 1\n")
        + ("" if "\nmodels:" in f"\n{block}" else "models: {demo: {source: smollm2-135m}}\n")
        + block
    )
    try:
        load.read(file, environ={"HOME": str(tmp_path)}, inspect=lambda *_: None, memory_bytes=128 * 2**30)
    except Rejected as rejected:
        assert {problem.code for problem in rejected.problems} <= ELSEWHERE, str(rejected)
