"""How each server under test is started: on the same model directory, with the same BLAS, on this machine only."""

import http.client
import json
import os
import platform
import socket
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from appliance.control import blas
from tests.bench.peers import PEERS
from tests.bench.process import running

HOST = "127.0.0.1"
START_SECONDS = 120
POLL_SECONDS = 0.005


class StartFailed(RuntimeError):
    """A server ended, or was not up in time."""


@dataclass(frozen=True, slots=True)
class Server:
    """A server that answers. `start_seconds` is the time from starting its process to the first 200."""

    name: str
    port: int
    model: str
    pid: int
    start_seconds: float
    without: frozenset[str] = frozenset()
    """Fields of a request that it cannot serve on this machine; they are left out."""

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.port}"


@contextmanager
def appliance(source: str, directory: Path, *, idle_unload: str = "never", concurrency: int = 16) -> Iterator[Server]:
    """`appliance up` with one lazy model; the deploy file and the log are written to `directory`."""
    port = free_port()
    model = {"source": source, "idle_unload": idle_unload, "concurrency": concurrency}
    deploy = {"version": 1, "server": {"listen": f"{HOST}:{port}"}, "models": {"bench": model}}
    with serving(json.dumps(deploy), port, directory, dict(os.environ)) as server:  # JSON is YAML
        yield server


@contextmanager
def serving(deploy: str, port: int, directory: Path, environ: Mapping[str, str]) -> Iterator[Server]:
    """`appliance up` with this text as `deploy.yaml` in `directory`."""
    file = directory / "deploy.yaml"
    file.write_text(deploy)
    command = [sys.executable, "-m", "appliance", "up", "--file", str(file)]
    with _started("appliance", command, environ, directory, port, "bench", "/healthz") as server:
        yield server


@contextmanager
def mlx_lm_server(path: Path, directory: Path) -> Iterator[Server]:
    """`mlx_lm.server` on a model directory; it loads with its first request."""
    port = free_port()
    command = [sys.executable, "-m", "mlx_lm", "server", "--model", str(path), "--host", HOST, "--port", str(port)]
    name, model = "mlx_lm.server", "default_model"
    with _started(name, command, engine_environ(), directory, port, model, "/health") as server:
        yield server


@contextmanager
def peer(name: str, path: Path, directory: Path) -> Iterator[Server]:
    """A peer that `python -m tests.bench.peers` installed, on a model directory. Raises StartFailed without it."""
    theirs, port = PEERS[name], free_port()
    if not theirs.ready:
        raise StartFailed(f"{name} is not installed: run python -m tests.bench.peers")
    environ = engine_environ() | {"HOME": str(directory)}
    command = theirs.command(path, HOST, port)
    with _started(name, command, environ, directory, port, str(path), "/v1/models") as server:
        yield replace(server, without=theirs.without)


def engine_environ() -> dict[str, str]:
    """The environment our engines get, BLAS preload included, for whoever is compared with them."""
    preload = blas.choose(
        "auto", platform=sys.platform, machine=platform.machine(), cpu_backend=blas.mlx_is_cpu_only()
    )
    environ = {**os.environ, "HF_HUB_OFFLINE": "1"}
    return environ | blas.environment(preload, environ, len(os.sched_getaffinity(0)))


def free_port() -> int:
    """A port nobody listens on at the moment."""
    with socket.create_server((HOST, 0)) as sock:
        return int(sock.getsockname()[1])


@contextmanager
def _started(
    name: str, command: list[str], environ: Mapping[str, str], directory: Path, port: int, model: str, health: str
) -> Iterator[Server]:
    log, begun = directory / f"{name}.log", time.perf_counter()
    with running(command, environ, log) as process:
        while not _is_up(port, health):
            if process.poll() is not None or time.perf_counter() - begun > START_SECONDS:
                raise StartFailed(f"{name} did not start:\n{log.read_text(errors='replace')[-2000:]}")
            time.sleep(POLL_SECONDS)
        yield Server(name, port, model, process.pid, time.perf_counter() - begun)


def _is_up(port: int, path: str) -> bool:
    connection = http.client.HTTPConnection(HOST, port, timeout=5)
    try:
        connection.request("GET", path)
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()
