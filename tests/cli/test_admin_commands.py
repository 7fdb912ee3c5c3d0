"""The commands that speak to a running appliance, as a shell sees them."""

import errno
import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from appliance.cli import run
from appliance.control.state_dir import state_of
from tests.server.up import Up, chat, deployment

ALIAS = "aliases: {fast: demo}\n"
BROKEN = "aliases: {fast: nothing}\n"


class Shell:
    """Runs commands on one deploy file, within this process: a command line is what `run` is given."""

    def __init__(self, file: Path, capture: pytest.CaptureFixture[str]) -> None:
        self.file = file
        self._capture = capture

    def __call__(self, command: str, *arguments: str, code: int = 0) -> str:
        """Its stdout; what it said on stderr is in `errors`."""
        self._capture.readouterr()
        exited = run([command, "-f", str(self.file), *arguments])
        said, self.errors = self._capture.readouterr()
        assert exited == code, (said, self.errors)
        assert "\x1b" not in said + self.errors, "colour is for terminals"
        return said


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Shell:
    monkeypatch.setenv("APPLIANCE_HOME", str(tmp_path / ".appliance"))
    return Shell(deployment(tmp_path, "reload: {watch: false}"), capsys)


@pytest.fixture
def running(shell: Shell) -> Iterator[Up]:
    with Up.start(shell.file) as running:
        running.wait_for("ready")
        yield running


COMMANDS = {
    "ps": (), "status": (), "reload": (), "rollback": ("1",), "load": ("demo",), "unload": ("demo",),
    "pin": ("demo",),
    "events": (), "down": (),
}  # fmt: skip


@pytest.mark.parametrize(("command", "arguments"), COMMANDS.items(), ids=COMMANDS.keys())
def test_without_an_appliance_a_command_exits_3_and_says_what_to_do(
    shell: Shell, command: str, arguments: tuple[str, ...]
) -> None:
    assert shell(command, *arguments, code=3) == ""
    assert f"`appliance up -f {shell.file}`" in shell.errors
    said = json.loads(shell(command, *arguments, "--json", code=3))
    assert (said["ok"], said["diagnostics"][0]["code"]) == (False, "not_reachable")


def test_without_a_file_it_is_that_which_is_missing(shell: Shell) -> None:
    shell.file.unlink()
    shell("ps", code=3)
    assert f"there is no {shell.file}; write one with `appliance init`" in shell.errors


