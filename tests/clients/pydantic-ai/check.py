"""Pydantic AI: agents over chat completions and responses."""

import os
import unittest

from openai import AsyncOpenAI
from pydantic_ai import Agent, ModelHTTPError, Tool
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.openai import OpenAIProvider


def weather(city: str) -> str:
    """Tell the weather."""
    return f"it is sunny in {city}"


# Otherwise it asks for calls held to a grammar, for which a script has no vocabulary.
LOOSE = Tool(weather, strict=False)


class Chat(unittest.IsolatedAsyncioTestCase):
    kind = OpenAIChatModel

    def agent(self, name="demo", **options):
        client = AsyncOpenAI(base_url=f"{os.environ['BASE_URL']}/v1", api_key="any", max_retries=0)
        self.addAsyncCleanup(client.close)
        return Agent(self.kind(name, provider=OpenAIProvider(openai_client=client)), **options)

    async def test_answer_and_usage(self):
        result = await self.agent().run("hi")
        self.assertEqual(result.output, "You said: hi")
        self.assertGreater(result.usage.output_tokens, 0)

    async def test_stream_and_usage(self):
        async with self.agent().run_stream("hi") as result:
            pieces = [piece async for piece in result.stream_text(delta=True, debounce_by=None)]
        self.assertEqual("".join(pieces), "You said: hi")
        self.assertGreater(result.usage.output_tokens, 0)

    async def test_tool_call_and_its_result(self):
        result = await self.agent(tools=[LOOSE]).run("weather in Zürich?")
        self.assertEqual(result.output, "Take a hat.")

    async def test_streamed_tool_call_and_its_result(self):
        async with self.agent(tools=[LOOSE]).run_stream("weather in two cities?") as result:
            self.assertEqual(await result.get_output(), "Take a hat.")

    async def test_unknown_model(self):
        with self.assertRaises(ModelHTTPError) as caught:
            await self.agent("nothing").run("hi")
        self.assertEqual(caught.exception.status_code, 404)
        self.assertEqual(caught.exception.body["code"], "model_not_found")


class Responses(Chat):
    kind = OpenAIResponsesModel


unittest.main()
