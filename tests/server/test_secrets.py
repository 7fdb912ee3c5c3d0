"""What a running appliance and its commands say, whatever happens: no secret is in it."""

import signal
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import httpx
import pytest

from appliance.cli import run
from appliance.control.state_dir import state_of
from tests.server.up import PATIENCE, Up, chat

KEY = "planted-in-a-file"
SAVED = {
    "another secret": ("planted-in-place", "planted-next"),
    "a secret from elsewhere": ("planted-in-place", '"${env:PLANTED}"'),
    "no YAML": ("planted-in-place", "planted-broken, alow: ["),
    "a misspelt secret": ("secret: planted-in-place", "secrte: planted-misspelt"),
    "a fault elsewhere": ("aliases: {a: m}", "aliases: {a: nothing}"),
    "a fault beside it": ("secret: planted-in-place", "secret: planted-in-place, allow: m"),
    "another alias": ("aliases: {a: m}", "aliases: {b: m}"),
}
TEXT = """\
version: 1
server: {listen: 127.0.0.1:0, reload: {watch: false}}
security:
  keys:
    env: {secret: "${env:PLANTED}"}
    file: {secret: "${file:secret.txt}"}
    place: {secret: planted-in-place}
    lines:
      secret: |
        planted-in-lines
        and-planted-below
models:
  m: {source: 'fake:m.yaml'}
  dying: {source: 'fake:dying.yaml'}
aliases: {a: m}
"""
AFTER_A_SAVE = ("plan", "plan --json", "plan --out plan.json", "reload --wait", "reload --json", "status", "validate")
AT_THE_END = (
    "history", "history --json", "diff 1 2", "diff 1 2 --source", "diff 2 3 --source --json", "status --json", "ps",
    "ps --json", "config", "config --json", "config --origins", "config --explain security", "keys ls",
    "route a", "rollback 1", "rollback 99",
)  # fmt: skip


def commands(file: Path, capsys: pytest.CaptureFixture[str], *lines: str) -> Iterator[str]:
    for line in lines:
        name, *arguments = line.split()
        capsys.readouterr()
        run([name, "-f", str(file), *arguments])
        yield from capsys.readouterr()


def requests(running: Up) -> Iterator[str]:
    """With keys that are good and bad, bodies that are good and bad, and one that is deadly."""
    for secret in (KEY, "planted-in-place", "planted-but-unknown"):
        key = {"authorization": f"Bearer {secret}"}
        for answer in (
            running.post(chat("m"), headers=key),
            running.post(chat("dying"), headers=key),
            running.post(chat("nobody"), headers=key),
            running.post(b"{", headers=key),
            running.post(chat("m", temperature="hot"), headers={"x-api-key": secret}),
            *(
                httpx.get(f"{running.url}{path}", headers=key, timeout=PATIENCE)
                for path in ("/v1/models", "/metrics")
            ),
        ):
            yield f"{answer.headers}\n{answer.text}"


def admin_answers(admin: httpx.Client) -> Iterator[str]:
    for path, methods in admin.get("/admin/v1/openapi.json").json()["paths"].items():
        if "get" in methods and not path.endswith("/events"):
            yield admin.get(path.replace("{number}", "2")).text
    for draft in (TEXT, TEXT.replace("aliases:", "alises:")):
        draft = draft.replace("planted-in-place", "planted-in-a-draft")
        yield admin.post("/admin/v1/config", params={"dry_run": "1"}, content=draft).text


def follow(stream: httpx.Response, lines: list[str]) -> None:
    with suppress(httpx.HTTPError):
        lines.extend(stream.iter_lines())


def test_nothing_that_is_said_holds_a_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Logs, plans, dumps, errors, answers of the admin socket, events, and what is left of a violent end."""
    monkeypatch.setenv("APPLIANCE_HOME", str(tmp_path / ".appliance"))
    monkeypatch.setenv("PLANTED", "planted-in-env")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "secret.txt").write_text(f"{KEY}\n")
    (tmp_path / "m.yaml").write_text("text: hello\n")
    (tmp_path / "dying.yaml").write_text("text: one two three\ncrash_after: 1\ncrash_how: exception\n")
    file, said, events = tmp_path / "deploy.yaml", list[str](), list[str]()
    file.write_text(TEXT)
    with Up.start(file) as running:
        running.wait_for("ready")
        transport = httpx.HTTPTransport(uds=str(state_of(file).socket))
        with (
            httpx.Client(transport=transport, base_url="http://a", timeout=PATIENCE) as admin,
            admin.stream("GET", "/admin/v1/events") as stream,
        ):
            following = threading.Thread(target=follow, args=(stream, events))
            following.start()
            for old, new in SAVED.values():
                assert old in TEXT
                file.write_text(TEXT.replace(old, new))
                said += commands(file, capsys, *AFTER_A_SAVE)
                said.append(Path("plan.json").read_text())
            said += commands(file, capsys, *AT_THE_END)
            said += [*admin_answers(admin), *requests(running)]
            running.process.send_signal(signal.SIGABRT)
            following.join(PATIENCE)
        running.exit_code()
        said += [*events, *running.lines, *running.errors]
    assert not [each for each in said if "planted" in each]
    text = "\n".join(said)
    for proof in ("config.rejected", "config.applied", "another ***", "did you mean secret", "engine.gone", "@@ "):
        assert proof in text, f"nothing of {proof} happened"
