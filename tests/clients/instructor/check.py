"""Instructor: objects out of text and out of tool calls."""

import os
import unittest
from collections.abc import Iterable

import instructor
import openai
from instructor.core import InstructorRetryException
from pydantic import BaseModel


class weather(BaseModel):
    """Tell the weather."""

    city: str


def client(mode):
    return instructor.from_openai(
        openai.OpenAI(base_url=f"{os.environ['BASE_URL']}/v1", api_key="any", max_retries=0), mode=mode
    )


def asked(text, model="demo", **options):
    return {"model": model, "messages": [{"role": "user", "content": text}], "max_retries": 1, **options}


class Instructor(unittest.TestCase):
    def test_object_in_text_and_usage(self):
        create = client(instructor.Mode.MD_JSON).chat.completions.create_with_completion
        city, raw = create(response_model=weather, **asked("describe a city"))
        self.assertEqual(city.city, "Zürich")
        self.assertGreater(raw.usage.completion_tokens, 0)

    def test_streamed_object(self):
        create = client(instructor.Mode.MD_JSON).chat.completions.create_partial
        pieces = list(create(response_model=weather, **asked("describe a city")))
        self.assertEqual(pieces[-1].city, "Zürich")

    def test_tool_calls(self):
        create = client(instructor.Mode.PARALLEL_TOOLS).chat.completions.create
        calls = create(response_model=Iterable[weather], **asked("weather in two cities?"))
        self.assertEqual([call.city for call in calls], ["Bern", "Rom"])

    def test_unknown_model(self):
        with self.assertRaisesRegex(InstructorRetryException, "nothing"):
            client(instructor.Mode.MD_JSON).chat.completions.create(response_model=weather, **asked("hi", "nothing"))


unittest.main()
