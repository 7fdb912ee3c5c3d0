"""Model repositories of the Hugging Face hub, fetched by its own client into its own cache."""

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from appliance.config.deployment import Source
from appliance.errors import SourceError
from appliance.models.blobs import fetch_large
from appliance.models.disk import check_room
from appliance.models.progress import Report
from appliance.models.store import Store, complete

if TYPE_CHECKING:
    from huggingface_hub import DryRunFileInfo

_NEEDED = ["*.safetensors", "*.json", "*.jinja", "tokenizer*", "*.model", "*.tiktoken", "*.txt", "*.py"]
# Other formats of the same weights, and what stands in directories but templates, would be fetched for nothing.
_NOT_NEEDED = ["consolidated*", "*.bin", "*.pt", "*.pth"]
_TEMPLATES = "additional_chat_templates/"
_LOOK_EVERY = 0.25


def fetch(source: Source, store: Store, report: Report) -> None:
    """Bring the repository into the hub's cache; what a broken off download left is used."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.utils import disable_progress_bars

    disable_progress_bars()
    unfinished = store.unfinished(source)
    with explained(source):
        files = _wanted_files(source, store)
        missing = [file for file in files if not file.is_cached]
        check_room(store.hub, sum(file.file_size or 0 for file in missing))
        unfinished.parent.mkdir(parents=True, exist_ok=True)
        unfinished.touch()
        blobs = store.hub / f"models--{source.ref.replace('/', '--')}" / "blobs"
        with _watched(missing, blobs, report):
            fetch_large(missing, source, blobs)
            path = snapshot_download(
                source.ref,
                revision=source.revision,
                cache_dir=store.hub,
                allow_patterns=[file.filename for file in files],
            )
    if not complete(Path(path)):
        raise SourceError(f"hf:{source.ref} is incomplete: its index names weight files it does not have")
    unfinished.unlink()


def _wanted_files(source: Source, store: Store) -> "list[DryRunFileInfo]":
    from huggingface_hub import list_repo_files, snapshot_download

    files = snapshot_download(
        source.ref,
        revision=source.revision,
        cache_dir=store.hub,
        allow_patterns=_NEEDED,
        ignore_patterns=_NOT_NEEDED,
        dry_run=True,
    )
    files = [file for file in files if "/" not in file.filename.removeprefix(_TEMPLATES)]
    names = {file.filename for file in files}
    if "config.json" not in names or not any(name.endswith(".safetensors") for name in names):
        raise _no_model(source, list_repo_files(source.ref, revision=source.revision))
    return files


def _no_model(source: Source, names: Iterable[str]) -> SourceError:
    for suffix, advice in (
        (".gguf", "fetch one of its GGUF files and name that file as the source"),
        ((".bin", ".pt", ".pth"), "pickled weights are not loaded; look for a safetensors version"),
    ):
        if found := next((name for name in names if name.endswith(suffix)), None):
            return SourceError(f"hf:{source.ref} has no safetensors weights, only {found}: {advice}")
    return SourceError(f"hf:{source.ref} is no model: it lacks config.json or *.safetensors")


@contextmanager
def _watched(missing: "list[DryRunFileInfo]", blobs: Path, report: Report) -> Iterator[None]:
    """Report the bytes that have reached the disk, while threads bring them."""
    total = sum(file.file_size or 0 for file in missing)
    before = _bytes_in(blobs, finished_only=True)
    done = threading.Event()

    def watch() -> None:
        while not done.wait(_LOOK_EVERY):
            report("download", min(total, max(0, _bytes_in(blobs) - before)), total)

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        done.set()
        watcher.join()
    report("download", total, total)


def _bytes_in(blobs: Path, *, finished_only: bool = False) -> int:
    sizes = 0
    for blob in blobs.glob("*"):
        if finished_only and blob.suffix == ".incomplete":
            continue
        try:
            sizes += blob.stat().st_size
        except FileNotFoundError:  # renamed between listing and asking
            continue
    return sizes


@contextmanager
def explained(source: Source) -> Iterator[None]:
    """Turn the client's errors into ours: what is wrong, whether a retry can help, what to do."""
    from huggingface_hub import errors

    known: tuple[tuple[type[BaseException], Callable[[BaseException], SourceError]], ...] = (
        (errors.GatedRepoError, lambda _: SourceError(
            f"hf:{source.ref} is gated: accept its terms at https://huggingface.co/{source.ref}, then run "
            f"`hf auth login` or set HF_TOKEN")),
        (errors.RepositoryNotFoundError, lambda _: SourceError(
            f"hf:{source.ref} does not exist or is private: check the spelling, or set HF_TOKEN to a token that may "
            f"read it")),
        (errors.RevisionNotFoundError, lambda _: SourceError(
            f"hf:{source.ref} has no revision `{source.revision}`: name a branch, a tag or a commit it has")),
        (errors.OfflineModeIsEnabled, lambda _: SourceError(
            f"hf:{source.ref} is not in the cache and HF_HUB_OFFLINE is set: unset it, or fetch the model before",
            permanent=False)),
        (errors.HfHubHTTPError, lambda error: SourceError(
            f"the hub did not give hf:{source.ref}: {str(error).splitlines()[0]}", permanent=False)),
        (errors.HTTPError, lambda error: SourceError(
            f"cannot reach the hub for hf:{source.ref} ({type(error).__name__}): check the network and try again; "
            f"what was fetched is kept", permanent=False)),
        (errors.LocalEntryNotFoundError, lambda _: SourceError(
            f"cannot reach the hub for hf:{source.ref}: check the network and try again; what was fetched is kept",
            permanent=False)),
    )  # fmt: skip
    try:
        yield
    except (errors.DryRunError, errors.HTTPError, errors.EntryNotFoundError, ConnectionError) as error:
        causes = _chain(error)
        for kind, explain in known:
            if cause := next((cause for cause in causes if isinstance(cause, kind)), None):
                raise explain(cause) from error
        raise SourceError(f"hf:{source.ref} cannot be fetched: {error}", permanent=False) from error


def _chain(error: BaseException | None) -> list[BaseException]:
    """The client wraps the reason in what it could not do: all of them, the outermost first."""
    return [] if error is None else [error, *_chain(error.__cause__)]
