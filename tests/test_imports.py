"""Who may import whom, and what the server process never loads."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent / "appliance"

LAYERS: dict[str, set[str]] = {
    "errors": set(),
    "vocab": {"errors"},
    "log": {"errors"},
    "config": {"vocab", "errors"},
    "wire": {"vocab", "errors"},
    "text": {"vocab", "errors"},
    "grammar": {"vocab", "errors"},
    "protocols": {"vocab", "errors"},
    "models": {"config", "vocab", "errors", "log"},
    "convert": {"config", "vocab", "errors"},
    "control": {"config", "wire", "protocols", "grammar", "models", "vocab", "errors", "log"},
    "engine": {"wire", "text", "grammar", "vocab", "errors", "log"},
    "engine.mlx": {"engine", "text", "vocab", "errors", "log"},
    "server": {"control", "protocols", "config", "vocab", "errors", "log"},
    "bench": {"protocols", "vocab", "errors", "log"},
    "cli": {
        "errors", "vocab", "log", "config", "wire", "text", "grammar", "protocols", "models", "control", "server",
        "bench", "convert",
    },
}  # fmt: skip
"""Layer to the layers it may import; itself always."""

THIRD: dict[str, set[str]] = {
    "msgspec": {
        "vocab",
        "wire",
        "text",
        "protocols",
        "control",
        "server",
        "engine",
        "engine.mlx",
        "config",
        "models",
    },
    "sanic": {"server"},
    "mlx": {"engine.mlx"},
    "mlx_lm": {"engine.mlx"},
    "transformers": {"engine.mlx"},
    "huggingface_hub": {"models"},
    "httpx": {"models", "control", "bench", "cli"},
    "watchfiles": {"control"},
    "yaml": {"config", "convert", "engine"},
    "jsonschema": {"config"},
    "jinja2": {"text"},
    "llguidance": {"grammar", "engine.mlx"},
    "structlog": {"log"},
    "uvloop": {"cli"},
    "typer": {"cli"},
    "rich": {"cli"},
    "numpy": {"engine.mlx", "models"},
}
"""Third-party package to the layers that may import it."""

PURE = [
    "errors.py", "vocab", "wire", "text", "grammar", "protocols", "config/[!l]*.py", "control/registry.py",
    "control/rules.py", "control/overrides.py", "control/loads.py", "control/ledger.py", "control/attention.py",
    "control/activations.py",
    "control/demand.py", "control/status.py",
    "control/eviction.py", "control/residency.py", "control/recurrence.py", "control/rollback.py", "control/turns.py",
    "control/speech.py", "control/suspicion.py", "control/watchdog.py", "control/failures.py", "engine/scheduler.py",
    "engine/prefix_cache.py", "engine/lookup.py", "engine/drafting.py", "engine/speculation.py",
    "engine/sequence.py", "engine/grouping.py", "engine/speed.py", "engine/ledger.py", "engine/borders.py",
    "server/metrics.py", "server/cards.py", "server/submission.py", "server/dashboard.py",
]  # fmt: skip
IMPURE_MODULES = {"asyncio", "time", "os", "socket", "logging", "threading", "subprocess", "random"}


def modules() -> list[Path]:
    return sorted(ROOT.rglob("*.py"))


def layer_of(dotted: str) -> str:
    """`appliance.engine.mlx.batch` is in layer `engine.mlx`."""
    parts = dotted.split(".")[1:]
    if parts[:2] == ["engine", "mlx"]:
        return "engine.mlx"
    return parts[0] if parts else ""


def dotted(path: Path) -> str:
    return ".".join(path.relative_to(ROOT.parent).with_suffix("").parts).removesuffix(".__init__")


def imported(path: Path) -> Iterator[str]:
    """Every module a file imports, function bodies included; `from appliance import log` is `appliance.log`."""
    for node in ast.walk(ast.parse(path.read_text())):
        match node:
            case ast.Import(names=names):
                yield from (name.name for name in names)
            case ast.ImportFrom(module=str(module), level=0, names=names):
                yield from (f"{module}.{name.name}" for name in names) if module == "appliance" else [module]
            case ast.ImportFrom(level=level) if level:
                raise AssertionError(f"{path}: relative imports hide the layer")


def test_imports_follow_the_arrows() -> None:
    wrong = []
    for path in modules():
        here = layer_of(dotted(path))
        if here in ("", "__main__"):
            continue
        for name in imported(path):
            top = name.split(".")[0]
            if top == "appliance":
                there = layer_of(name)
                if there not in LAYERS.get(here, set()) | {here, "__version__", ""}:
                    wrong.append(f"{dotted(path)} imports {name}")
            elif top in THIRD and here not in THIRD[top]:
                wrong.append(f"{dotted(path)} imports {name}")
    assert not wrong


def test_every_layer_is_known() -> None:
    here = {layer_of(dotted(path)) for path in modules()} - {"", "__main__"}
    assert here <= set(LAYERS)


@pytest.mark.parametrize("place", PURE)
def test_pure_modules_touch_nothing_outside(place: str) -> None:
    found = [p for match in ROOT.glob(place) for p in ([match] if match.is_file() else match.rglob("*.py"))]
    wrong = [f"{p}: {n}" for p in found for n in imported(p) if n.split(".")[0] in IMPURE_MODULES]
    assert not wrong


def test_modules_that_call_themselves_pure_touch_nothing_outside() -> None:
    found = [p for p in modules() if "PURE" in (ast.get_docstring(ast.parse(p.read_text())) or "")]
    assert len(found) > 50
    assert not [f"{p}: {n}" for p in found for n in imported(p) if n.split(".")[0] in IMPURE_MODULES]


def test_the_server_process_loads_no_model_code() -> None:
    program = (
        "import sys, appliance.server.app, appliance.cli.up;"
        "print(sorted({'mlx', 'mlx_lm', 'transformers', 'torch', 'numpy'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
