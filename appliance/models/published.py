"""Whether a hub has what a source names, and how large its weights are: asked, nothing fetched."""

from appliance.config.deployment import Source
from appliance.errors import SourceError
from appliance.models.hub import explained

_PATIENCE = 20.0


def weights(source: Source) -> int:
    """Bytes of the repository's weights at the revision. Raises SourceError: not `permanent` where the hub could not
    be asked.
    """
    from huggingface_hub import HfApi

    with explained(source):
        found = HfApi().model_info(source.ref, revision=source.revision, files_metadata=True, timeout=_PATIENCE)
    files = {file.rfilename: file.size or 0 for file in found.siblings or ()}
    size = sum(size for name, size in files.items() if name.endswith(".safetensors") and "/" not in name)
    if "config.json" not in files or not size:
        raise SourceError(f"hf:{source.ref} is no model: it lacks config.json or *.safetensors")
    return size
