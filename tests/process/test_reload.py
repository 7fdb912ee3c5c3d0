"""Saving the deploy file in every way people and tools do it."""

import asyncio
import os
import signal
import subprocess
from contextlib import asynccontextmanager

import pytest

from appliance.control.reload import Reloader
from appliance.control.running import Running
from appliance.errors import UnknownModel
from appliance.vocab.event import TextDelta
from tests.process.site import answer


class Live:
    """A site that is being served, with the reloader running."""

    def __init__(self, site, running, supervisor, shown):
        self.site = site
        self.running = running
        self.supervisor = supervisor
        self.shown = shown
        self.journal = site.journal()
        self.reloader = Reloader(str(site.file), site.read, running, supervisor, self.journal, show=shown.append)

    async def until(self, holds):
        async with asyncio.timeout(20):
            while not holds():
                await asyncio.sleep(0.01)

    async def applied(self, generation):
        await self.until(lambda: self.running.generation >= generation)


@asynccontextmanager
async def serving(site, models, **top):
    deployment = site.deployment(models, **top)
    running = Running(deployment)
    async with site.supervisor() as supervisor:
        await supervisor.apply(deployment)
        live = Live(site, running, supervisor, [])
        async with asyncio.TaskGroup() as tasks:
            task = tasks.create_task(live.reloader.run())
            # The first look at the file is over: what follows is seen by the watch.
            await live.reloader.reload()
            yield live
            task.cancel()


def in_place(path, text):
    path.write_text(text)


def truncate_then_write(path, text):
    with path.open("w") as opened:
        opened.flush()
        os.fsync(opened.fileno())
        opened.write(text)


def editor_rename(path, text):
    temporary = path.with_name(".deploy.yaml.swp")
    temporary.write_text(text)
    os.replace(temporary, path)


def backup_then_create(path, text):
    path.rename(path.with_name("deploy.yaml~"))
    path.write_text(text)


def sed(path, text):
    subprocess.run(["sed", "-i", "-e", "1i\\", "-e", text.replace("\\", "\\\\"), "-e", "d", str(path)], check=True)


def through_a_link(path, text):
    """As configuration mounts do: the name is a link into a directory that is itself a link, which is switched."""
    versions = path.parent / f"..{len(list(path.parent.iterdir()))}"
    versions.mkdir()
    (versions / path.name).write_text(text)
    temporary = path.parent / "..next"
    temporary.symlink_to(versions.name)
    os.replace(temporary, path.parent / "..data")
    if not path.is_symlink():
        path.unlink()
        path.symlink_to("..data/" + path.name)


SAVES = [in_place, truncate_then_write, editor_rename, backup_then_create, sed, through_a_link]


@pytest.mark.parametrize("save", SAVES, ids=lambda save: save.__name__)
async def test_a_save_is_applied(site, save):
    site.script("m")
    async with serving(site, {"m": {}}) as live:
        for generation, name in enumerate(["one", "two", "three"], start=2):
            save(site.file, site.text({"m": {}, name: {"source": "fake:m.yaml"}}) + "\n")
            await live.applied(generation)
            assert name in live.running.deployment.models
            assert await answer(live.supervisor, live.running.deployment, name, text=name) == name


async def test_a_link_to_the_file_is_followed(site, tmp_path_factory):
    elsewhere = tmp_path_factory.mktemp("elsewhere") / "real.yaml"
    site.script("m")
    elsewhere.write_text(site.text({"m": {}}))
    site.file.symlink_to(elsewhere)
    running = Running(site.read())
    async with site.supervisor() as supervisor:
        await supervisor.apply(running.deployment)
        live = Live(site, running, supervisor, [])
        task = asyncio.create_task(live.reloader.run())
        await live.reloader.reload()
        elsewhere.write_text(site.text({"m": {}, "new": {"source": "fake:m.yaml"}}))
        await live.applied(2)
        task.cancel()
        await asyncio.wait([task])


