"""How long a 5 000-line deploy file takes to check: `python -m tests.config.speed`."""

import tempfile
import time
from pathlib import Path

from appliance.config import load
from appliance.config.problem import Rejected

LINES = 5000
MODEL = """\
  m{0}:
    source: hf:owner/name-{0}
    context: 16k
    idle_unload: 20m
    profile: p{1}
    sampling:
      temperature: 0.3
      stop: [a, b]
    policy:
      clamp:
        max_tokens: [1, 4k]
"""
ALIAS = "  a{0}:\n    model: m{1}\n    profile: p{2}\n    hidden: true\n"


def deploy_file() -> str:
    profiles = "".join(f"  p{i}:\n    sampling:\n      top_p: 0.9\n" for i in range(50))
    models = "".join(MODEL.format(i, i % 50) for i in range(250))
    head = f"version: 1\nprofiles:\n{profiles}models:\n{models}aliases:\n"
    rest = (LINES - head.count("\n")) // ALIAS.count("\n")
    return head + "".join(ALIAS.format(i, i % 250, i % 50) for i in range(rest))


def measure(name: str, text: str, directory: Path) -> None:
    file = directory / "deploy.yaml"
    file.write_text(text)
    began, problems = time.perf_counter(), 0
    try:
        load.read(file, environ={}, inspect=lambda *_: None, memory_bytes=2**34)
    except Rejected as rejected:
        problems = len(rejected.problems)
        str(rejected)
    print(f"{name}: {text.count(chr(10))} lines, {problems} problems, {time.perf_counter() - began:.2f} s")


if __name__ == "__main__":
    good = deploy_file()
    bad = (
        good.replace("idle_unload", "idel_unload").replace("profile: p", "profile: q").replace("model: m", "model: n")
    )
    with tempfile.TemporaryDirectory() as directory:
        measure("good, first in this process", good, Path(directory))
        measure("good", good, Path(directory))
        measure("bad", bad, Path(directory))
