"""What is said of a checkpoint that cannot be loaded: clients see it, so it says nothing of where that is."""

from pathlib import Path

from appliance.errors import LoadFailed


def refused(directory: Path, what: str, error: Exception) -> LoadFailed:
    """`what` of the checkpoint failed, for a reason that lasts."""
    said = str(error)
    if "trust_remote_code" in said:
        said = "it brings code of its own, which runs only with `trust_remote_code: true` under this model"
    for path in (str(directory.resolve()), str(directory)):
        said = said.replace(path, directory.name)
    return LoadFailed(f"{directory.name}: {what}: {said}", permanent=True)
