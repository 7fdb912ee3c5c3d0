"""Engines are killed, stopped, unloaded and rebuilt while clients ask: every answer is whole, or says that somebody
unloaded the model by hand."""

import asyncio
import os
import random
import signal
from contextlib import suppress

import pytest

from appliance.errors import InUse, Unavailable
from tests.process.site import answer

TEXT = " ".join(f"word{n}" for n in range(30))
CLIENTS, ANSWERS = 5, 6
SIGNALS = (signal.SIGKILL, signal.SIGABRT, signal.SIGSTOP)
FULL = [pytest.param(seed, marks=pytest.mark.proof) for seed in range(1, 20)]


class Chaos:
    """What may happen to a deployment of two models, drawn by one seed."""

    def __init__(self, site, seed):
        self.site, self.drawn = site, random.Random(seed)
        self.deployment = self.drawn_again()

    def drawn_again(self):
        """Other engines with the same words, and other room for them."""
        for name in "ab":
            self.site.script(name, text=TEXT, step_ms=self.drawn.choice([1, 3]), load_ms=self.drawn.choice([0, 100]))
        return self.site.deployment(
            {name: {"retry_load": {"first": "20ms", "tries": 100}} for name in "ab"},
            engine={"spare": self.drawn.random() < 0.5},
            memory={"max_loaded": self.drawn.choice([1, 2]), "queue": {"min_resident": "0s", "starve_after": "1s"}},
        )

    async def act(self, supervisor):
        """Do one thing to it."""
        match self.drawn.choice(["signal"] * 5 + ["unload", "unload at once", "load", "deploy"]):
            case "signal":
                self._send(self.drawn.choice(SIGNALS), supervisor)
            case "deploy":
                self.deployment = self.drawn_again()
                await supervisor.apply(self.deployment)
            case "load":
                supervisor.load(self.drawn.choice("ab"))
            case how:
                with suppress(InUse):
                    supervisor.unload(self.drawn.choice("ab"), at_once=how == "unload at once")

    def _send(self, number, supervisor):
        pids = [status.pid for status in supervisor.status() if status.pid is not None]
        for pid in self.drawn.sample(pids, k=min(1, len(pids))):
            send(pid, number)
            if number is signal.SIGSTOP:
                asyncio.get_running_loop().call_later(self.drawn.random(), send, pid, signal.SIGCONT)


def send(pid, number):
    with suppress(ProcessLookupError):
        os.kill(pid, number)


@pytest.mark.parametrize("seed", [0, *FULL])
async def test_whatever_happens_to_engines_answers_are_whole(site, seed):
    chaos = Chaos(site, seed)
    async with site.supervisor() as supervisor:
        await supervisor.apply(chaos.deployment)

        async def client(number):
            for turn in range(ANSWERS):
                try:
                    text = await answer(supervisor, chaos.deployment, "ab"[(number + turn) % 2])
                except Unavailable as error:
                    assert "unloaded by hand" in error.message
                else:
                    assert text == TEXT

        clients = [asyncio.create_task(client(number)) for number in range(CLIENTS)]
        while not all(task.done() for task in clients):
            await asyncio.wait(clients, timeout=chaos.drawn.random() / 2, return_when=asyncio.FIRST_EXCEPTION)
            await chaos.act(supervisor)
        await asyncio.gather(*clients)
        await supervisor.close(1)
