"""LlamaIndex's OpenAILike: chat, stream, complete and tools."""

import os
import unittest

import openai
from llama_index.core.llms import ChatMessage
from llama_index.core.tools import FunctionTool
from llama_index.llms.openai_like import OpenAILike


def weather(city: str) -> str:
    """Tell the weather."""
    return "it is sunny"


TOOL = FunctionTool.from_defaults(weather)


def model(name="demo", **options):
    base = f"{os.environ['BASE_URL']}/v1"
    options = {"is_chat_model": True, "is_function_calling_model": True, "max_retries": 0, **options}
    return OpenAILike(model=name, api_base=base, api_key="any", context_window=4096, **options)


def asked(text):
    return [ChatMessage(role="user", content=text)]


class LlamaIndex(unittest.TestCase):
    def test_answer_and_usage(self):
        answer = model().chat(asked("hi"))
        self.assertEqual(answer.message.content, "You said: hi")
        self.assertGreater(answer.raw.usage.completion_tokens, 0)

    def test_stream_and_usage(self):
        chunks = list(model(additional_kwargs={"stream_options": {"include_usage": True}}).stream_chat(asked("hi")))
        self.assertEqual("".join(chunk.delta or "" for chunk in chunks), "You said: hi")
        self.assertGreater(chunks[-1].raw.usage.completion_tokens, 0)

    def test_raw_completion_streamed_and_not(self):
        plain = model(is_chat_model=False)
        self.assertEqual(plain.complete("it is sunny").text, "Take a hat.")
        self.assertEqual("".join(c.delta or "" for c in plain.stream_complete("it is sunny")), "Take a hat.")

    def test_tool_call_and_its_result(self):
        answer = model().predict_and_call([TOOL], user_msg="weather in Zürich?")
        self.assertEqual(answer.response, "it is sunny")

    def test_streamed_tool_call(self):
        last = list(model().stream_chat_with_tools([TOOL], user_msg="weather in Zürich?"))[-1]
        calls = model().get_tool_calls_from_response(last)
        self.assertEqual([(c.tool_name, c.tool_kwargs) for c in calls], [("weather", {"city": "Zürich"})])

    def test_unknown_model(self):
        with self.assertRaisesRegex(openai.NotFoundError, "nothing"):
            model("nothing").chat(asked("hi"))


unittest.main()
