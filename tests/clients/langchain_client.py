"""Tests `conclave serve` by LangChain, with tools and structured output as its documentation shows them.

`cargo xtask test --only long` starts the server, and passes its URL and key in CONCLAVE_SERVER and CONCLAVE_KEY.
"""

import os
import sys
import unittest
from typing import Literal

from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI, OpenAIEmbeddings
from pydantic import BaseModel, Field

SERVER = {"base_url": os.environ["CONCLAVE_SERVER"], "api_key": os.environ["CONCLAVE_KEY"], "max_retries": 0}
# Small models answer at length; the limit keeps the tests short.
BRIEF = {"model": "conclave", "temperature": 0, "max_tokens": 200}
# By chats, and by responses.
MODELS = [ChatOpenAI(**SERVER, **BRIEF, use_responses_api=responses) for responses in (False, True)]
QUESTION = "What is 347 + 85?"


@tool
def get_weather(location: Literal["Oslo", "San Francisco"]) -> str:
    """Get the weather in a location"""
    return f"It is sunny in {location}."


class Sentiment(BaseModel):
    """The sentiment of a text."""

    sentiment: Literal["positive", "neutral", "negative"] = Field(description="What the text says")
    sure: bool = Field(description="Whether the text leaves no doubt")


class LangChain(unittest.TestCase):
    def test_a_text_is_the_same_whole_and_streamed(self):
        for model in MODELS:
            answer = model.invoke(QUESTION)
            self.assertIn("432", answer.text)
            self.assertGreater(answer.usage_metadata["output_tokens"], 0)
            self.assertEqual("".join(chunk.text for chunk in model.stream(QUESTION)), answer.text)

    def test_a_tool_is_called_and_its_result_read(self):
        for model in MODELS:
            bound = model.bind_tools([get_weather], tool_choice="get_weather", parallel_tool_calls=False)
            messages = [HumanMessage("What is the weather in San Francisco?")]
            messages.append(bound.invoke(messages))
            (call,) = messages[-1].tool_calls
            self.assertEqual(call["name"], "get_weather")
            messages.append(get_weather.invoke(call))
            self.assertIsInstance(messages[-1], ToolMessage)
            self.assertIn("sunny", messages[-1].content)
            self.assertEqual(model.invoke(messages).tool_calls, [])

    def test_structured_output_has_its_schema(self):
        for model in MODELS:
            found = model.with_structured_output(Sentiment).invoke("Classify the sentiment: I love it.")
            self.assertIsInstance(found, Sentiment)
        calls = MODELS[0].with_structured_output(Sentiment, method="function_calling")
        self.assertIsInstance(calls.invoke("Classify the sentiment: I love it."), Sentiment)

    def test_texts_are_embedded(self):
        # Otherwise the tokens of one of OpenAI's models are sent in place of the text.
        embedder = OpenAIEmbeddings(**SERVER, model="Ada", check_embedding_ctx_length=False)
        one, other = embedder.embed_documents(["A cat sat on the mat.", "What is 3 + 4?"])
        asked = embedder.embed_query("A cat sat on the mat.")
        self.assertTrue(all(abs(a - b) < 1e-5 for a, b in zip(asked, one, strict=True)))
        self.assertLess(sum(a * b for a, b in zip(asked, other)), 0.999)


if __name__ == "__main__":
    result = unittest.main(exit=False, verbosity=2).result
    failed = len(result.failures) + len(result.errors)
    # In the format of Node's runner.
    print(f"# pass {result.testsRun - failed}\n# fail {failed}", flush=True)
    sys.exit(failed > 0)
