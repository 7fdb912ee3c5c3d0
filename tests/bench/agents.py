"""Eight agents at once behind one system prompt and tool list, beside other servers: `python -m tests.bench.agents`.

Each takes three turns; each request has its own temperature, top_p and seed, and one of three answers stands under a
JSON schema. What counts is the time until the last agent is done.
"""

import asyncio
import json
import tempfile
from argparse import Namespace
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random
from statistics import median
from time import perf_counter
from typing import Any

import aiohttp

from tests.bench import client, models, report
from tests.bench.compare import start, turned
from tests.bench.compared import OURS, SERVER
from tests.bench.process import Noise, cpu_seconds, exit_on_sigterm, own_cpu_seconds, wait_quiet
from tests.bench.prompts import REQUEST, words
from tests.bench.servers import Server
from tests.bench.stats import interval, markdown

AGENTS, TURNS, SYSTEM_TOKENS, TOKENS = 8, 3, 600, 24
STEPS = ["read", "write", "run", "ask"]
FORM = {
    "type": "object",
    "properties": {"steps": {"type": "array", "items": {"enum": STEPS}, "minItems": 30}},
    "required": ["steps"],
    "additionalProperties": False,
}
"""Longer than the answer may be: what is there must begin such an object."""
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": name,
            "description": f"{name} a file of the project",
            "parameters": {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]},
        },
    }
    for name in ("read", "write", "run", "search")
]


@dataclass(frozen=True, slots=True)
class Run:
    """All agents of a round on one target. `formed` of `forms` answers under the schema kept to it."""

    round: int
    target: str
    seconds: float
    tokens: int
    forms: int
    formed: int
    other_cores: float


def main() -> None:
    parser = report.options(__doc__)
    parser.add_argument("--beside", type=lambda text: text.split(","), default=[SERVER, "vllm-mlx", "rapid-mlx"])
    exit_on_sigterm()
    asyncio.run(_compare(parser.parse_args()))


async def _compare(asked: Namespace) -> None:
    runs = list[Run]()
    with ExitStack() as started:
        directory, path = Path(started.enter_context(tempfile.TemporaryDirectory())), models.directory(asked.model)
        targets = [started.enter_context(start(name, path, directory)) for name in (OURS, *asked.beside)]
        async with client.connections() as session:
            for target in targets:
                await _agent(session, target, "warm-up", 0)
            for number in range(asked.rounds):
                for target in turned(targets, number):
                    await asyncio.to_thread(wait_quiet, asked.wait_quiet)
                    runs.append(await _run(session, target, number))
                    print(runs[-1], flush=True)
                    report.save(asked, {"runs": [asdict(run) for run in runs]})
    print(table(runs))


async def _run(session: aiohttp.ClientSession, server: Server, number: int) -> Run:
    noise, begun = Noise(lambda: own_cpu_seconds() + cpu_seconds(server.pid)), perf_counter()
    done = await asyncio.gather(*(_agent(session, server, str(number), agent) for agent in range(AGENTS)))
    seconds = perf_counter() - begun
    forms = [formed for _, agent in done for formed in agent]
    return Run(number, server.name, seconds, sum(tokens for tokens, _ in done), len(forms), sum(forms), noise.cores())


async def _agent(session: aiohttp.ClientSession, server: Server, seed: str, agent: int) -> tuple[int, list[bool]]:
    """Its turns one after the other: tokens answered, and whether each answer under the schema began as one."""
    chat = [{"role": "system", "content": words(SYSTEM_TOKENS, f"system-{seed}")}]
    tokens, forms = 0, list[bool]()
    for turn in range(TURNS):
        random = Random(f"{seed}-{agent}-{turn}")
        chat.append({"role": "user", "content": f"{words(20, f'{seed}-{agent}-{turn}')}. {REQUEST}"})
        formed = (agent + turn) % 3 == 0
        answer = await client.ask(session, server, chat, TOKENS, extra=_extra(random, formed))
        chat.append({"role": "assistant", "content": answer.text})
        tokens += answer.tokens
        forms += [_begins(answer.text)] if formed else []
    return tokens, forms


def _extra(random: Random, formed: bool) -> dict[str, Any]:
    schema = {"type": "json_schema", "json_schema": {"name": "steps", "strict": True, "schema": FORM}}
    return {
        "temperature": round(random.uniform(0.2, 1.0), 2),
        "top_p": round(random.uniform(0.8, 0.99), 2),
        "seed": random.randrange(1 << 31),
        "min_tokens": TOKENS,
        "tools": TOOLS,
        "tool_choice": "none",
    } | ({"response_format": schema} if formed else {})


def _begins(text: str) -> bool:
    """Whether the text, cut at its last whole step and closed, is an object of the form."""
    try:
        whole = json.loads(text.rsplit(",", 1)[0].rstrip() + "]}")
    except ValueError:
        return False
    return list(whole) == ["steps"] and all(step in STEPS for step in whole["steps"])


def table(runs: list[Run]) -> str:
    """Medians, and our time over each other's by round."""
    rows = list[list[object]]()
    ours = {run.round: run for run in runs if run.target == OURS}
    for target in dict.fromkeys(run.target for run in runs):
        mine = [run for run in runs if run.target == target]
        ratios = [ours[run.round].seconds / run.seconds for run in mine if run.round in ours]
        kept = f"{sum(run.formed for run in mine)}/{sum(run.forms for run in mine)}"
        tokens = f"{median(run.tokens for run in mine):.0f}"
        noise = f"{max(run.other_cores for run in mine):.2f}"
        rows.append([target, f"{median(run.seconds for run in mine):.1f}", interval(ratios), tokens, kept, noise])
    return markdown(["target", "seconds", f"{OURS} to it", "tokens", "kept the schema", "other cores, most"], rows)


if __name__ == "__main__":
    main()
