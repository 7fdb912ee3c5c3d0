"""A deploy directory for tests with real engine processes: scripts for fake engines and a deploy file."""

import asyncio
import json
import os
import signal
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from appliance.config import load
from appliance.config.deployment import EMPTY, Deployment
from appliance.control.generation import Compose, Deadlines, generate
from appliance.control.journal import Journal
from appliance.control.lease import Lease
from appliance.control.supervisor import Supervisor
from appliance.models.inspect import inspect_source
from appliance.models.store import Store
from appliance.vocab.event import Event, Finished, TextDelta
from appliance.vocab.request import Message, Sampling
from appliance.vocab.spec import ChatPrompt, Submission

PATIENT = Deadlines(60, 60, 60)


class Site:
    """`models` of the deploy file are given as `name=script`, a script being the keys of a fake engine."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.file = directory / "deploy.yaml"
        self.store = Store(directory / "store", directory / "hub")

    def script(self, name: str, **script: Any) -> Path:
        path = self.directory / f"{name}.yaml"
        path.write_text(json.dumps(script))
        return path

    def text(self, models: dict[str, dict[str, Any]], **top: Any) -> str:
        """A deploy file; a model without a source is the fake engine of its own name's script."""
        full = {name: {"source": f"fake:{name}.yaml", **model} for name, model in models.items()}
        return json.dumps({"version": 1, "models": full, **top})

    def read(self, held: Mapping[str, bytes] = EMPTY, document: bytes | None = None) -> Deployment:
        """What the file says, or `document`; files of `held` are not looked for on disk."""
        return load.read(
            self.file,
            environ=os.environ,
            inspect=lambda source, storage: inspect_source(source, self.store, storage),
            memory_bytes=16 << 30,
            held=held,
            document=document,
        )

    def deployment(self, models: dict[str, dict[str, Any]], **top: Any) -> Deployment:
        self.file.write_text(self.text(models, **top))
        return self.read()

    def journal(self) -> Journal:
        directory = self.directory / "generations"
        directory.mkdir(exist_ok=True)
        return Journal(directory)

    def supervisor(self, **more: Any) -> Supervisor:
        more = {"fetch_patience": 60.0, **more}
        return Supervisor(self.store, environ=os.environ, engine_log=("console", "warning"), **more)


def composing(text: str = "hello", **sampling: Any) -> Compose:
    """What turns a lease into a submission of this user message."""

    def compose(lease: Lease) -> Submission:
        prompt = ChatPrompt(messages=(Message(role="user", content=text),))
        return Submission(id=0, prompt=prompt, sampling=Sampling(**sampling), context=lease.info.context)

    return compose


async def answer(
    supervisor: Supervisor,
    deployment: Deployment,
    model: str = "m",
    text: str = "hello",
    *,
    seen: Callable[[Event], None] = lambda event: None,
    deadlines: Deadlines = PATIENT,
    leased: Callable[[Lease], None] = lambda lease: None,
    hasty: bool = False,
    **sampling: Any,
) -> str:
    """The text of one whole answer; `leased` is called with its first lease, `seen` with each event as it comes."""
    parts = []

    def compose(lease: Lease) -> Submission:
        leased(lease)
        return composing(text, **sampling)(lease)

    async for _, event in generate(supervisor, deployment.models[model], compose, deadlines=deadlines, hasty=hasty):
        seen(event)
        if isinstance(event, TextDelta):
            parts.append(event.text)
        finished = isinstance(event, Finished)
    assert finished
    return "".join(parts)


async def stopped(pid: int) -> None:
    """Stop this process, and wait until none of its threads runs any more."""
    os.kill(pid, signal.SIGSTOP)
    async with asyncio.timeout(30):
        while not all(" (stopped)" in stat.read_text() for stat in Path(f"/proc/{pid}/task").glob("*/status")):
            await asyncio.sleep(0.005)
