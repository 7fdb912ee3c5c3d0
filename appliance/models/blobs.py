"""Puts the large files of a repository into the hub's cache, piece by piece.

The hub's own client begins a file anew in each process: a killed download would lose gigabytes. A finished file lies
where that client looks first, under the name of its digest.
"""

import hashlib
import re
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

from appliance.config.deployment import Source
from appliance.errors import SourceError

if TYPE_CHECKING:
    from huggingface_hub import DryRunFileInfo

LARGE = 32 * 2**20
_AT_ONCE = 4
_TRIES = 5
_SHA256 = re.compile(r"[0-9a-f]{64}")


def fetch_large(files: "list[DryRunFileInfo]", source: Source, blobs: Path) -> None:
    """Fetch those of `files` that are large. Raises SourceError, or the client's own errors."""
    large = [file for file in files if (file.file_size or 0) >= LARGE]
    stop = threading.Event()
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        try:
            for _ in pool.map(lambda file: _fetch(file, source, blobs, stop), large):
                pass
        finally:
            stop.set()


def _fetch(file: "DryRunFileInfo", source: Source, blobs: Path, stop: threading.Event) -> None:
    from huggingface_hub import get_hf_file_metadata, hf_hub_url

    url = hf_hub_url(source.ref, file.filename, revision=file.commit_hash)
    facts = get_hf_file_metadata(url)
    if facts.etag is None or facts.size is None or (blobs / facts.etag).exists():
        return
    blobs.mkdir(parents=True, exist_ok=True)
    part = blobs / f"{facts.etag}.part.incomplete"
    _complete(part, url, facts.size, stop)
    if stop.is_set():
        return
    if _SHA256.fullmatch(facts.etag) and _digest(part) != facts.etag:
        part.unlink()
        raise SourceError(f"{file.filename} of hf:{source.ref} arrived damaged; try again", permanent=False)
    part.rename(blobs / facts.etag)


def _complete(part: Path, url: str, size: int, stop: threading.Event) -> None:
    """Append what is missing; a connection that breaks is made again as long as each one brings something."""
    from huggingface_hub.errors import HTTPError

    failures = 0
    while (have := part.stat().st_size if part.exists() else 0) < size and not stop.is_set():
        try:
            _append(part, url, have, stop)
        except HTTPError as error:
            failures = 0 if part.exists() and part.stat().st_size > have else failures + 1
            if failures == _TRIES or getattr(error, "response", None) is not None:
                raise
            stop.wait(failures)
    if not stop.is_set() and part.stat().st_size > size:
        part.unlink()
        raise SourceError(f"{url} is longer than announced; try again", permanent=False)


def _append(part: Path, url: str, have: int, stop: threading.Event) -> None:
    from huggingface_hub.utils import build_hf_headers, get_session, hf_raise_for_status

    headers = build_hf_headers() | ({"Range": f"bytes={have}-"} if have else {})
    session: Any = get_session()
    with session.stream("GET", url, headers=headers, follow_redirects=True) as response:
        hf_raise_for_status(response)
        with part.open("ab" if response.status_code == 206 else "wb") as out:
            for block in response.iter_raw():
                out.write(block)
                if stop.is_set():
                    return


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