BROKEN = "version: 1\nmodels:\n  m: {source: 'fake:m.yaml', idel_unload: 2h}\n"


@pytest.mark.parametrize(
    "broken, says",
    [
        pytest.param(BROKEN, "did you mean", id="an unknown key"),
        pytest.param("version: 1\nmodels: [", ":2:", id="no YAML"),
        pytest.param("", "deploy.yaml:1", id="an empty file"),
        pytest.param(None, "cannot be read", id="no file"),
    ],
)
async def test_a_broken_save_keeps_the_old_deployment_and_says_why_once(site, broken, says):
    site.script("m")
    async with serving(site, {"m": {}}) as live:
        before = live.running.deployment
        if broken is None:
            site.file.unlink()
        else:
            site.file.write_text(broken)
        await live.until(lambda: live.reloader.last.status == "rejected")
        assert live.running.deployment is before
        assert live.running.generation == 1
        assert await answer(live.supervisor, before) == "hello"
        [shown] = live.shown
        assert says in shown
        site.file.write_text(site.text({"m": {}, "new": {"source": "fake:m.yaml"}}))
        await live.until(lambda: live.reloader.last.status == "applied")


async def test_a_comment_does_not_make_a_generation(site):
    site.script("m")
    async with serving(site, {"m": {}}) as live:
        before = live.running.deployment.digest
        site.file.write_text(site.file.read_text() + "\n# a comment\n")
        await live.until(lambda: live.running.deployment.digest != before)
        assert live.running.generation == 1


async def test_a_running_stream_is_untouched_and_a_removed_model_is_unknown(site):
    site.script("m", text="one two three four five six seven eight nine ten", step_ms=20)
    site.script("n")
    async with serving(site, {"m": {}, "n": {}}) as live:
        begun = asyncio.Event()
        stream = asyncio.create_task(
            answer(
                live.supervisor,
                live.running.deployment,
                seen=lambda event: begun.set() if isinstance(event, TextDelta) else None,
            )
        )
        await begun.wait()
        before = live.running.deployment
        site.file.write_text(site.text({"n": {}}))
        await live.applied(2)
        with pytest.raises(UnknownModel):
            await answer(live.supervisor, before, "m")
        assert await stream == "one two three four five six seven eight nine ten"


async def test_a_hangup_signal_reads_the_file_even_where_it_is_not_watched(site):
    site.script("m")
    async with serving(site, {"m": {}}, server={"reload": {"watch": False}}) as live:
        site.file.write_text(site.text({"m": {}, "new": {"source": "fake:m.yaml"}}))
        os.kill(os.getpid(), signal.SIGHUP)
        await live.applied(2)


async def test_asking_for_a_reload_answers_what_became_of_it(site):
    site.script("m")
    async with serving(site, {"m": {}}, server={"reload": {"watch": False, "quiet": "10ms"}}) as live:
        assert (await live.reloader.reload()).status == "unchanged"
        site.file.write_text(site.text({"m": {}, "new": {"source": "fake:m.yaml"}}))
        outcome = await live.reloader.reload()
        assert (outcome.status, outcome.generation) == ("applied", 2)
        site.file.write_text(BROKEN)
        outcome = await live.reloader.reload()
        assert (outcome.status, outcome.generation) == ("rejected", 2)
        assert [problem.line for problem in outcome.problems] == [3]


async def test_what_only_a_restart_can_apply_is_said_and_the_rest_is_applied(site):
    site.script("m")
    listen = {"server": {"listen": "127.0.0.1:8080"}}
    async with serving(site, {"m": {}}, **listen) as live:
        site.file.write_text(site.text({"m": {}, "new": {"source": "fake:m.yaml"}}, server={"listen": "127.0.0.1:1"}))
        await live.applied(2)
        assert live.running.pending_restart == ("server.listen",)
        assert await answer(live.supervisor, live.running.deployment, "new") == "hello"
        site.file.write_text(site.text({"m": {}}, **listen))
        await live.applied(3)
        assert live.running.pending_restart == ()
