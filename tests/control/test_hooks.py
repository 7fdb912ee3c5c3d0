"""Programs that run on events."""

import asyncio
import json
import os
import sys
from contextlib import asynccontextmanager

import pytest

from appliance.config.operations import Hook
from appliance.control.events import Events
from appliance.control.hooks import AT_ONCE, Hooks, call, due

READY, DIED = "model.ready", "engine.died"


def python(text: str, *arguments: str) -> tuple[str, ...]:
    return (sys.executable, "-c", text, *arguments)


def test_those_for_an_event_are_due_in_the_order_of_the_file():
    hooks = [Hook(READY, ("a",)), Hook(DIED, ("b",)), Hook(READY, ("c",))]
    assert [hook.run for hook in due(hooks, {"event": READY})] == [("a",), ("c",)]
    assert due(hooks, {"event": "config.applied"}) == []


@pytest.mark.parametrize(
    ("run", "timeout", "failed"),
    [
        pytest.param(python("pass"), 30, "", id="it ends well"),
        pytest.param(python("import sys; sys.exit('no such channel')"), 30, "exit 1: no such channel", id="it fails"),
        pytest.param(("no-such-program",), 30, "it cannot be started", id="there is none"),
        pytest.param(("a\0b",), 30, "it cannot be started", id="its name is none"),
        pytest.param(python("import time; time.sleep(60)"), 0.2, "did not end within 0.2 s", id="it hangs"),
        pytest.param(python("import os, time; os.fork() or time.sleep(9)"), 30, "", id="it leaves a child behind"),
        pytest.param(
            python("import os; os.write(2, b'x' * 9**6); os._exit(3)"), 30, "exit 3: xx", id="it says a lot"
        ),
        pytest.param(
            python("import os, time; os.fork() or [os.write(2, b'y' * 9**5) for _ in range(10**6)]; os._exit(4)"),
            30,
            "exit 4",
            id="it leaves a child behind that writes on",
        ),
        pytest.param(
            python("import os\nwhile True: os.write(2, b'z' * 9**5)"), 1, "did not end within 1 s", id="it floods us"
        ),
        pytest.param(("sh", "-c", "exit 2"), 30, "exit 2", id="it reads nothing"),
    ],
)
async def test_a_program_is_run_to_its_end(run, timeout, failed):
    said = await call(Hook(READY, run, timeout), b"{}" * 10**6, os.environ)
    assert failed in said if failed else said == ""
    assert len(said) < 3000


@asynccontextmanager
async def running(hooks: list[Hook]):
    events = Events()
    task = asyncio.create_task(Hooks(events, lambda: hooks, {**os.environ, "KNOWN": "yes"}).run())
    await asyncio.sleep(0)  # it listens from its first step on
    try:
        yield events
    finally:
        task.cancel()
        await asyncio.wait([task])


async def come(path, lines: int = 1):
    async with asyncio.timeout(30):
        while not path.exists() or path.read_text().count("\n") < lines:
            await asyncio.sleep(0.01)
    return path.read_text()


async def test_a_program_gets_the_event_as_json_and_no_shell_sees_it(tmp_path):
    out, odd = tmp_path / "out", "$(touch odd); *"
    text = "import os, sys; print(os.environ['APPLIANCE_EVENT'], os.environ['KNOWN'], sys.argv[2], input(),"
    hook = Hook(READY, python(f"{text} sep='|', file=open(sys.argv[1], 'w'))", str(out), odd))
    async with running([hook]) as events:
        events.publish(READY, model="m")
        name, known, argument, event = (await come(out)).strip().split("|")
    assert (name, known, argument) == (READY, "yes", odd)
    assert (json.loads(event)["event"], json.loads(event)["model"]) == (READY, "m")


async def test_programs_that_hang_hold_up_nobody_who_publishes(tmp_path):
    out = tmp_path / "out"
    slow = Hook(DIED, python("import time; time.sleep(60)"), 0.3)
    quick = Hook(READY, python("import sys; print(file=open(sys.argv[1], 'a'))", str(out)))
    async with running([slow, quick]) as events:
        for _ in range(AT_ONCE * 2):
            events.publish(DIED)
        events.publish(READY)
        await come(out)


async def test_what_a_program_writes_takes_no_disk_and_little_of_our_time(monkeypatch, tmp_path):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    before = os.times()
    flood = Hook(READY, python("import os\nwhile True: os.write(2, b'z' * 9**5)"), 1)
    assert "did not end" in await call(flood, b"{}", os.environ)
    spent = os.times()
    assert spent.user + spent.system - before.user - before.system < 0.5
    assert list(tmp_path.iterdir()) == []


async def test_programs_under_way_are_killed_in_the_end(tmp_path):
    out = tmp_path / "out"
    text = "import os, sys, time; print(os.getpid(), file=open(sys.argv[1], 'w'), flush=True); time.sleep(60)"
    async with running([Hook(READY, python(text, str(out)))]) as events:
        events.publish(READY)
        pid = int(await come(out))
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
