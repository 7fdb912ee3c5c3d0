"""`appliance up` from its start to its end."""

import json
import signal
import socket
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from tests.server.up import Up, chat, deployment, raw_post


def test_a_broken_file_shows_every_problem_and_starts_nothing(tmp_path: Path) -> None:
    file = tmp_path / "deploy.yaml"
    file.write_text("version: 1\nserver: {listn: 1}\nmodels: {a: {sorce: x}}\n")
    with Up.start(file) as running:
        assert running.exit_code() == 78
    shown = "\n".join(running.errors)
    assert f"{file}:2:10" in shown
    assert f"{file}:3:" in shown
    assert running.lines == []


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with Up.start(tmp_path / "nothing.yaml") as running:
        assert running.exit_code() == 78
    assert "nothing.yaml" in "\n".join(running.errors)


def test_a_taken_port_is_named(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with Up.start(deployment(tmp_path, listen=f"127.0.0.1:{port}")) as running:
            assert running.exit_code() == 75
    assert f"127.0.0.1:{port}" in running.errors[-1]
    assert "Traceback" not in "\n".join(running.errors)


def test_an_open_address_needs_a_word_of_consent(tmp_path: Path) -> None:
    file = deployment(tmp_path, listen="0.0.0.0:0")
    with Up.start(file) as running:
        assert running.exit_code() == 6
    assert "--insecure" in running.errors[-1]
    with Up.start(file, "--insecure") as running:
        assert httpx.get(f"http://127.0.0.1:{running.port}/healthz").status_code == 200


def test_it_listens_on_a_unix_socket_and_takes_it_away(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with Up.start(deployment(tmp_path, listen=f"[127.0.0.1:0, 'unix:{path}']")) as running:
        running.wait_for("ready")
        transport = httpx.HTTPTransport(uds=str(path))
        with httpx.Client(transport=transport, base_url="http://x", timeout=30) as client:
            assert client.post("/v1/chat/completions", json=chat("demo")).status_code == 200
        assert running.get("/healthz").status_code == 200
        running.signal(signal.SIGTERM)
        assert running.exit_code() == 0
    assert not path.exists()


def test_a_left_over_unix_socket_is_replaced_and_a_live_one_is_not(tmp_path: Path) -> None:
    path = tmp_path / "s"
    file = deployment(tmp_path, listen=f"'unix:{path}'")
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
    with Up.start(file) as first:
        first.wait_for("ready")
        other = file.with_name("other.yaml")
        other.write_text(file.read_text())
        with Up.start(other) as second:
            assert second.exit_code() == 75
        assert str(path) in second.errors[-1]


def test_it_listens_on_a_socket_it_is_given(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as given:
        file = deployment(tmp_path, listen=f"'fd:{given.fileno()}'")
        with Up.start(file, pass_fds=(given.fileno(),)) as running:
            running.wait_for("ready")
            assert running.port == given.getsockname()[1]
            assert running.get("/healthz").status_code == 200


def test_readiness_waits_for_what_is_loaded_at_startup(tmp_path: Path) -> None:
    (tmp_path / "early.yaml").write_text("load_ms: 1000\n")
    file = deployment(tmp_path, more="  early: {source: 'fake:./early.yaml', load: startup}\n")
    with Up.start(file) as running:
        assert running.get("/healthz").status_code == 200
        assert running.get("/readyz").status_code == 503
        running.wait_for("ready")
        running.until('appliance_model_state{model="early",state="ready"}', 1)
        assert running.get("/readyz").status_code == 200


@pytest.mark.parametrize("first", ["appliance", "guardian"])
def test_it_ends_with_the_process_it_is_to_watch(tmp_path: Path, first: str) -> None:
    guardian = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    with guardian:
        if first == "guardian":
            guardian.kill()
            guardian.wait()
        with Up.start(deployment(tmp_path), "--watchdog-pid", str(guardian.pid)) as running:
            if first == "appliance":
                assert running.post(chat("demo")).status_code == 200
                guardian.kill()  # not reaped before the appliance has ended
            assert running.exit_code() == 0
        assert any("watchdog.gone" in line for line in (*running.lines, *running.errors))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_at_once_when_nothing_runs(tmp_path: Path, number: signal.Signals) -> None:
    with Up.start(deployment(tmp_path)) as running:
        assert running.post(chat("demo")).status_code == 200
        running.signal(number)
        assert running.exit_code() == 0
    assert "Traceback" not in "\n".join(running.errors)


def test_a_drain_lets_what_runs_finish(tmp_path: Path) -> None:
    file = deployment(tmp_path, "drain_timeout: 30s")
    (tmp_path / "long.yaml").write_text("text: 'one two three four five six seven'\nstep_ms: 50\n")
    with Up.start(file) as running, httpx.Client(base_url=running.url, timeout=30) as client:
        body = chat("long", stream=True)
        with client.stream("POST", "/v1/chat/completions", json=body) as response:
            running.signal(signal.SIGTERM)
            text = response.read().decode()
        assert text.endswith("data: [DONE]\n\n")
        assert running.exit_code() == 0
        with pytest.raises(httpx.TransportError):
            client.get("/healthz")


def test_a_drain_is_told_to_whoever_asks(tmp_path: Path) -> None:
    with Up.start(deployment(tmp_path, "drain_timeout: 30m")) as running:
        with httpx.stream("POST", f"{running.url}/v1/chat/completions", json=chat("endless", stream=True)) as stream:
            running.signal(signal.SIGTERM)
            running.wait_for("server.draining")
            ready = running.get("/readyz")
            assert (ready.status_code, "shutting down" in ready.text) == (503, True)
            assert running.get("/healthz").status_code == 200
            refused = running.post(chat("demo"))
            assert (refused.status_code, refused.headers["retry-after"]) == (503, "5")
            assert next(stream.iter_lines())
        assert running.exit_code() == 0


def test_a_drain_that_takes_too_long_says_so_in_every_stream(tmp_path: Path) -> None:
    file = deployment(tmp_path, "drain_timeout: 100ms")
    with Up.start(file) as running, httpx.Client(base_url=running.url, timeout=30) as client:
        with client.stream("POST", "/v1/chat/completions", json=chat("endless", stream=True)) as response:
            running.signal(signal.SIGTERM)
            *_, last, end = response.read().decode().split("\n\n")
        assert json.loads(last.removeprefix("data: "))["error"]["code"] == "unavailable"
        assert end == ""
        assert running.exit_code() == 0


def test_a_drain_that_takes_too_long_is_a_status_where_nothing_was_sent(tmp_path: Path) -> None:
    with Up.start(deployment(tmp_path, "drain_timeout: 100ms")) as running, running.connection() as sock:
        sock.sendall(raw_post(json.dumps(chat("endless")).encode()))
        running.until("appliance_generations_running", 1)
        running.signal(signal.SIGTERM)
        assert sock.recv(12) == b"HTTP/1.1 503"
        assert running.exit_code() == 0


def test_a_second_signal_ends_it_without_waiting(tmp_path: Path) -> None:
    with Up.start(deployment(tmp_path, "drain_timeout: 30m")) as running, running.connection() as sock:
        sock.sendall(raw_post(json.dumps(chat("endless")).encode()))
        running.until("appliance_generations_running", 1)
        running.signal(signal.SIGTERM)
        running.wait_for("server.draining")
        running.signal(signal.SIGTERM)
        assert running.exit_code() == -signal.SIGTERM


def test_a_changed_file_is_served_and_a_broken_one_is_not(tmp_path: Path) -> None:
    file = deployment(tmp_path)
    good = file.read_text()
    with Up.start(file) as running:
        running.wait_for("ready")
        file.write_text(good + "aliases: {fast: demo}\n")
        running.wait_for("config.applied")
        assert running.post(chat("fast")).status_code == 200
        file.write_text(good + "aliases: {fast: nothing}\n")
        running.wait_for("config.rejected")
        assert running.post(chat("fast")).status_code == 200
        assert running.metric("appliance_config_last_reload_success") == 0
        file.write_text(good)
        running.signal(signal.SIGHUP)
        running.until("appliance_config_generation", 3)
        assert running.post(chat("fast")).status_code == 404


def test_with_wait_it_ends_with_4_when_a_model_does_not_get_ready(tmp_path: Path) -> None:
    (tmp_path / "good.yaml").write_text("text: hello\n")
    (tmp_path / "bad.yaml").write_text("fail_load: the weights are cut off\npermanent: true\n")
    file = tmp_path / "deploy.yaml"
    head = "version: 1\nserver: {listen: 127.0.0.1:0}\nmodels:\n  good: {source: 'fake:good.yaml', load: startup}\n"
    file.write_text(f"{head}  bad: {{source: 'fake:bad.yaml', load: startup}}\n")
    with Up.start(file, "--wait", "--timeout", "20") as running:
        assert running.exit_code() == 4
    assert "not converged: bad failed: the weights are cut off" in running.errors[-1]
    assert "ready" not in running.lines
    file.write_text(head)
    with Up.start(file, "--wait") as running:
        running.wait_for("ready")
        running.signal(signal.SIGTERM)
        assert running.exit_code() == 0
