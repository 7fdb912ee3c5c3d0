"""`appliance keys` and `appliance route`, by their command lines."""

import io
import json
import os
import stat
import subprocess
import sys
from contextlib import chdir, redirect_stderr, redirect_stdout
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from appliance import cli
from tests.server.up import Up, chat

FILE = """
version: 1
security:
  keys:
    ci:
      secret: ${file:home/keys/ci}
      allow: [auto, small]
      limits: {requests: 60/m, tokens: 200k/m, concurrent: 4, daily_tokens: 5000k}
      expires: 2027-06-30
      policy: {clamp: {max_tokens: [1, 100]}}
models:
  small: {source: 'fake:s.yaml'}
  big: {source: 'fake:s.yaml'}
profiles: {terse: {sampling: {temperature: 0.3}}}
routing:
  virtual: [auto, busy]
  rules:
    - {name: crowd, when: {model: busy, queue: {small: ">4"}, state: {big: [loading]}}, use: big}
    - {name: full, when: {model: busy, load: {small: ">=80%"}}, use: big}
    - {name: calm, when: {model: busy}, use: small}
    - {name: nightly, when: {model: auto, key: ci, time: "22:00-07:00"}, use: [{to: big, profile: terse}]}
    - {name: beta, when: {model: auto, header: {x-track: beta}}, use: big}
    - {name: rest, when: {model: auto}, use: [small, big], prefer: warm}
  fallback: {big: {to: [small]}}
"""


