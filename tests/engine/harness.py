"""A real engine process on a real socketpair, spoken to in frames."""

import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from appliance.vocab.event import Event, Failed, Finished, TextDelta
from appliance.vocab.request import Message, Sampling
from appliance.vocab.spec import ChatPrompt, EngineSettings, EngineSpec, Submission
from appliance.wire import frames

ROOT = Path(__file__).parents[2]
SETTINGS = EngineSettings(context=4096, concurrency=16, kv_bytes=1 << 30, prefix_bytes=1 << 20, stall_target=0.5)
GREEDY = Sampling(temperature=0.0)


def submission(id: int, text: str = "", sampling: Sampling = GREEDY, **more: Any) -> Submission:
    prompt = more.pop("prompt", None) or ChatPrompt(messages=(Message(role="user", content=text),))
    return Submission(id=id, prompt=prompt, sampling=sampling, context=more.pop("context", 4096), **more)


class Engine:
    """The server's end. Frames are kept in the order they came; nothing here waits longer than a minute."""

    def __init__(self, process: subprocess.Popen[bytes], link: socket.socket) -> None:
        self.process, self.link = process, link
        self.frames: list[frames.ToServer] = []
        self._reader = frames.server_reader()
        link.settimeout(60)

    def send(self, *sent: frames.ToEngine) -> None:
        for frame in sent:
            self.link.sendall(frames.encode(frame))

    def receive(self) -> bool:
        """Take what comes next; false at the end of file."""
        data = self.link.recv(1 << 18)
        self.frames += self._reader.feed(data)
        return bool(data)

    def until(self, holds: Callable[[], Any]) -> Any:
        """Receive until a condition on what came holds; its value."""
        while not (value := holds()):
            if not self.receive():
                raise AssertionError(f"the engine ended; it had said {self.frames[-5:]}")
        return value

    def first(self, kind: type) -> Any:
        return self.until(lambda: next((f for f in self.frames if isinstance(f, kind)), None))

    def start(self, script: Path, settings: EngineSettings = SETTINGS) -> frames.Ready:
        spec = EngineSpec(backend="fake", path=str(script))
        self.send(frames.Hello(frames.VERSION, "demo", spec, settings))
        return self.first(frames.Ready)

    def parts(self, id: int) -> list[frames.SequenceEvents]:
        return [p for f in self.frames if isinstance(f, frames.Events) for p in f.sequences if p.id == id]

    def events(self, id: int) -> list[Event]:
        return [event for part in self.parts(id) for event in part.events]

    def tokens(self, id: int) -> list[int]:
        return [token for part in self.parts(id) for token in part.tokens]

    def text(self, id: int) -> str:
        return "".join(e.text for e in self.events(id) if isinstance(e, TextDelta))

    def end(self, id: int) -> Finished | Failed:
        """Wait for the end of a sequence."""
        return self.until(lambda: next((e for e in self.events(id) if isinstance(e, Finished | Failed)), None))

    def pong(self, nonce: int) -> frames.Pong:
        self.send(frames.Ping(nonce))
        return self.until(
            lambda: next((f for f in self.frames if isinstance(f, frames.Pong) and f.nonce == nonce), None)
        )


@contextmanager
def running_engine() -> Iterator[Engine]:
    ours, theirs = socket.socketpair()
    process = subprocess.Popen(
        [sys.executable, "-m", "appliance.engine", str(theirs.fileno())],
        pass_fds=(theirs.fileno(),),
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    theirs.close()
    try:
        yield Engine(process, ours)
    finally:
        ours.close()
        process.kill()
        process.wait()


def write_script(folder: Path, **script: Any) -> Path:
    path = folder / "script.yaml"
    path.write_text(yaml.safe_dump(script, allow_unicode=True), encoding="utf-8")
    return path
