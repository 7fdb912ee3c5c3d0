"""A deploy file to the deployment it is on this machine."""

import os
from collections.abc import Mapping
from pathlib import Path

from appliance.config import load
from appliance.config.deployment import EMPTY, Deployment
from appliance.models.inspect import inspect_source
from appliance.models.store import Store


def read(file: Path, held: Mapping[str, bytes] = EMPTY, document: bytes | None = None) -> Deployment:
    """Files of `held`, by absolute path, are not looked for on disk; `document` takes the place of the file itself.
    Raises Rejected.
    """
    store = Store()
    return load.read(
        file,
        environ=os.environ,
        inspect=lambda source, storage: inspect_source(source, store, storage),
        memory_bytes=load.machine_memory(),
        held=held,
        document=document,
    )
