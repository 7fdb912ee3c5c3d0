"""A model whose template and dialects do not agree says so, and serves nevertheless."""

import asyncio
from contextlib import aclosing

from appliance.control.generation import generate
from tests.process.site import PATIENT, composing

TEMPLATE = (
    "{% for t in tools or [] %}{{ t | tojson }}{% endfor %}{% for m in messages %}<|im_start|>{{ m.role }}\n"
    "{{ m.content }}{% for c in m.tool_calls or [] %}<tool_call>\n"
    '{"name": "{{ c.function.name }}", "arguments": {{ c.function.arguments | tojson }}}\n</tool_call>{% endfor %}'
    "<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


async def degraded(supervisor, changed, name, reason):
    """Wait until the model says this of itself."""
    async with asyncio.timeout(60):
        while True:
            [status] = [status for status in supervisor.status() if status.name == name]
            said = {condition.name: condition for condition in status.conditions}["Degraded"]
            if said.reason == reason:
                return said
            changed.clear()
            await changed.wait()


async def test_a_dialect_that_does_not_fit_is_named_at_load(site, tiny_vocab_llama):
    (site.directory / "hermes.jinja").write_text(TEMPLATE)
    common = {"source": str(tiny_vocab_llama), "template": {"file": "hermes.jinja"}, "context": 256}
    models = {"right": {**common, "family": "hermes"}, "wrong": {**common, "family": "qwen3-coder"}}
    changed = asyncio.Event()
    async with site.supervisor() as supervisor:
        supervisor.followers.changed = changed.set
        deployment = site.deployment(models)
        await supervisor.apply(deployment)
        events = generate(supervisor, deployment.models["wrong"], composing("hi", max_tokens=1), deadlines=PATIENT)
        async with aclosing(events):
            assert [event async for event in events]
        said = await degraded(supervisor, changed, "wrong", "DialectMismatch")
        assert "qwen3_coder" in said.message
        assert "hermes_json" in said.message
        assert (await degraded(supervisor, changed, "right", "NoFailure")).holds is False
        # Another dialect is looked at without a new load.
        await supervisor.apply(site.deployment({**models, "wrong": models["right"]}))
        await degraded(supervisor, changed, "wrong", "NoFailure")
