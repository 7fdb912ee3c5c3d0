"""Where fetched models live, how much they may take, and a deployment that fetches nothing."""

import asyncio
import os
from contextlib import asynccontextmanager

import pytest

from appliance.config.deployment import Source
from appliance.control.events import Events
from appliance.control.observer import Observer
from appliance.control.supervisor import Supervisor
from appliance.errors import LoadFailed, SourceError
from appliance.models import fetched
from appliance.models.inspect import inspect_source
from appliance.models.pull import command
from appliance.models.store import Store
from tests.checkpoints import tiny_vocab_llama
from tests.models.hub_server import hub_serving
from tests.models.test_fetched import put, repository
from tests.process.site import answer


@asynccontextmanager
async def hub_of_a_model(tmp_path, monkeypatch):
    """A hub with one tiny model, which every process that is started asks."""
    files = {path.name: path.read_bytes() for path in tiny_vocab_llama(tmp_path / "tiny").iterdir()}
    with hub_serving(files) as hub:
        environ = {"HF_ENDPOINT": hub.url, "HF_HOME": str(tmp_path / "hf"), "HF_HUB_DISABLE_XET": "1"}
        for name, value in environ.items():
            monkeypatch.setenv(name, value)
        monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
        yield


async def fetch(source: Source, store: Store) -> None:
    """In a process of its own: a hub library that is imported already would ask the hub of that moment."""
    done = await asyncio.create_subprocess_exec(*command(source, store))
    assert await done.wait() == 0


async def test_an_offline_deployment_says_what_to_run_and_serves_once_that_was_done(site, tmp_path, monkeypatch):
    model = {"source": "hf:owner/model", "retry_load": {"first": "10ms", "max": "10ms", "tries": 100}}
    deployment = site.deployment({"m": model}, storage={"offline": True})
    async with hub_of_a_model(tmp_path, monkeypatch), Supervisor(site.store, environ=os.environ) as supervisor:
        await supervisor.apply(deployment)
        with pytest.raises(SourceError, match=r"storage\.offline .* run `appliance pull hf:owner/model`"):
            await answer(supervisor, deployment)
        assert not site.store.hub.exists()
        put_there = tiny_vocab_llama(site.store.hub / "models--owner--model" / "snapshots" / "main")
        supervisor.forgive()
        assert await answer(supervisor, deployment, max_tokens=2)
        assert put_there == site.store.locate(deployment.models["m"].source)


async def test_all_that_is_fetched_is_below_the_directory_that_is_named(site, tmp_path, monkeypatch):
    deployment = site.deployment({"m": {"source": "hf:owner/model"}}, storage={"models": "./kept"})
    async with hub_of_a_model(tmp_path, monkeypatch), Supervisor(site.store, environ=os.environ) as supervisor:
        await supervisor.apply(deployment)
        assert await answer(supervisor, deployment, max_tokens=2)
    assert not site.store.root.exists()
    kept = Store(site.directory / "kept", site.directory / "kept" / "hub")
    assert site.store.within(deployment.storage) == kept
    (model,) = fetched.fetched(kept)
    assert model.name == "hf:owner/model@main"
    source = deployment.models["m"].source
    assert inspect_source(source, site.store, deployment.storage).repo == "owner/model", "they are looked at there"


async def test_another_directory_counts_from_the_next_load_on(site, tmp_path, monkeypatch):
    models = {"m": {"source": "hf:owner/model"}}
    async with hub_of_a_model(tmp_path, monkeypatch), Supervisor(site.store, environ=os.environ) as supervisor:
        await supervisor.apply(deployment := site.deployment(models))
        assert await answer(supervisor, deployment, max_tokens=2)
        loaded = supervisor.status()[0].pid
        await supervisor.apply(deployment := site.deployment(models, storage={"models": "./kept"}))
        assert await answer(supervisor, deployment, max_tokens=2)
        assert supervisor.status()[0].pid == loaded, "what is loaded goes on"
        supervisor.unload("m")
        with pytest.raises(LoadFailed, match=r"not where they were: run `appliance pull hf:owner/model`"):
            await answer(supervisor, deployment, max_tokens=2)
        await fetch(deployment.models["m"].source, site.store.within(deployment.storage))
        await supervisor.apply(deployment)
        supervisor.forgive()
        assert await answer(supervisor, deployment, max_tokens=2)


async def test_beyond_the_most_the_oldest_go_that_nobody_names_and_it_is_told(site):
    site.script("s")
    for name, used in (("named", 1.0), ("oldest", 2.0), ("old", 3.0), ("new", 4.0)):
        put(site.store, repository(name), 1 << 20, used)
    models = {"m": {"source": "fake:s.yaml"}, "n": {"source": "hf:owner/named"}}
    events = Events()
    async with site.supervisor() as supervisor:
        Observer(supervisor, lambda: 1, events)
        with events.listening() as listener:
            await supervisor.apply(site.deployment(models))
            assert len(fetched.fetched(site.store)) == 4
            await supervisor.apply(site.deployment(models, storage={"max": "2560KiB"}))
            told = []
            async with asyncio.timeout(30):
                while len(told) < 2:
                    if (event := await listener.next())["event"] == "model.removed":
                        told.append((event["source"], event["bytes"] >> 20))
    assert told == [("hf:owner/oldest@main", 1), ("hf:owner/old@main", 1)]
    assert {model.name for model in fetched.fetched(site.store)} == {"hf:owner/new@main", "hf:owner/named@main"}


async def test_a_model_that_is_fetched_is_noted_and_one_that_is_loaded_was_used(site, tmp_path, monkeypatch):
    source = Source("hf", "owner/model", "hf:owner/model")
    async with hub_of_a_model(tmp_path, monkeypatch):
        await fetch(source, site.store)
        os.utime(site.store.note(source), (1.0, 1.0))
        deployment = site.deployment({"m": {"source": "hf:owner/model"}})
        async with Supervisor(site.store, environ=os.environ) as supervisor:
            await supervisor.apply(deployment)
            assert await answer(supervisor, deployment, max_tokens=2)
    (model,) = fetched.fetched(site.store)
    assert model.used > 1.0
