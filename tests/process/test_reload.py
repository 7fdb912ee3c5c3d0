"""Saving the deploy file in every way people and tools do it."""

import asyncio
import os
import signal
import subprocess
from contextlib import asynccontextmanager

import pytest

from appliance.config import load
from appliance.control.reload import Reloader
from appliance.control.running import Running
from appliance.errors import GenerationMoved, StalePlan, UnknownModel
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


def in_three_chunks(path, text):
    with path.open("w") as opened:
        for start in range(0, len(text), len(text) // 3 + 1):
            opened.write(text[start : start + len(text) // 3 + 1])
            opened.flush()
            os.fsync(opened.fileno())


def delete_then_create(path, text):
    path.unlink()
    path.write_text(text)


def as_vim_does(path, text):
    """Its defaults: try whether the directory takes files, move the old one away, write the new, remove the old."""
    attempt, backup = path.with_name("4913"), path.with_name(f"{path.name}~")
    attempt.touch()
    attempt.unlink()
    path.rename(backup)
    path.write_text(text)
    backup.unlink()


def fifty_times(path, text):
    for number in range(50):
        path.write_text(text if number == 49 else text[: len(text) * number // 49])


SAVES = [
    in_place, truncate_then_write, in_three_chunks, editor_rename, as_vim_does, backup_then_create,
    delete_then_create, fifty_times, sed, through_a_link,
]  # fmt: skip


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


async def test_a_save_of_the_same_size_and_time_is_seen(site):
    site.script("m")
    async with serving(site, {"m": {}, "one": {"source": "fake:m.yaml"}}) as live:
        stat = site.file.stat()
        text = site.text({"m": {}, "two": {"source": "fake:m.yaml"}})
        site.file.write_text(text)
        os.utime(site.file, ns=(stat.st_atime_ns, stat.st_mtime_ns))
        assert site.file.stat().st_size == stat.st_size
        await live.applied(2)
        assert "two" in live.running.deployment.models


async def test_fifty_saves_in_a_second_are_few_generations_and_the_last_one_runs(site):
    site.script("m")
    async with serving(site, {"m": {}}) as live:
        for number in range(50):
            site.file.write_text(site.text({"m": {}, f"m{number}": {"source": "fake:m.yaml"}}))
            await asyncio.sleep(0.02)
        await live.until(lambda: "m49" in live.running.deployment.models)
        assert live.running.generation < 10


async def test_an_include_that_appears_changes_and_goes_is_followed(site):
    site.script("m")
    (site.directory / "conf.d").mkdir()
    more = site.directory / "conf.d" / "more.yaml"
    async with serving(site, {"m": {}}, include=["conf.d/*.yaml"]) as live:
        more.write_text("models: {one: {source: 'fake:../m.yaml'}}\n")
        await live.until(lambda: "one" in live.running.deployment.models)
        more.write_text("models: {two: {source: 'fake:../m.yaml'}}\n")
        await live.until(lambda: "two" in live.running.deployment.models)
        more.write_text("models: {two: {sorce: 'fake:../m.yaml'}}\n")
        await live.until(lambda: live.running.last.status == "rejected")
        assert "two" in live.running.deployment.models
        more.unlink()
        await live.until(lambda: set(live.running.deployment.models) == {"m"})
        assert live.running.generation == 4


async def test_what_a_refused_file_names_is_watched_too(site):
    site.script("m")
    async with serving(site, {"m": {}}) as live:
        more = site.directory / "more.yaml"
        more.write_text("models: {new: {sorce: 'fake:m.yaml'}}\n")
        site.file.write_text(site.text({"m": {}}, include=["more.yaml"]))
        await live.until(lambda: live.running.last.status == "rejected")
        more.write_text("models: {new: {source: 'fake:m.yaml'}}\n")
        await live.applied(2)
        assert "new" in live.running.deployment.models
        assert live.running.matches


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
        await live.until(lambda: live.running.last.status == "rejected")
        assert live.running.deployment is before
        assert live.running.generation == 1
        assert await answer(live.supervisor, before) == "hello"
        [shown] = live.shown
        assert says in shown
        site.file.write_text(site.text({"m": {}, "new": {"source": "fake:m.yaml"}}))
        await live.until(lambda: live.running.last.status == "applied")


async def test_the_old_text_coming_back_after_a_broken_save_is_no_new_generation(site):
    site.script("m")
    async with serving(site, {"m": {}}) as live:
        good = site.file.read_text()
        site.file.write_text(BROKEN)
        await live.until(lambda: live.running.last.status == "rejected")
        assert not live.running.matches
        site.file.write_text(good)
        await live.until(lambda: live.running.last.status == "unchanged")
        assert live.running.matches
        assert live.running.generation == 1


async def test_every_generation_is_kept_before_it_runs(site):
    site.script("m")
    async with serving(site, {"m": {}}) as live:
        for number in (2, 3):
            site.file.write_text(site.text({"m": {}, f"m{number}": {"source": "fake:m.yaml"}}))
            await live.applied(number)
            kept = live.journal.newest()
            assert (kept.number, kept.cause) == (number, "file")
            assert kept.digest == live.running.deployment.digest
            assert kept.held == live.running.deployment.sources


async def test_a_generation_that_cannot_be_kept_is_served_all_the_same(site):
    site.script("m")
    async with serving(site, {"m": {}}) as live:
        (site.directory / "generations").rmdir()
        site.file.write_text(site.text({"m": {}, "new": {"source": "fake:m.yaml"}}))
        await live.applied(2)
        assert await answer(live.supervisor, live.running.deployment, "new") == "hello"


async def test_a_rollback_brings_includes_back_and_stays_until_a_save(site):
    site.script("m")
    (site.directory / "conf.d").mkdir()
    more = site.directory / "conf.d" / "more.yaml"
    more.write_text("models: {one: {source: 'fake:../m.yaml'}}\n")
    async with serving(site, {"m": {}}, include=["conf.d/*.yaml"]) as live:
        await live.reloader.reload()
        (site.directory / "conf.d" / "other.yaml").write_text("models: {two: {source: 'fake:../m.yaml'}}\n")
        await live.applied(2)
        more.unlink()
        await live.applied(3)
        assert set(live.running.deployment.models) == {"m", "two"}
        outcome = await live.reloader.rollback(2)
        assert (outcome.status, outcome.generation) == ("applied", 4)
        assert set(live.running.deployment.models) == {"m", "one", "two"}
        assert not live.running.matches
        assert (await live.reloader.rollback(3)).status == "applied"
        assert live.running.matches, "that is what the files say"
        await live.reloader.rollback(2)
        await live.reloader.refresh()
        assert live.running.generation == 6, "model files that come do not undo it"
        site.file.write_text(site.file.read_text() + "\n")
        await live.applied(7)
        assert set(live.running.deployment.models) == {"m", "two"}


async def test_only_the_plan_that_was_made_is_carried_out(site):
    site.script("m")
    async with serving(site, {"m": {}}, server={"reload": {"watch": False}}) as live:
        text = site.text({"m": {}, "new": {"source": "fake:m.yaml"}}, server={"reload": {"watch": False}})
        assert (await live.reloader.propose(text.encode())).plan
        site.file.write_text(text)
        proposal = await live.reloader.propose()
        site.file.write_text(text + "\n")
        with pytest.raises(StalePlan):
            await live.reloader.reload_if(plan=proposal.id)
        site.file.write_text(text)
        with pytest.raises(GenerationMoved):
            await live.reloader.reload_if(base=7, plan=proposal.id)
        assert (await live.reloader.reload_if(base=1, plan=proposal.id)).status == "applied"


async def test_a_document_is_compared_with_its_includes(site):
    site.script("m")
    (site.directory / "more.yaml").write_text("models: {one: {source: 'fake:m.yaml'}}\n")
    async with serving(site, {"m": {}}, include=["more.yaml"]) as live:
        proposal = await live.reloader.propose(site.file.read_bytes())
        assert not proposal.plan


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


async def test_a_save_while_an_old_engine_drains_is_applied_and_the_stream_ends_whole(site):
    text = "one two three four five six seven eight nine ten"
    site.script("m", text=text, step_ms=100)
    async with serving(site, {"m": {}}) as live:
        begun = asyncio.Event()
        stream = asyncio.create_task(
            answer(
                live.supervisor,
                live.running.deployment,
                seen=lambda event: begun.set() if isinstance(event, TextDelta) else None,
            )
        )
        await begun.wait()
        site.file.write_text(site.text({"m": {"dtype": "float32"}}))
        await live.applied(2)
        assert not stream.done()
        site.file.write_text(site.text({"m": {"dtype": "float16"}, "new": {"source": "fake:m.yaml"}}))
        await live.applied(3)
        assert not stream.done()
        assert await stream == text
        assert await answer(live.supervisor, live.running.deployment, "m") == text


async def test_a_family_of_ones_own_is_followed_from_the_first(site, monkeypatch):
    """The directory of a user's family files need not be there when the appliance starts."""
    home = site.directory / "home"
    monkeypatch.setenv("APPLIANCE_HOME", str(home))
    shipped = dict(load.family_texts())["qwen3.yaml"]
    mine = home / "profiles" / "mine.yaml"
    site.script("m")
    async with serving(site, {"m": {"family": "qwen3"}}) as live:
        mine.parent.mkdir(parents=True)
        mine.write_text(shipped.replace("sampling:", "sampling: {top_k: 7}\nx-sampling:", 1))
        await live.applied(2)
        mine.write_text("family: [")
        await live.until(lambda: live.running.last.status == "rejected")
        mine.unlink()
        await live.applied(3)
