"""What conversions know in tests, and whether a converted text really is a good deploy file."""

from pathlib import Path

from appliance.config import load
from appliance.config.deployment import Deployment
from appliance.convert import kinds
from appliance.convert.kinds import Converted
from appliance.convert.source import Known

_FILES = ("models/here/config.json", "models/x.gguf", "template.jinja", "prompts.json")
_ADAPTERS = ("adapters", "lora.bin", "loras/sql", "loras/chat")

CATALOGUE = frozenset(load.families().catalogue)
KNOWN = Known(load.schema("deploy"), CATALOGUE, lambda path: path == "models/here")


def converted(given: str) -> Converted:
    """A file's text, or after `$ ` a command line."""
    if given.startswith("$ "):
        return kinds.from_command([given[2:].strip().replace("\\\n", " ")], None, KNOWN)
    return kinds.from_file(given, "given", None, KNOWN)


def deployment(text: str, directory: Path) -> Deployment:
    """The deployment of a text; local files it names are made first. Raises Rejected."""
    for name in (*_FILES, *(f"{adapter}/adapter_config.json" for adapter in _ADAPTERS)):
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("{}")
    file = directory / "deploy.yaml"
    file.write_text(text, encoding="utf-8")
    environ = {
        "HOME": str(directory),
        "APPLIANCE_KEY": "k",
        "APPLIANCE_KEY_1": "one",
        "CLOUD_KEY": "k",
        "OTHER_KEY": "other",
    }
    return load.read(file, environ=environ, inspect=lambda *_: None, memory_bytes=64 * 2**30)
