"""Every flag of the serving commands has a key of ours or the reason why there is none."""

import ast
from importlib.util import find_spec
from pathlib import Path

import pytest

from appliance.config import load
from appliance.convert.files import llama_swap, mlx_openai_server, modelfile, vllm_registry
from appliance.convert.target import Key, Part, Reason, Table
from appliance.convert.tools.all import TOOLS

FLAGS = Path(__file__).parent / "flags"

TABLES: dict[str, Table] = {
    **{name: tool.table for name, tool in TOOLS.items()},
    "llama-swap": llama_swap.TOP,
    "llama-swap model": llama_swap.MODEL,
    "Modelfile parameter": modelfile.PARAMETERS,
    "Modelfile instruction": modelfile.INSTRUCTIONS,
    "mlx-openai-server": mlx_openai_server.SERVER,
    "mlx-openai-server model": mlx_openai_server.ENTRY,
    "vllm-mlx manager": vllm_registry.MANAGER,
    "vllm-mlx model": vllm_registry.ENTRY,
}
ROWS = [(table, name) for table, rows in TABLES.items() for name in rows]


def flags_of_mlx_lm() -> set[str]:
    """Every argument of the installed `mlx_lm.server`, read from its source without running it."""
    package = find_spec("mlx_lm")
    assert package and package.submodule_search_locations
    tree = ast.parse((Path(package.submodule_search_locations[0]) / "server.py").read_text())
    calls = (node for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute))
    names = (call.args[0] for call in calls if call.func.attr == "add_argument")  # type: ignore[attr-defined]
    return {name.value for name in names if isinstance(name, ast.Constant)}


@pytest.mark.parametrize("tool", ["rapid-mlx", "vllm-mlx", "max"])
def test_the_table_has_every_flag_and_no_other(tool: str) -> None:
    lines = (FLAGS / f"{tool}.txt").read_text().splitlines()
    assert {line for line in lines if not line.startswith("#")} == set(TOOLS[tool].table)


def test_the_table_of_mlx_lm_has_every_flag_of_the_installed_one() -> None:
    assert flags_of_mlx_lm() == set(TOOLS["mlx_lm.server"].table)


def known_path(path: str) -> bool:
    """Whether the language has a key; where an object is free (template variables), any key below it."""
    schema = load.schema("deploy")
    at = schema.resolve(schema.root)
    for part in path.replace("M", "models.any", 1).split(".") if path.startswith("M.") else path.split("."):
        objects = [at, *map(schema.resolve, at.get("anyOf", ()))]
        below = next((found for found in (schema.below(o, part) for o in objects) if found is not None), None)
        if below is None:
            return any(o.get("x-free") or o.get("additionalProperties") is True for o in objects)
        at = below
    return True


@pytest.mark.parametrize(("table", "name"), ROWS, ids=[f"{table}: {name}" for table, name in ROWS])
def test_a_row_names_a_key_of_the_language_or_gives_a_reason(table: str, name: str) -> None:
    match TABLES[table][name].to:
        case Key(path) | Part(path):
            assert known_path(path), f"there is no {path}"
        case Reason(text):
            assert len(text.split()) >= 3
