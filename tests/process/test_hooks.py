"""Hooks of a deploy file, in a whole appliance."""

import json
import os
import re
import signal
import sys
import time
from pathlib import Path

from tests.server.up import PATIENCE, Up, chat

TELL = "import sys; open(sys.argv[1], 'a').write(sys.stdin.read())"
MODELS = ("model.ready", "model.load_failed", "model.degraded", "model.recovered")
EVENTS = ("config.applied", "config.rejected", *MODELS, "engine.died")


def hooks(out: Path) -> list[dict[str, object]]:
    return [{"event": event, "run": [sys.executable, "-c", TELL, str(out)]} for event in EVENTS]


def told(out: Path) -> list[tuple[str, str | None]]:
    lines = out.read_text().splitlines() if out.exists() else []
    return [(event["event"], event.get("model")) for event in map(json.loads, lines)]


def wait_for(out: Path, event: str, model: str | None = None) -> None:
    end = time.monotonic() + PATIENCE
    while (event, model) not in told(out):
        assert time.monotonic() < end, told(out)
        time.sleep(0.01)


def test_what_happens_to_files_models_and_engines_runs_programs(tmp_path: Path) -> None:
    file, out = tmp_path / "deploy.yaml", tmp_path / "out"
    (tmp_path / "good.yaml").write_text("text: hello\n")
    (tmp_path / "bad.yaml").write_text("fail_load: the weights are cut off\npermanent: true\n")
    deploy = {
        "version": 1,
        "server": {"listen": "127.0.0.1:0", "reload": {"quiet": "20ms"}},
        "models": {"good": {"source": "fake:good.yaml"}, "bad": {"source": "fake:bad.yaml"}},
    }
    file.write_text(json.dumps(deploy))
    with Up.start(file) as up:
        up.wait_for("ready")
        file.write_text(json.dumps({**deploy, "hooks": hooks(out)}))
        wait_for(out, "config.applied")
        assert up.post(chat("good")).status_code == 200
        wait_for(out, "model.ready", "good")
        assert up.post(chat("bad")).status_code >= 500
        wait_for(out, "model.load_failed", "bad")
        wait_for(out, "model.degraded", "bad")
        assert up.metric('appliance_model_degraded{model="bad",reason="PermanentFailure"}') == 1
        loading = re.search(r"model=good pid=(\d+)", up.wait_for("model=good pid="))
        assert loading is not None
        os.kill(int(loading[1]), signal.SIGKILL)
        wait_for(out, "engine.died", "good")
        (tmp_path / "bad.yaml").write_text("text: hello again\n")
        os.kill(up.process.pid, signal.SIGHUP)
        end = time.monotonic() + PATIENCE
        while (status := up.post(chat("bad")).status_code) != 200:
            assert time.monotonic() < end, status
        wait_for(out, "model.recovered", "bad")
        file.write_text("models: {}\n")
        wait_for(out, "config.rejected")
    assert ("model.load_failed", "good") not in told(out)
