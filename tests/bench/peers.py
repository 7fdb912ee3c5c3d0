"""The peers a user may come from, each installed in an environment of its own: `python -m tests.bench.peers`.

They want older versions of what we use, so they cannot share ours. `.peers/NAME` holds each; running this again
installs what is missing. Text models alone are served: what a peer needs for pictures and sound is left out.
"""

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2] / ".peers"
BASE = (
    "mlx[cpu]==0.32.4", "mlx-cpu==0.32.4", "mlx-lm==0.31.3", "tokenizers<0.23", "huggingface-hub<2,>=1.1", "numpy",
    "pillow<13", "tqdm", "pyyaml<7", "requests<3", "tabulate<0.11", "psutil<8", "fastapi<0.163", "uvicorn<0.55",
    "mcp<2,>=1.9.3", "jsonschema<5,>=4.18", "llguidance<2,>=1.7.6",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Peer:
    """A server to compare with. `serve` is its command on a model directory, its first word in the environment's
    `bin`; `release` is installed without its dependencies, which are `needs` and BASE.
    """

    name: str
    release: str
    needs: tuple[str, ...]
    serve: tuple[str, ...]
    without: frozenset[str] = frozenset()
    """Fields of a request that it cannot serve on this machine."""

    @property
    def home(self) -> Path:
        return ROOT / self.name

    @property
    def ready(self) -> bool:
        return (self.home / ".installed").is_file()

    def command(self, model: Path, host: str, port: int) -> list[str]:
        program, *words = (word.format(model=model) for word in self.serve)
        return [str(self.home / "bin" / program), *words, "--host", host, "--port", str(port)]


# Their masks for a JSON schema are Metal kernels: elsewhere such a request fails.
_SCHEMA = frozenset() if sys.platform == "darwin" else frozenset({"response_format"})

PEERS = {
    peer.name: peer
    for peer in (
        Peer(
            "vllm-mlx",
            "vllm-mlx==0.6.0",
            ("transformers>=5,<5.9", "starlette>=1.0.1", "prometheus-client", "lm-format-enforcer", "pytz"),
            ("vllm-mlx", "serve", "{model}", "--continuous-batching"),
            _SCHEMA,
        ),
        Peer(
            "rapid-mlx",
            "rapid-mlx==0.16.10",
            (
                "tiktoken<0.14", "transformers>=5.0,!=5.13.0,<5.16", "safetensors<0.9", "pypdf<7,>=5", "tomli-w<2",
                "certifi<2027", "rich<16", "referencing<0.38", "argcomplete<4,>=3.6", "websockets<18",
                "openai-harmony<0.1",
            ),
            ("rapid-mlx", "serve", "{model}"),
            _SCHEMA,
        ),
    )
}  # fmt: skip


def install(peer: Peer) -> None:
    """Raises CalledProcessError; a half-made environment is finished by the next call."""
    print(f"== installing {peer.release} into {peer.home}", flush=True)
    subprocess.run([sys.executable, "-m", "venv", str(peer.home)], check=True)
    pip = [str(peer.home / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, *BASE, *peer.needs], check=True)
    subprocess.run([*pip, "--no-deps", peer.release], check=True)
    (peer.home / ".installed").touch()


def main() -> None:
    for peer in PEERS.values():
        if not peer.ready:
            install(peer)


if __name__ == "__main__":
    main()
