"""Requests for models whose files have to be brought here first."""

import asyncio
import os

import pytest

from appliance.control import blas, footprint
from appliance.control.reload import Reloader
from appliance.control.running import Running
from appliance.control.supervisor import Supervisor
from appliance.errors import SourceError, Unavailable
from appliance.models.store import Store
from tests.checkpoints import byte_level_tokenizer, tiny_config, tiny_weights
from tests.gguf_file import llama_metadata, write_llama
from tests.models.hub_server import hub_serving
from tests.process.site import answer


def tiny_gguf(path):
    config = tiny_config(300)
    write_llama(path, llama_metadata(config, byte_level_tokenizer()), tiny_weights(300, 0), "F32")


async def test_a_file_is_converted_loaded_and_resolved_again_while_the_request_waits(site):
    tiny_gguf(site.directory / "tiny.gguf")
    running = Running(site.deployment({"m": {"source": "./tiny.gguf"}}))
    source = running.deployment.models["m"].source
    seen = []

    def read(held, document):
        seen.append(site.store.locate(source))
        return site.read(held, document)

    async with site.supervisor() as supervisor:
        await supervisor.apply(running.deployment)
        assert supervisor.status()[0].conditions[1].reason == "Missing"
        reloader = Reloader(str(site.file), read, running, supervisor, site.journal())
        supervisor.followers.fetched = reloader.refresh
        task = asyncio.create_task(reloader.run())
        assert await answer(supervisor, running.deployment, max_tokens=8, temperature=0.0, ignore_eos=True)
        assert supervisor.status()[0].conditions[1].reason == "Present"
        expected = footprint.measure(site.store.locate(source), "auto", cpu=blas.mlx_is_cpu_only())
        assert supervisor.status()[0].info.weight_bytes == expected, "the ledger's estimate is what it takes"
        assert seen[-1] is not None, "the deployment was resolved with the new files"
        task.cancel()
        await asyncio.wait([task])


async def test_a_download_that_cannot_succeed_is_told_with_its_reason(site, tmp_path):
    deployment = site.deployment({"m": {"source": "hf:nobody/nothing"}})
    environ = {**os.environ, "HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path / "hf")}
    store = Store(tmp_path / "store", tmp_path / "hf" / "hub")
    async with Supervisor(store, environ=environ) as supervisor:
        await supervisor.apply(deployment)
        with pytest.raises(SourceError, match="nobody/nothing"):
            await answer(supervisor, deployment)


async def test_a_download_that_takes_long_is_told_with_how_far_it_is_and_goes_on(site, tmp_path):
    files = {"config.json": b'{"model_type": "llama"}', "model.safetensors": bytes(1 << 20)}
    with hub_serving(files) as hub:
        hub.stall_at["model.safetensors"] = 1 << 19
        deployment = site.deployment({"m": {"source": "hf:owner/model"}})
        environ = {**os.environ, "HF_ENDPOINT": hub.url, "HF_HOME": str(tmp_path / "hf"), "HF_HUB_DISABLE_XET": "1"}
        environ.pop("HF_HUB_OFFLINE", None)
        store = Store(tmp_path / "store", tmp_path / "hf" / "hub")
        async with Supervisor(store, environ=environ, fetch_patience=0.01) as supervisor:
            await supervisor.apply(deployment)
            with pytest.raises(Unavailable, match="m is being fetched: ") as refused:
                await answer(supervisor, deployment)
            assert refused.value.retry_after
            assert supervisor.status()[0].download is not None, "who left does not end it"

            async def patient() -> None:
                async with supervisor.acquire(deployment.models["m"], patient=True):
                    pass

            waiting = asyncio.create_task(patient())
            async with asyncio.timeout(30):
                while not (supervisor.status()[0].download or ("", 0, 0))[1]:
                    await asyncio.sleep(0.005)
            with pytest.raises(Unavailable, match=r"\d+%"):
                await answer(supervisor, deployment)
            assert not waiting.done()
            waiting.cancel()
            await asyncio.wait([waiting])


async def test_a_download_nobody_wants_any_more_is_ended(site):
    tiny_gguf(site.directory / "tiny.gguf")
    site.script("other")
    before = site.deployment({"m": {"source": "./tiny.gguf"}})
    async with site.supervisor() as supervisor:
        await supervisor.apply(before)
        waiting = asyncio.create_task(answer(supervisor, before))
        while supervisor.status()[0].download is None:
            await asyncio.sleep(0)
        await supervisor.apply(site.deployment({"other": {}}))
        with pytest.raises(Exception, match="not in this deployment"):
            await waiting
        assert [status.name for status in supervisor.status()] == ["other"]
