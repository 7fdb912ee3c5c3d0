"""A deployment as a deploy file that says everything: for people to read, with secrets covered. PURE."""

from collections.abc import Mapping
from typing import Any

import yaml

from appliance.config.deployment import Deployment
from appliance.config.problem import Path
from appliance.config.settings import settings


def resolved_tree(deployment: Deployment) -> dict[str, Any]:
    """Every setting in its place, in JSON's types; what is nothing is left out."""
    out = _nested({path: setting.data for path, setting in settings(deployment).items()})
    if "hooks" in out:
        out["hooks"] = list(out["hooks"].values())
    if "rules" in out.get("routing", {}):
        rules = out["routing"]["rules"].items()
        out["routing"]["rules"] = [
            {"name": name} | {key: value for key, value in rule.items() if key != "place"} for name, rule in rules
        ]
    return out


def as_yaml(tree: Mapping[str, Any]) -> str:
    return yaml.safe_dump(dict(tree), sort_keys=False, allow_unicode=True, width=110)


def _nested(values: Mapping[Path, Any]) -> dict[str, Any]:
    out: dict[str, Any] = {"version": 1}
    for path, value in values.items():
        if value is None or value == []:
            continue
        into: dict[Any, Any] = out
        for part in path[:-1]:
            into = into.setdefault(part, {})
        into[path[-1]] = value
    return out
