"""Which files belong to a deployment, and when they have changed."""

from pathlib import Path

import pytest

from appliance.config import load
from appliance.config.deployment import Deployment
from appliance.config.problem import Rejected
from tests.config import golden

TEXT = "version: 1\ninclude: [conf.d/*.yaml]\nmodels: {demo: {source: smollm2-135m}}\n"


@pytest.fixture
def including(here: Path) -> Deployment:
    return golden.read(TEXT + "# file: conf.d/a.yaml\naliases: {fast: demo}\n")


def test_the_directory_of_a_glob_and_the_files_in_it_belong_to_the_deployment(
    including: Deployment, here: Path
) -> None:
    read = {str(here / name) for name in ("deploy.yaml", "conf.d", "conf.d/a.yaml")}
    assert set(including.files) == {*read, golden.OWN_FAMILIES}
    assert set(including.sources) == read


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda d: (d / "b.yaml").write_text("aliases: {slow: demo}\n"), id="another file appears"),
        pytest.param(lambda d: (d / "a.yaml").unlink(), id="a file disappears"),
        pytest.param(lambda d: (d / "a.yaml").rename(d / "c.yaml"), id="a file is renamed"),
        pytest.param(lambda d: (d / "a.yaml").write_text("aliases: {fast: demo }\n"), id="a file is written"),
    ],
)
def test_a_change_of_the_included_files_is_another_digest(including: Deployment, here: Path, change) -> None:  # type: ignore[no-untyped-def]
    assert load.digest(including.files) == including.digest
    change(here / "conf.d")
    assert load.digest(including.files) != including.digest


def test_a_directory_that_is_not_there_yet_is_watched_for(here: Path) -> None:
    deployment = golden.read(TEXT)
    assert str(here / "conf.d") in deployment.files
    before = load.digest(deployment.files)
    (here / "conf.d").mkdir()
    (here / "conf.d/a.yaml").write_text("aliases: {fast: demo}\n")
    assert load.digest(deployment.files) != before
    assert load.read(here / "deploy.yaml", environ={}, inspect=golden.inspect, memory_bytes=golden.GIB).aliases


def test_what_was_kept_is_read_again_without_the_disk(including: Deployment, here: Path) -> None:
    for name in ("deploy.yaml", "conf.d/a.yaml"):
        (here / name).unlink()
    (here / "conf.d/other.yaml").write_text("models: {new: {source: smollm2-135m}}\n")
    again = load.read(
        Path("deploy.yaml"),
        environ=golden.ENVIRON,
        inspect=golden.inspect,
        memory_bytes=16 * golden.GIB,
        held=including.sources,
    )
    assert again == including
    assert again.digest == including.digest


def test_what_was_kept_when_nothing_was_included_includes_nothing(here: Path) -> None:
    kept = golden.read(TEXT)
    (here / "conf.d").mkdir()
    (here / "conf.d/new.yaml").write_text("models: {new: {source: smollm2-135m}}\n")
    again = load.read(
        Path("deploy.yaml"),
        environ=golden.ENVIRON,
        inspect=golden.inspect,
        memory_bytes=16 * golden.GIB,
        held=kept.sources,
    )
    assert again == kept
    assert again.digest == kept.digest


def test_another_text_of_the_first_file_includes_what_is_on_disk(including: Deployment, here: Path) -> None:
    proposed = load.read(
        Path("deploy.yaml"),
        environ=golden.ENVIRON,
        inspect=golden.inspect,
        memory_bytes=16 * golden.GIB,
        held={str(here / "deploy.yaml"): (TEXT + "server: {heartbeat: 3s}\n").encode()},
    )
    assert proposed.aliases == including.aliases
    assert proposed.server.heartbeat == 3.0


def test_a_rejection_names_the_files_that_were_read(here: Path) -> None:
    with pytest.raises(Rejected) as rejected:
        golden.read(TEXT + "# file: conf.d/a.yaml\naliases: {fast: dmeo}\n")
    names = {Path(file).name for file in rejected.value.files if file != golden.OWN_FAMILIES}
    assert names == {"deploy.yaml", "conf.d", "a.yaml"}


def test_files_by_an_absolute_glob_are_shown_by_their_absolute_names(here: Path) -> None:
    with pytest.raises(Rejected) as rejected:
        golden.read(TEXT.replace("conf.d", f"{here}/conf.d") + "# file: conf.d/a.yaml\naliases: {fast: dmeo}\n")
    assert rejected.value.problems[0].file == str(here / "conf.d/a.yaml")