def run(here: Path, *arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    """A command line, within this process: one of its own takes a second to begin."""
    out, errors = io.StringIO(), io.StringIO()
    with chdir(here), redirect_stdout(out), redirect_stderr(errors), pytest.MonkeyPatch.context() as patch:
        patch.setenv("APPLIANCE_HOME", str(here / "home"))
        patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin.encode())))
        code = cli.run(list(arguments))
    return subprocess.CompletedProcess(arguments, code, out.getvalue(), errors.getvalue())


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a key made by the command, and a deploy file that uses it."""
    path = tmp_path_factory.mktemp("cli")
    made = run(path, "keys", "new", "ci")
    assert made.returncode == 0
    assert made.stdout.strip() == (path / "home/keys/ci").read_text().strip()
    assert 'ci: {secret: "${file:' in made.stderr
    (path / "s.yaml").write_text("text: hi\n")
    (path / "deploy.yaml").write_text(FILE)
    return path


def test_a_new_key_is_long_and_for_its_owner_only(here: Path) -> None:
    file = here / "home/keys/ci"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert len(file.read_text().strip()) >= 32


def test_the_line_it_says_to_add_works(here: Path) -> None:
    made = run(here, "keys", "new", "extra", "--json")
    told = json.loads(made.stdout)["data"]
    (here / "other.yaml").write_text(
        f"version: 1\nmodels: {{m: {{source: 'fake:s.yaml'}}}}\nsecurity:\n  keys:\n    {told['yaml']}\n"
    )
    listed = run(here, "keys", "ls", "-f", "other.yaml")
    assert (listed.returncode, listed.stdout.split()[5:]) == (0, ["extra", "*", "none", "normal", "never"])


def test_a_key_is_not_overwritten(here: Path) -> None:
    before = (here / "home/keys/ci").read_text()
    again = run(here, "keys", "new", "ci")
    assert (again.returncode, again.stdout) == (73, "")
    assert (here / "home/keys/ci").read_text() == before


@pytest.mark.parametrize("name", ["", "..", "../x", "a/b", "a b", "a:b"])
def test_a_name_leads_nowhere_else(here: Path, name: str) -> None:
    assert run(here, "keys", "new", name).returncode == 2


def test_keys_are_listed_without_their_secrets(here: Path) -> None:
    table, data = run(here, "keys", "ls"), run(here, "keys", "ls", "--json")
    assert table.stdout.splitlines()[1].split()[:2] == ["ci", "auto"]
    assert json.loads(data.stdout)["data"] == [
        {
            "name": "ci",
            "allow": ["auto", "small"],
            "limits": {"requests": "60/m", "tokens": "200k/m", "concurrent": "4", "daily_tokens": "5000k"},
            "priority": "normal",
            "expires": "2027-06-30",
        }
    ]
    secret = (here / "home/keys/ci").read_text().strip()
    assert secret not in table.stdout + table.stderr + data.stdout + data.stderr


def revocable(here: Path) -> Path:
    """A deploy file that names a key of another file, which a symbolic link leads to."""
    (here / "conf").mkdir()
    (here / "conf/real.yaml").write_text("security:\n  keys:\n    ci:\n      secret: sk-ci-0123456789abcdef\n")
    (here / "keys.yaml").symlink_to("conf/real.yaml")
    (here / "s.yaml").write_text("text: hi\n")
    file = here / "deploy.yaml"
    file.write_text(
        "version: 1\ninclude: [keys.yaml]\nmodels: {small: {source: 'fake:s.yaml'}}\n"
        "server: {listen: 127.0.0.1:0, reload: {watch: false}, time_zone: UTC}\n"
        "security: {loopback_without_key: false}\n"
        "routing: {virtual: [auto], rules: [{name: of-ci, when: {model: auto, key: ci}, use: small},"
        " {name: rest, when: {model: auto}, use: small}]}\n"
    )
    return file


def test_a_revoked_key_is_refused_by_what_runs_and_by_what_starts_later(tmp_path: Path) -> None:
    file = revocable(tmp_path)
    headers = {"authorization": "Bearer sk-ci-0123456789abcdef"}
    with Up.start(file, env={**os.environ, "APPLIANCE_HOME": str(tmp_path / "home")}) as up:
        up.wait_for("ready")
        assert up.post(chat("auto"), headers=headers).status_code == 200
        done = run(tmp_path, "keys", "revoke", "ci")
        assert (done.returncode, done.stdout) == (0, "ci is refused from now on\n")
        refused = up.post(chat("auto"), headers=headers)
        assert (refused.status_code, "expired" in refused.text) == (401, True)
    assert (tmp_path / "keys.yaml").is_symlink()
    today = datetime.now(UTC).date().isoformat()
    assert f"    ci:\n      expires: {today}\n" in (tmp_path / "conf/real.yaml").read_text()
    again = run(tmp_path, "keys", "revoke", "ci", "--json")
    assert json.loads(again.stdout)["data"] == {"name": "ci", "expires": today, "applied": False}
    assert sorted(path.name for path in (tmp_path / "conf").iterdir()) == ["real.yaml"]


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        pytest.param(("revoke", "cx"), 1, "there is no key cx in deploy.yaml; did you mean ci?", id="another name"),
        pytest.param(("revoke",), 2, "write `keys revoke NAME`", id="no name"),
        pytest.param(("revoke", "ci", "-f", "none.yaml"), 78, "cannot be read", id="no file"),
    ],
)
def test_what_cannot_be_revoked_is_said(tmp_path: Path, arguments: tuple[str, ...], code: int, words: str) -> None:
    file = revocable(tmp_path)
    before = file.read_text(), (tmp_path / "keys.yaml").read_text()
    done = run(tmp_path, "keys", *arguments)
    assert (done.returncode, words in done.stderr) == (code, True), done.stderr
    assert (file.read_text(), (tmp_path / "keys.yaml").read_text()) == before


ROUTES: dict[str, tuple[tuple[str, ...], str, str]] = {
    "by day": (("--at", "09:00"), "small", "rest"),
    "by night": (("--key", "ci", "--at", "23:00"), "big", "nightly"),
    "at midnight": (("--key", "ci", "--at", "00:00"), "big", "nightly"),
    "by night without the key": (("--at", "23:00"), "small", "rest"),
    "with a header": (("--at", "09:00", "--header", "X-Track: beta"), "big", "beta"),
    "with another model in memory": (("--at", "09:00", "--warm", "big"), "big", "rest"),
}


def body(**fields: Any) -> str:
    return json.dumps({"model": "auto", "messages": [{"role": "user", "content": "hi"}], **fields})


@pytest.mark.parametrize(("arguments", "model", "rule"), ROUTES.values(), ids=ROUTES)
def test_a_decision_is_explained_before_anything_runs(
    here: Path, arguments: tuple[str, ...], model: str, rule: str
) -> None:
    done = run(here, "route", "--request", "-", "--json", *arguments, stdin=body())
    data = json.loads(done.stdout)["data"]
    assert (data["model"], data["rule"]) == (model, rule)
    assert data["fallbacks"] == (["small"] if model == "big" else [])


def test_it_says_the_final_parameters_and_why(here: Path) -> None:
    (here / "request.json").write_text(body(max_tokens=900))
    done = run(here, "route", "--request", "request.json", "--key", "ci", "--at", "23:00")
    lines = [line.strip() for line in done.stdout.splitlines()]
    assert lines[0] == "auto > big"
    assert "rule nightly holds: big, its only target" in lines
    assert {"max_tokens = 100", "temperature = 0.3", "changed by policy: max_tokens=clamped(900>100)"} <= set(lines)


BUSY: dict[str, tuple[tuple[str, ...], str, str]] = {
    "nothing said": ((), "calm", "small cold, 0 waiting, 0% of its rows busy"),
    "a queue, and a load": (
        ("--queue", "small=5", "--state", "big=loading"),
        "crowd",
        "small cold, 5 waiting, 0% of",
    ),
    "a short queue": (("--queue", "small=4", "--state", "big=loading"), "calm", "big loading, 0 waiting, 0% of its"),
    "busy rows": (("--load", "small=80%", "--warm", "small"), "full", "small ready, 0 waiting, 80% of its rows busy"),
}


@pytest.mark.parametrize(("arguments", "rule", "words"), BUSY.values(), ids=BUSY)
def test_it_says_how_models_are_taken_to_be(here: Path, arguments: tuple[str, ...], rule: str, words: str) -> None:
    done = run(here, "route", "--request", "-", *arguments, stdin=body(model="busy"))
    assert f"rule {rule} holds" in done.stdout
    assert f"  taken to be: {words}" in done.stdout


REFUSED: dict[str, tuple[tuple[str, ...], str, str]] = {
    "a key nobody has": (("--key", "cx"), body(), "there is no key cx"),
    "a model the key may not use": (("--key", "ci"), body(model="big"), "may not use the model `big`"),
    "a model nobody has": ((), body(model="bgi"), "there is no model `bgi`"),
    "no request": ((), "{", "JSON"),
    "no such endpoint": (("--endpoint", "/v2"), body(), "/v1/messages"),
    "no such state": (("--state", "big=hot"), body(), "a model is one of cold, loading, ready, draining"),
    "no model in a state": (("--state", "bgi=cold"), body(), "there is no model `bgi`"),
    "no number": (("--queue", "big=many"), body(), "write it like 5"),
    "nothing said of a model": (("--load", "big"), body(), "write it like --load big="),
    "no such time": (("--at", "25:00"), body(), "write it like 23:30"),
}


@pytest.mark.parametrize(("arguments", "request_body", "words"), REFUSED.values(), ids=REFUSED)
def test_what_would_be_refused_is_refused(
    here: Path, arguments: tuple[str, ...], request_body: str, words: str
) -> None:
    done = run(here, "route", "--request", "-", *arguments, stdin=request_body)
    assert (done.returncode, done.stdout) == (1, "")
    assert words in done.stderr