def test_what_another_user_serves_is_said_to_be_theirs(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    # Root is refused nothing, so that a socket's mode alone would not show this everywhere.
    monkeypatch.setattr("socket.socket.connect", refuse)
    shell("ps", code=77)
    assert f"what serves {shell.file} answers only the user who started it" in shell.errors
    assert json.loads(shell("history", "--json", code=77))["diagnostics"][0]["code"] == "not_permitted"


def test_a_file_that_was_never_served_has_no_history(shell: Shell) -> None:
    assert shell("history") == ""
    assert "never served" in shell.errors


def test_an_alias_is_not_loaded_but_its_model_named(shell: Shell) -> None:
    shell.file.write_text(shell.file.read_text() + ALIAS)
    with Up.start(shell.file) as running:
        running.wait_for("ready")
        shell("load", "fast", code=1)
        assert "this is an alias of demo" in shell.errors
        shell("load", "dmeo", code=1)
        assert "did you mean demo?" in shell.errors


def test_ps_shows_every_model(shell: Shell, running: Up) -> None:
    running.post(chat("demo"))
    head, _, titles, first, *_ = shell("ps").splitlines()
    assert head == f"{shell.file}: generation 1, 0 running, ready"
    assert titles.split()[:3] == ["MODEL", "STATE", "PID"]
    assert first.split()[:2] == ["demo", "ready"]
    said = json.loads(shell("ps", "--json"))
    assert (said["schema"], said["kind"], said["ok"], said["diagnostics"]) == (1, "ps", True, [])
    assert said["data"]["models"][0]["name"] == "demo"


def test_scripts_find_the_admin_socket_in_the_status(shell: Shell, running: Up) -> None:
    socket = json.loads(shell("status", "--json"))["data"]["socket"]
    with httpx.Client(transport=httpx.HTTPTransport(uds=socket)) as client:
        assert client.get("http://localhost/admin/v1/decisions").json() == {"decisions": []}


def test_ps_shows_the_spare_engine_and_what_it_saved(shell: Shell) -> None:
    shell.file.write_text(shell.file.read_text() + "engine: {spare: true}\n")
    with Up.start(shell.file) as running:
        running.wait_for("ready")
        while json.loads(shell("ps", "--json"))["data"]["spare"]["seconds"] is None:
            pass
        assert re.search(r"\nspare engine: pid \d+, .*saves the next load \d+\.\d s\n", shell("ps"))
        running.post(chat("demo"))
        assert re.search(r"; \d+\.\d s saved in 1 so far\n", shell("ps"))


def test_a_refused_file_is_shown_and_exits_78(shell: Shell, running: Up) -> None:
    shell.file.write_text(shell.file.read_text() + BROKEN)
    assert shell("reload", "--wait", code=78) == ""
    assert "aliases.fast" in shell.errors
    assert shell.errors.splitlines()[-1].endswith("correct the file and save it")
    assert "the file was refused, generation 1 goes on running" in shell("ps")
    assert "aliases.fast" in shell("ps")
    assert "aliases.fast" in shell("status", "--wait", code=78)
    said = json.loads(shell("reload", "--json", code=78))
    assert (said["ok"], said["diagnostics"][0]["path"]) == (False, "aliases.fast")
    assert running.get("/readyz").status_code == 200


def test_a_good_file_is_applied(shell: Shell, running: Up) -> None:
    shell.file.write_text(shell.file.read_text() + ALIAS)
    running.until("appliance_config_file_matches_running", 0)
    assert "the file is not what is running" in shell("ps")
    assert shell("reload", "--wait") == "applied: generation 2\n"
    assert shell("reload") == "unchanged: generation 2\n"
    assert running.post(chat("fast")).status_code == 200


def test_what_does_not_converge_in_time_exits_4(shell: Shell, running: Up) -> None:
    (shell.file.parent / "late.yaml").write_text("load_ms: 60000\n")
    text = shell.file.read_text()
    shell.file.write_text(text + "  late: {source: 'fake:./late.yaml', load: startup}\n")
    assert shell("reload", "--wait", "--timeout", "500ms", code=4) == "applied: generation 2\n"
    assert "late is not ready" in shell.errors
    assert "`appliance ps`" in shell.errors.splitlines()[-1]
    assert "late is not ready" in shell("status", "--wait", "--timeout", "0", code=4)
    (shell.file.parent / "hopeless.yaml").write_text("fail_load: cut off\npermanent: true\n")
    shell.file.write_text(text + "  hopeless: {source: 'fake:./hopeless.yaml', load: startup}\n")
    assert shell("reload", "--wait", code=4) == "applied: generation 3\n"
    assert "hopeless failed: " in shell.errors, "there is no use in waiting for it"


def test_a_plan_that_is_not_that_of_this_file_any_more_exits_9(shell: Shell, running: Up, tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    plan.write_text('{"data": {"id": "0123456789abcdef"}}')
    shell("reload", "--plan", str(plan), code=9)
    plan.write_text("[]")
    shell("reload", "--plan", str(plan), code=2)
    assert "`appliance plan --out" in shell.errors


def test_history_diff_and_rollback(shell: Shell, running: Up) -> None:
    text = shell.file.read_text()
    shell.file.write_text(text + ALIAS)
    shell("reload")
    first, second = shell("history").splitlines()[1:]
    assert first.split()[:2] == ["*", "2"]
    assert "aliases.fast" in first
    assert second.split()[0] == "1"
    assert "+ aliases.fast" in shell("diff", "1", "2")
    assert shell("diff", "2", "2") == ""
    assert "+aliases: {fast: demo}" in shell("diff", "1", "--source").splitlines()
    shell("diff", "1", "7", code=1)
    assert "`appliance history`" in shell.errors
    assert shell("rollback", "1") == "applied: generation 3\n"
    assert "the file is not what is running" in shell("ps")
    assert running.post(chat("fast")).status_code == 404
    assert [kept["number"] for kept in json.loads(shell("history", "--json"))["data"]["generations"]] == [3, 2, 1]
    shell("rollback", "9", code=1)


def test_history_is_there_without_an_appliance_and_goes_on_with_the_next(shell: Shell) -> None:
    for generation, more in enumerate(["", ALIAS, ALIAS, ""], start=1):
        shell.file.write_text(shell.file.read_text().removesuffix(ALIAS) + more)
        with Up.start(shell.file) as running:
            assert running.metric("appliance_config_generation") == {1: 1, 2: 2, 3: 2, 4: 3}[generation]
            running.process.kill()
    assert [line.split()[0] for line in shell("history").splitlines()[1:]] == ["3", "2", "1"]


def test_a_pin_is_told_as_a_difference_from_the_file_until_it_is_taken_back(shell: Shell, running: Up) -> None:
    assert "pinned" not in shell("ps")
    shell("pin", "demo", "--for", "2h")
    assert "pinned by hand for 2h" in shell("ps")
    shell("pin", "demo", "--for", "soon", code=2)
    assert "soon is not a duration" in shell.errors
    shell("pin", "demo", "--off")
    assert "pinned" not in shell("ps")


def test_a_model_is_loaded_and_unloaded(shell: Shell, running: Up) -> None:
    assert shell("load", "demo") == "demo: ready\n"
    assert shell("unload", "demo") == "demo: draining\n"
    shell("load", "nothing", code=1)
    assert "`appliance ps`" in shell.errors
    shell("load", "demo")
    with httpx.stream("POST", f"{running.url}/v1/chat/completions", json=chat("endless", stream=True), timeout=30):
        shell("unload", "endless", code=1)
        assert "--now" in shell.errors
        assert shell("unload", "endless", "--now").startswith("endless: ")
    shell("load", "broken", code=1)
    assert "cut off" in shell.errors


def test_what_is_done_by_hand_is_told_over_a_reload_and_forgotten_by_a_restart(shell: Shell) -> None:
    with Up.start(shell.file) as running:
        running.wait_for("ready")
        shell("load", "demo")
        assert "loaded by hand" in shell("ps")
        shell.file.write_text(shell.file.read_text() + ALIAS)
        shell("reload")
        assert "differs from the file: loaded by hand" in shell("status")
    with Up.start(shell.file) as running:
        running.wait_for("ready")
        assert "by hand" not in shell("ps")
        assert "demo: cold" in shell("status")


def test_a_model_the_file_wants_loaded_stays_unloaded_over_a_reload(shell: Shell) -> None:
    text = shell.file.read_text().replace("{source: 'fake:./demo", "{load: startup, source: 'fake:./demo")
    shell.file.write_text(text)
    with Up.start(shell.file) as running:
        running.wait_for("ready")
        shell("unload", "demo")
        running.until('appliance_model_state{model="demo",state="cold"}', 1)
        assert "unloaded by hand" in shell("ps")
        shell.file.write_text(text + ALIAS)
        shell("reload", "--wait")
        assert "unloaded by hand" in shell("ps")
        assert running.metric('appliance_model_state{model="demo",state="cold"}') == 1
        running.post(chat("demo"))
        assert "by hand" not in shell("ps")


def test_who_waits_for_memory_is_told_where_in_line_and_what_for(shell: Shell) -> None:
    shell.file.write_text(shell.file.read_text() + "memory: {max_loaded: 1}\n")
    names, address = ("demo", "values"), "/v1/chat/completions"
    with Up.start(shell.file) as running, ThreadPoolExecutor(2) as clients:
        running.wait_for("ready")
        with httpx.stream("POST", f"{running.url}{address}", json=chat("endless", stream=True), timeout=30):
            waiting = [clients.submit(running.post, chat(model)) for model in names]
            for model in names:
                running.until(f'appliance_model_waiting{{model="{model}"}}', 1)
            told = {model["name"]: model for model in json.loads(shell("ps", "--json"))["data"]["models"]}
            first, second = sorted(names, key=lambda name: int(told[name]["position"]))
            assert (told[first]["position"], told[second]["position"]) == (1, 2)
            assert told[first]["waits_for"] == "for memory: endless answers 1 request"
            assert told[second]["waits_for"] == f"for memory, after {first}"
            assert "1 (#2)" in shell("ps")
            assert "1 waiting: for memory: endless" in shell("status")
        answers = {name: future.result() for name, future in zip(names, waiting, strict=True)}
        assert [answer.status_code for answer in answers.values()] == [200, 200]
        assert int(answers[first].headers["x-appliance-queue-ms"]) > 0
        assert int(answers[first].headers["x-appliance-load-ms"]) > 0


def test_ps_is_shown_again_every_second_until_it_is_interrupted(shell: Shell, running: Up) -> None:
    command = [sys.executable, "-m", "appliance", "ps", "--watch", "--json", "-f", str(shell.file)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as watching:
        assert watching.stdout is not None
        seen = [json.loads(watching.stdout.readline()) for _ in range(2)]
        watching.send_signal(signal.SIGINT)
        assert watching.wait(30) == 130
    assert [each["kind"] for each in seen] == ["ps", "ps"]


def test_events_are_a_line_each(shell: Shell, running: Up) -> None:
    command = [sys.executable, "-m", "appliance", "events", "-f", str(shell.file), "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as following:
        assert following.stdout is not None
        assert json.loads(following.stdout.readline())["event"] == "events.begin"
        shell("load", "demo")
        seen = [json.loads(following.stdout.readline())["event"] for _ in range(2)]
        assert seen == ["engine.loading", "engine.ready"]
        running.signal(signal.SIGTERM)
        assert following.wait(30) == 0


def test_down_waits_for_the_end(shell: Shell, running: Up) -> None:
    assert shell("down") == f"process {running.process.pid} has ended\n"
    assert running.exit_code() == 0


def test_a_second_appliance_on_the_same_file_exits_75_and_names_the_first(shell: Shell, running: Up) -> None:
    link = shell.file.with_name("link.yaml")
    link.symlink_to(shell.file)
    for name in (shell.file, link):
        with Up.start(name) as second:
            assert second.exit_code() == 75
        assert f"process {running.process.pid}" in second.errors[-1]


def test_what_ran_last_is_started_again_while_the_file_is_broken(shell: Shell) -> None:
    good = shell.file.read_text().replace("{watch: false}", "{quiet: 50ms}")
    shell.file.write_text(good)
    with Up.start(shell.file) as running:
        running.wait_for("ready")
        running.signal(signal.SIGTERM)
        assert running.exit_code() == 0
    shell.file.write_text(good + BROKEN)
    with Up.start(shell.file) as running:
        assert running.exit_code() == 78
    assert "aliases.fast" in "\n".join(running.errors)
    assert running.errors[-1].endswith(f"`appliance up -f {shell.file} --last-good` starts generation 1 again")
    with Up.start(shell.file, "--last-good") as running:
        running.wait_for("ready")
        assert running.post(chat("demo")).headers["x-appliance-generation"] == "1"
        assert "aliases.fast" in shell("ps")
        assert running.metric("appliance_config_last_reload_success") == 0
        assert running.metric("appliance_config_file_matches_running") == 0
        shell.file.write_text(good + ALIAS)
        running.until("appliance_config_generation", 2)
        assert running.post(chat("fast")).status_code == 200


def test_there_is_no_last_good_before_the_first_start(shell: Shell) -> None:
    with Up.start(shell.file, "--last-good") as running:
        assert running.exit_code() == 78
    assert "without --last-good" in running.errors[-1]


def test_a_start_after_a_kill_finds_the_newest_valid_generation(shell: Shell) -> None:
    with Up.start(shell.file) as running:
        running.wait_for("ready")
        running.process.kill()
    generations = state_of(shell.file).generations
    whole = (generations / "00000001.generation").read_bytes()
    (generations / "00000002.generation").write_bytes(whole[: len(whole) // 2])
    (generations / ".00000003.1").write_bytes(b"half")
    shell.file.write_text(shell.file.read_text() + ALIAS)
    with Up.start(shell.file) as running:
        assert running.metric("appliance_config_generation") == 2
    assert sorted(path.name for path in generations.iterdir()) == ["00000001.generation", "00000002.generation"]
