"""LiteLLM: its openai provider on chat completions, its anthropic provider on messages."""

import json
import os
import unittest

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
import litellm

litellm.suppress_debug_info = True
CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOL = {"type": "function", "function": {"name": "weather", "description": "Tell the weather.", "parameters": CITY}}


class OpenAI(unittest.TestCase):
    provider, base = "openai", f"{os.environ['BASE_URL']}/v1"

    def ask(self, text="hi", model="demo", **options):
        options = {"api_base": self.base, "api_key": "any", "max_tokens": 200, "num_retries": 0, **options}
        asked = [{"role": "user", "content": text}]
        return litellm.completion(model=f"{self.provider}/{model}", messages=asked, **options)

    def streamed(self, text="hi", model="demo", **options):
        usage = {"include_usage": True}
        return litellm.stream_chunk_builder(list(self.ask(text, model, stream=True, stream_options=usage, **options)))

    def test_answer_and_usage_streamed_and_not(self):
        whole, streamed = self.ask(), self.streamed()
        for answer in (whole, streamed):
            self.assertEqual(answer.choices[0].message.content, "You said: hi")
            self.assertEqual(answer.usage.prompt_tokens, whole.usage.prompt_tokens)
            self.assertEqual(answer.usage.completion_tokens, whole.usage.completion_tokens)

    def test_tool_call_streamed_and_not(self):
        for ask in (self.ask, self.streamed):
            (choice,) = ask("weather in Zürich?", tools=[TOOL]).choices
            self.assertEqual(choice.finish_reason, "tool_calls")
            self.assertEqual(json.loads(choice.message.tool_calls[0].function.arguments), {"city": "Zürich"})

    def test_reasoning_streamed_and_not(self):
        for ask in (self.ask, self.streamed):
            message = ask("ponder", "thinker").choices[0].message
            self.assertEqual((message.reasoning_content, message.content), ("hm, hm", "yes"))

    def test_unknown_model(self):
        for ask in (self.ask, self.streamed):
            self.assertRaisesRegex(litellm.NotFoundError, "nothing", ask, model="nothing")


class Anthropic(OpenAI):
    provider, base = "anthropic", os.environ["BASE_URL"]


unittest.main()
