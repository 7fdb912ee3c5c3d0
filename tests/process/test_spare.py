"""The blank engine process that the next load is given."""

import asyncio
import os
import signal
from pathlib import Path

import pytest

from appliance.control.supervisor import Supervisor
from tests.process.site import answer, stopped

SPARE = {"spare": True}


async def warm(supervisor: Supervisor, *, other_than: int | None = None) -> int:
    """The pid of the spare once it has done its imports."""
    async with asyncio.timeout(60):
        while (spare := supervisor.spare()) is None or spare.seconds is None or spare.pid == other_than:
            await asyncio.sleep(0.005)
    assert spare.pid is not None
    return spare.pid


async def ended(pid: int) -> None:
    async with asyncio.timeout(60):
        while Path(f"/proc/{pid}").exists():
            await asyncio.sleep(0.005)


def pid_of(supervisor: Supervisor, name: str = "m") -> int | None:
    return next(status.pid for status in supervisor.status() if status.name == name)


async def test_the_next_load_is_given_the_spare_and_another_one_takes_its_place(site, monkeypatch):
    site.script("m")
    deployment = site.deployment({"m": {}}, engine=SPARE)
    async with site.supervisor() as supervisor:
        await supervisor.apply(deployment)
        first = await warm(supervisor)
        monkeypatch.setenv("SOME_LIBRARY", "has set this meanwhile")
        assert await answer(supervisor, deployment) == "hello"
        assert pid_of(supervisor) == first
        second = await warm(supervisor, other_than=first)
        spare = supervisor.spare()
        assert (spare.adopted, spare.saved > 0) == (1, True)
        os.kill(first, signal.SIGKILL)
        assert await answer(supervisor, deployment) == "hello"
        assert pid_of(supervisor) == second


@pytest.mark.parametrize(
    "ill, replaced",
    [
        pytest.param(signal.SIGKILL, True, id="it died, and another one is there"),
        pytest.param(signal.SIGKILL, False, id="it dies"),
        pytest.param(signal.SIGSTOP, False, id="it answers no more"),
    ],
)
async def test_a_load_is_not_given_a_spare_that_cannot_take_it(site, ill, replaced):
    site.script("m")
    deployment = site.deployment({"m": {}}, engine=SPARE)
    async with site.supervisor() as supervisor:
        await supervisor.apply(deployment)
        first = await warm(supervisor)
        await stopped(first) if ill is signal.SIGSTOP else os.kill(first, ill)
        second = await warm(supervisor, other_than=first) if replaced else None
        # Waits for less than the load_timeout, which a process that answers nothing would take.
        assert await answer(supervisor, deployment) == "hello"
        assert pid_of(supervisor) == second if replaced else pid_of(supervisor) != first
        await ended(first)


@pytest.mark.parametrize("engine", [pytest.param({}, id="none is wanted"), pytest.param(None, id="the end")])
async def test_a_spare_ends_when_it_is_not_wanted_any_more(site, engine):
    site.script("m")
    async with site.supervisor() as supervisor:
        await supervisor.apply(site.deployment({"m": {}}, engine=SPARE))
        pid = await warm(supervisor)
        if engine is None:
            await supervisor.close(10)
        else:
            await supervisor.apply(site.deployment({"m": {}}, engine=engine))
        assert supervisor.spare() is None
        await ended(pid)


async def test_another_blas_asks_for_another_spare(site):
    site.script("m")
    models = {"m": {}, "real": {"source": str(site.directory)}}
    (site.directory / "config.json").write_text('{"model_type": "llama"}')
    async with site.supervisor() as supervisor:
        await supervisor.apply(site.deployment(models, engine={**SPARE, "blas": "auto"}))
        first = await warm(supervisor)
        await supervisor.apply(site.deployment(models, engine={**SPARE, "blas": "off"}))
        await ended(first)
        assert await warm(supervisor, other_than=first) != first
