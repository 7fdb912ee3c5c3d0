"""Third-party clients against a running appliance: `python tests/clients/run.py [NAME…]`, a line for each.

A client is a directory here: what to install, in exact versions, and a script of checks. It gets an environment of
its own under .clients/, kept until its versions change, and the server's address as BASE_URL.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from tests.server.up import Up

HERE = Path(__file__).resolve().parent
DEPLOY = HERE / "deploy.yaml"
COMMAND_LINE = HERE / "command_line.mjs"
ENVIRONMENTS = HERE.parents[1] / ".clients"
PATIENCE = 600.0
"""Seconds; far longer than an installation or a client takes."""


@dataclass(frozen=True, slots=True)
class Kind:
    """How clients of one language are installed and run; `checks` and `versions` name the files in a directory."""

    versions: str
    checks: str
    needs: tuple[str, ...]
    environment: Callable[[str], Path]
    install: Callable[[Path, Path], Iterable[list[str]]]
    run: Callable[[Path, Path], list[str]]
    failed: re.Pattern[str]
    count: re.Pattern[str]


def _python(environment: Path) -> str:
    return str(environment / "bin/python")


def _install_python(environment: Path, versions: Path) -> Iterable[list[str]]:
    yield [sys.executable, "-m", "venv", "--clear", str(environment)]
    yield [
        _python(environment),
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        "-r",
        str(versions),
    ]


def _install_node(environment: Path, versions: Path) -> Iterable[list[str]]:
    shutil.rmtree(environment, ignore_errors=True)
    environment.mkdir(parents=True)
    shutil.copy(versions, environment)
    yield ["npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", str(environment)]


def _run_node(environment: Path, checks: Path) -> list[str]:
    """Modules are searched from where a script lies, so it and what it shares with others lie beside them."""
    shutil.copy(COMMAND_LINE, environment)
    return ["node", "--test-reporter=spec", shutil.copy(checks, environment)]


KINDS = (
    Kind(
        versions="requirements.txt",
        checks="check.py",
        needs=(),
        environment=lambda name: ENVIRONMENTS / name,
        install=_install_python,
        run=lambda environment, checks: [_python(environment), str(checks)],
        failed=re.compile(r"^(?:FAIL|ERROR): .*\(__main__\.([\w.]+)\)", re.MULTILINE),
        count=re.compile(r"^Ran (\d+) tests?", re.MULTILINE),
    ),
    Kind(
        versions="package.json",
        checks="check.mjs",
        needs=("node", "npm"),
        environment=lambda name: ENVIRONMENTS / "node" / name,
        install=_install_node,
        run=_run_node,
        failed=re.compile(r"^✖ (?!failing)(.+?) \(\d", re.MULTILINE),
        count=re.compile(r"^ℹ tests (\d+)", re.MULTILINE),
    ),
)
ERROR = re.compile(r"^\s*((?:\w+\.)*\w*(?:Error|Exception)\b.*)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Result:
    """`word` is passed, failed or skipped; `reason` fits on the line."""

    word: str
    reason: str


def check(name: str, kind: Kind, url: str) -> Result:
    """Install one client where that is needed and run its checks; all they printed is in .clients/NAME.log."""
    if missing := [tool for tool in kind.needs if shutil.which(tool) is None]:
        return Result("skipped", f"{' and '.join(missing)} not found: install Node 20 or newer")
    environment = kind.environment(name)
    log = ENVIRONMENTS / f"{name}.log"
    if wrong := _install(environment, HERE / name / kind.versions, kind):
        return Result("failed", f"cannot be installed: {wrong}")
    kept = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "OPENAI_API_KEY")}
    done = _call(kind.run(environment, HERE / name / kind.checks), {**kept, "BASE_URL": url})
    log.write_text(done.stdout)
    count = found[1] if (found := kind.count.search(done.stdout)) else "0"
    if done.returncode == 0 and count != "0":
        return Result("passed", f"{count} checks")
    first = kind.failed.search(done.stdout)
    names = "; ".join(dict.fromkeys(kind.failed.findall(done.stdout))) or "its script"
    cause = ERROR.search(done.stdout, first.end() if first else 0)
    said = cause[1][:200] if cause else f"exit {done.returncode}"
    return Result("failed", f"{names}: {said} (see {log.relative_to(ENVIRONMENTS.parent)})")


def _install(environment: Path, versions: Path, kind: Kind) -> str | None:
    """What went wrong; an environment with these versions is left as it is."""
    stamp = environment / ".installed"
    if stamp.exists() and stamp.read_text() == versions.read_text():
        return None
    for command in kind.install(environment, versions):
        if (done := _call(command, dict(os.environ))).returncode != 0:
            said = done.stdout.splitlines() or [f"{command[0]} ended with {done.returncode}"]
            return said[-1][:200]
    stamp.write_text(versions.read_text())
    return None


def _call(command: list[str], environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=PATIENCE,
    )


def main(wanted: list[str]) -> int:
    """0 where no client failed, 1 where one did, 2 for a name that is none."""
    clients = {path.parent.name: kind for kind in KINDS for path in sorted(HERE.glob(f"*/{kind.checks}"))}
    if unknown := [name for name in wanted if name not in clients]:
        print(f"no such client: {', '.join(unknown)}; there are {', '.join(clients)}", file=sys.stderr)
        return 2
    ENVIRONMENTS.mkdir(exist_ok=True)
    words = []
    with tempfile.TemporaryDirectory() as home, Up.start(DEPLOY, env={**os.environ, "APPLIANCE_HOME": home}) as up:
        for name in wanted or clients:
            result = check(name, clients[name], up.url)
            words.append(result.word)
            print(f"{result.word:8} {name:15} {result.reason}", flush=True)
    print(", ".join(f"{words.count(word)} {word}" for word in ("passed", "failed", "skipped")))
    return 1 if "failed" in words else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
