"""LangChain: chat completions and responses, streamed and not."""

import functools
import operator
import os
import unittest

import openai
from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI


@tool
def weather(city: str) -> str:
    """Tell the weather."""
    return "it is sunny"


class Chat(unittest.TestCase):
    responses = False

    def model(self, name="demo"):
        base = f"{os.environ['BASE_URL']}/v1"
        options = {"max_retries": 0, "stream_usage": True, "use_responses_api": self.responses}
        return ChatOpenAI(model=name, base_url=base, api_key="any", **options)

    def test_answer_and_usage(self):
        answer = self.model().invoke("hi")
        self.assertEqual(answer.text, "You said: hi")
        usage = answer.usage_metadata
        self.assertEqual(usage["input_tokens"] + usage["output_tokens"], usage["total_tokens"])

    def test_stream_and_usage(self):
        answer = functools.reduce(operator.add, self.model().stream("hi"))
        self.assertEqual(answer.text, "You said: hi")
        self.assertGreater(answer.usage_metadata["output_tokens"], 0)

    def test_tool_call_and_its_result(self):
        agent, asked = self.model().bind_tools([weather]), [HumanMessage("weather in Zürich?")]
        answer = agent.invoke(asked)
        (call,) = answer.tool_calls
        self.assertEqual(call["args"], {"city": "Zürich"})
        result = ToolMessage(weather.invoke(call["args"]), tool_call_id=call["id"])
        self.assertEqual(agent.invoke([*asked, answer, result]).text, "Take a hat.")

    def test_streamed_tool_calls(self):
        agent = self.model().bind_tools([weather])
        answer = functools.reduce(operator.add, agent.stream("weather in two cities?"))
        self.assertEqual([call["args"]["city"] for call in answer.tool_calls], ["Bern", "Rom"])

    def test_unknown_model(self):
        self.assertRaisesRegex(openai.NotFoundError, "nothing", self.model("nothing").invoke, "hi")


class Responses(Chat):
    responses = True


unittest.main()
