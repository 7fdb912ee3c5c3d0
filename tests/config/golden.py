"""Golden cases: a file per case, parts divided by a line of `=`, the last part is what is expected.

`UPDATE_GOLDEN=1 pytest tests/config` writes the last part anew: read the difference before committing it.
"""

import os
import re
from collections.abc import Callable, Collection
from pathlib import Path

from appliance.config import load
from appliance.config.checkpoint import Checkpoint
from appliance.config.deployment import Deployment, Source
from appliance.errors import SourceError
from appliance.vocab.request import SamplingPatch

HERE = Path(__file__).parent
DIVIDER = "=" * 40
GIB = 2**30
ENVIRON = {"HOME": "/home/user", "EIGHT": "8", "EMPTY": "", "SECRET": "hunter2", "OFF": "false"}
OWN_FAMILIES = f"{ENVIRON['HOME']}/.appliance/profiles"
QWEN3 = "<|im_start|> enable_thinking <think> <tool_call> reasoning_content"


def checkpoint(weight_bytes: int = GIB, **values: object) -> Checkpoint:
    facts = {
        "model_type": "llama",
        "architectures": ("LlamaForCausalLM",),
        "template": "<|start_header_id|> <|eot_id|>",
        "generation": SamplingPatch(),
        "context": 8192,
        "repo": None,
    }
    return Checkpoint(weight_bytes=weight_bytes, **facts | values)  # type: ignore[arg-type]


CHECKPOINTS = {
    "test/qwen3": checkpoint(
        model_type="qwen3", template=QWEN3, generation=SamplingPatch(temperature=0.9, repetition_penalty=1.1)
    ),
    "test/unknown": checkpoint(model_type="zebra", template="{{ messages }}", generation=SamplingPatch(top_k=7)),
    "test/huge": checkpoint(30 * GIB),
    "test/five-gib": checkpoint(5 * GIB),
    "test/six-gib": checkpoint(6 * GIB),
}


def inspect(source: Source, storage: object = None) -> Checkpoint | None:
    if source.ref == "test/broken":
        raise SourceError("config.json is not JSON (line 1); fetch the model again")
    return CHECKPOINTS.get(source.ref)


def lay_out(directory: Path) -> None:
    """The files that cases name, always with the same times."""
    files = {
        "models/here/config.json": b"{}",
        "models/here/model.safetensors": b"weights",
        "models/here/README.md": b"nothing that decides the weights",
        "script.yaml": b"steps: []\n",
        "templates/big.jinja": b"{{ messages }}",
        "latin1.jinja": b"caf\xe9",
        "secret.txt": b"qwen3\n",
    }
    for name, content in files.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        os.utime(path, ns=(10**18, 10**18))


def read(text: str, *, tolerate: Collection[str] = ()) -> Deployment:
    """The deployment a text describes, as deploy.yaml in the working directory, on a machine with 16 GiB."""
    return examine(text, tolerate=tolerate).deployment


def examine(text: str, *, tolerate: Collection[str] = ()) -> load.Examined:
    """The same with the file it came from. A line `# file: NAME` begins another file."""
    first, *others = re.split(r"^# file: (.+)\n", text, flags=re.MULTILINE)
    Path("deploy.yaml").write_text(first, encoding="utf-8")
    for name, content in zip(others[::2], others[1::2], strict=True):
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text(content, encoding="utf-8")
    return load.examine(
        Path("deploy.yaml"), environ=ENVIRON, inspect=inspect, memory_bytes=16 * GIB, tolerate=tolerate
    )


def cases(kind: str) -> list[Path]:
    return sorted((HERE / kind).glob("*.yaml"))


def hold(case: Path, parts: int, outcome: Callable[..., str], here: Path) -> None:
    """The outcome of a case's first `parts` parts is its last part."""
    given = case.read_text(encoding="utf-8").split(f"{DIVIDER}\n")
    found = outcome(*given[:parts]).replace(str(here), "<here>").rstrip("\n") + "\n"
    if os.environ.get("UPDATE_GOLDEN"):
        case.write_text(f"{DIVIDER}\n".join([*given[:parts], found]), encoding="utf-8")
    else:
        assert len(given) == parts + 1, f"{case} lacks its expectation"
        assert found == given[parts]
